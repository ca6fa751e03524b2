"""Which server gets which credentials, and that nothing else shows them."""

from __future__ import annotations

import asyncio
import logging
import os
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from lochan.base.errors import (
    Denied,
    Invalid,
    InvalidUrl,
    LochanError,
    NotFound,
    Unauthenticated,
    Unavailable,
    Unknown,
)
from lochan.base.limits.client import TOKEN_BYTES_MAX
from lochan.client import AsyncClient, Client
from lochan.client.credentials import find_credentials
from lochan.client.profiles import Profile, ProfileFile
from lochan.model.commits import Put
from lochan.model.contents import Namespace
from tests.client.serving import Guard, StepByStep, serving

CANARY = "lochan_1_opensesame"
SERVER = "https://catalog.example/lake"


@pytest.fixture
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProfileFile:
    """An empty file of profiles."""
    path = tmp_path / "config" / "credentials.toml"
    monkeypatch.setenv("LOCHAN_CREDENTIALS", str(path))
    return ProfileFile()


@pytest.fixture
def guarded() -> Iterator[tuple[str, Guard]]:
    """A server that accepts one token and one access key, and what it was sent."""
    pair = b64encode(b"id:secret").decode()
    guard = Guard(f"Bearer {CANARY}", f"Basic {pair}")
    with serving("memory:", "sales", guard=guard) as url:
        yield url, guard


def header_for(url: str, **given: Any) -> str | None:
    found = find_credentials(url, **given)
    return None if found is None else found.authorization()


def environment(monkeypatch: pytest.MonkeyPatch, server: str, **more: str) -> None:
    values = {"LOCHAN_TOKEN": CANARY, "LOCHAN_TOKEN_URI": server, **more}
    for name, value in values.items():
        monkeypatch.setenv(name, value)


class TestWhatIsPassed:
    """Tokens, functions and access keys that the caller passes."""

    def test_a_token_an_access_key_and_a_header_open_the_server(self, guarded):
        url, guard = guarded
        given: tuple[dict[str, Any], ...] = (
            {"token": CANARY},
            {"token": lambda: CANARY},
            {"access_key": ("id", "secret")},
            {"headers": {"Authorization": f"Bearer {CANARY}"}},
        )
        for each in given:
            with Client(url, **each) as client:
                client.references.create("dev")
                client.references.delete("dev")
            waiting: Any = StepByStep(url, "sales", **each)
            waiting.references.get("main")
            waiting.close()
        assert None not in guard.seen

    def test_a_function_is_called_for_each_request(self, guarded):
        url, guard = guarded
        tokens = iter(["first", "second", CANARY])
        with Client(url, token=lambda: next(tokens)) as client:
            for _ in range(2):
                with pytest.raises(Unauthenticated):
                    client.config()
            client.config()
        assert guard.seen == ["Bearer first", "Bearer second", f"Bearer {CANARY}"]

    @pytest.mark.parametrize(
        "token", ["", "two words", "line\nbreak", "tab\t", "é", "x" * (TOKEN_BYTES_MAX + 1)]
    )
    def test_what_cannot_be_a_token_is_refused_and_not_repeated(self, token):
        for given in (token, lambda: token):
            with pytest.raises(Invalid) as refusal:
                header_for(SERVER, token=given)
            assert not token or token not in refusal.value.message

    def test_a_function_that_returns_no_text_is_refused(self):
        with pytest.raises(Invalid, match="not a value of type NoneType"):
            header_for(SERVER, token=lambda: None)

    @pytest.mark.parametrize(
        "pair", [("", "secret"), ("id", ""), ("a:b", "secret"), ("id", "opensesame\n")]
    )
    def test_what_cannot_be_an_access_key_is_refused_and_not_repeated(self, pair):
        with pytest.raises(Invalid) as refusal:
            Client(SERVER, access_key=pair)
        assert "opensesame" not in refusal.value.message

    @pytest.mark.parametrize(
        "given",
        [
            {"token": "a", "access_key": ("b", "c")},
            {"token": "a", "profile": "b"},
            {"token": "a", "headers": {"AUTHORIZATION": "Bearer b"}},
        ],
    )
    def test_two_kinds_at_once_are_refused(self, given):
        with pytest.raises(Invalid, match="give one of"):
            Client(SERVER, **given)

    def test_a_header_that_cannot_be_sent_is_refused_and_not_repeated(self):
        for name, value in (("x-key", "open\nsesame"), ("x key", "opensesame"), ("x", "é")):
            with pytest.raises(Invalid) as refusal:
                Client(SERVER, headers={name: value})
            assert "sesame" not in refusal.value.message


class TestTheEnvironment:
    """LOCHAN_TOKEN and LOCHAN_TOKEN_FILE, for the server of LOCHAN_TOKEN_URI."""

    @pytest.mark.parametrize(
        "url",
        [
            SERVER,
            f"{SERVER}/",
            f"{SERVER}/api/v1",
            f"{SERVER}/r/sales",
            f"{SERVER}/r/team%2Fa/api/v2",
            "https://CATALOG.example:443/lake",
        ],
    )
    def test_the_token_goes_to_the_server_that_it_belongs_to(self, monkeypatch, url):
        environment(monkeypatch, f"{SERVER}/api/v2")
        assert header_for(url) == f"Bearer {CANARY}"
        with Client(url) as client:
            assert client._core.credentials is not None

    @pytest.mark.parametrize(
        "url",
        [
            "http://attacker:80",
            "http://catalog.example/lake",
            "https://catalog.example:444/lake",
            "https://catalog.example",
            "https://catalog.example/other",
            "https://catalog.example/lake/../other",
            "https://catalog.example/lake/r/a/../../../other",
            "https://catalog.example/lake/r/%2e%2e%2f%2e%2e%2fother",
            "https://catalog.example/lake/r/%252e%252e",
            "https://catalog.example/lake/r/a/b",
            "https://catalog.example.attacker.example/lake",
        ],
    )
    def test_the_token_goes_nowhere_else(self, monkeypatch, url):
        environment(monkeypatch, SERVER)
        assert header_for(url) is None

    @pytest.mark.parametrize("name", ["LOCHAN_TOKEN", "LOCHAN_TOKEN_FILE"])
    def test_without_the_address_that_it_belongs_to_the_token_is_refused(self, monkeypatch, name):
        monkeypatch.setenv(name, CANARY)
        with pytest.raises(Invalid, match=f"{name} is set and LOCHAN_TOKEN_URI is not") as refusal:
            Client(SERVER)
        assert CANARY not in refusal.value.message

    def test_a_token_and_a_file_at_once_are_refused(self, monkeypatch):
        environment(monkeypatch, SERVER, LOCHAN_TOKEN_FILE="/run/token")
        with pytest.raises(Invalid, match="both set"):
            Client(SERVER)

    def test_what_is_passed_wins_over_the_environment(self, monkeypatch):
        environment(monkeypatch, SERVER)
        assert header_for(SERVER, token="mine") == "Bearer mine"
        assert header_for(SERVER, header="Basic mine") == "Basic mine"

    def test_a_token_file_is_read_again_when_it_was_replaced(self, monkeypatch, tmp_path, guarded):
        url, guard = guarded
        file = tmp_path / "token"
        file.write_text("first\n")
        monkeypatch.setenv("LOCHAN_TOKEN_FILE", str(file))
        monkeypatch.setenv("LOCHAN_TOKEN_URI", url)
        with Client(url) as client:
            with pytest.raises(Unauthenticated, match="the token of LOCHAN_TOKEN_FILE"):
                client.config()
            (tmp_path / "new").write_text(CANARY)
            (tmp_path / "new").replace(file)
            client.config()
            file.write_text("again")
            with pytest.raises(Unauthenticated):
                client.config()
        assert guard.seen == ["Bearer first", f"Bearer {CANARY}", "Bearer again"]

    def test_a_token_file_that_is_old_is_read_once(self, monkeypatch, tmp_path):
        file = tmp_path / "token"
        file.write_text(CANARY)
        monkeypatch.setattr("lochan.client.secret_files._SETTLED_NS", -(10**18))
        monkeypatch.setenv("LOCHAN_TOKEN_FILE", str(file))
        monkeypatch.setenv("LOCHAN_TOKEN_URI", SERVER)
        found = find_credentials(SERVER)
        assert found is not None
        read: list[Path] = []
        opened = Path.open

        def count(path: Path, *how: Any) -> Any:
            read.append(path)
            return opened(path, *how)

        monkeypatch.setattr(Path, "open", count)
        assert {found.authorization() for _ in range(5)} == {f"Bearer {CANARY}"}
        assert read == [file]

    @pytest.mark.parametrize("content", ["", "two words", "a\nb", "\xff", "x" * 20_000])
    def test_a_file_without_a_token_is_refused_and_not_repeated(
        self, monkeypatch, tmp_path, content
    ):
        file = tmp_path / "token"
        file.write_text(content)
        monkeypatch.setenv("LOCHAN_TOKEN_FILE", str(file))
        monkeypatch.setenv("LOCHAN_TOKEN_URI", "http://127.0.0.1:9")
        with Client("http://127.0.0.1:9") as client, pytest.raises(Invalid) as refusal:
            client.config()
        assert str(file) in refusal.value.message
        assert not content or content not in refusal.value.message

    def test_a_file_that_is_missing_is_named(self, monkeypatch, tmp_path):
        monkeypatch.setenv("LOCHAN_TOKEN_FILE", str(tmp_path / "missing"))
        monkeypatch.setenv("LOCHAN_TOKEN_URI", SERVER)
        with pytest.raises(Invalid, match="missing, which LOCHAN_TOKEN_FILE names, cannot be read"):
            header_for(SERVER)


class TestProfiles:
    """Profiles of `lochan login`."""

    def test_the_profile_of_a_server_is_used(self, profiles, guarded):
        url, guard = guarded
        profiles.store("anything", Profile(url=url, token=CANARY))
        with Client(url) as client:
            client.config()
            profiles.store("anything", Profile(url=url, token="renewed"))
            with pytest.raises(Unauthenticated, match="the profile 'anything'"):
                client.config()
            profiles.remove("anything")
            with pytest.raises(Unauthenticated, match="the profile 'anything' was removed"):
                client.config()
        assert guard.seen == [f"Bearer {CANARY}", "Bearer renewed"]
        assert header_for("http://127.0.0.1:9") is None

    def test_one_of_several_profiles_of_a_server_is_named(self, profiles, monkeypatch):
        profiles.store("a", Profile(url=SERVER, token="of-a"))
        profiles.store("b", Profile(url=f"{SERVER}/api/v2", token="of-b"))
        profiles.store("elsewhere", Profile(url="https://other", token="of-other"))
        with pytest.raises(Invalid, match="the profiles a, b are for this server"):
            Client(SERVER)
        assert header_for(SERVER, profile="a") == "Bearer of-a"
        monkeypatch.setenv("LOCHAN_PROFILE", "b")
        assert header_for(SERVER) == "Bearer of-b"
        assert header_for("https://other") == "Bearer of-other"
        monkeypatch.delenv("LOCHAN_PROFILE")
        profiles.store("default", Profile(url=SERVER, token="of-default"))
        assert header_for(SERVER) == "Bearer of-default"

    def test_a_profile_goes_to_its_own_server_only(self, profiles):
        profiles.store("a", Profile(url=SERVER, token=CANARY))
        with pytest.raises(Invalid, match=f"belongs to {SERVER}") as refusal:
            Client("https://attacker", profile="a")
        assert CANARY not in refusal.value.message

    def test_a_profile_that_is_missing_is_an_error(self, profiles, monkeypatch):
        with pytest.raises(NotFound, match="no profile 'a'"):
            Client(SERVER, profile="a")
        monkeypatch.setenv("LOCHAN_PROFILE", "a")
        with pytest.raises(NotFound, match="no profile 'a'"):
            Client(SERVER)

    def test_the_environment_wins_over_a_profile_of_the_same_server(self, profiles, monkeypatch):
        profiles.store("default", Profile(url=SERVER, token="stored"))
        environment(monkeypatch, SERVER)
        assert header_for(SERVER) == f"Bearer {CANARY}"
        monkeypatch.setenv("LOCHAN_TOKEN_URI", "https://other")
        assert header_for(SERVER) == "Bearer stored"


class TestEncryption:
    """Without encryption, credentials stay on this machine."""

    REMOTE = "http://catalog.example"

    @pytest.mark.parametrize(
        "given",
        [{"token": CANARY}, {"access_key": ("id", CANARY)}, {"headers": {"authorization": CANARY}}],
    )
    def test_nothing_goes_to_another_machine_over_plain_http(self, given):
        for kind in (Client, AsyncClient):
            with pytest.raises(Invalid, match="over plain http to another machine") as refusal:
                kind(self.REMOTE, **given)
            assert CANARY not in refusal.value.message
        with Client(self.REMOTE, insecure=True, **given) as client:
            assert client._core.credentials is not None

    def test_the_environment_and_a_profile_may_allow_it(self, monkeypatch, profiles):
        environment(monkeypatch, self.REMOTE)
        with pytest.raises(Invalid, match="plain http"):
            Client(self.REMOTE)
        monkeypatch.setenv("LOCHAN_TOKEN_INSECURE", "true")
        assert header_for(self.REMOTE) == f"Bearer {CANARY}"
        monkeypatch.delenv("LOCHAN_TOKEN")
        profiles.store("a", Profile(url=self.REMOTE, token="stored"))
        with pytest.raises(Invalid, match="plain http"):
            Client(self.REMOTE)
        profiles.store("a", Profile(url=self.REMOTE, token="stored", insecure=True))
        assert header_for(self.REMOTE) == "Bearer stored"

    @pytest.mark.parametrize(
        "url", ["http://localhost:1", "http://127.0.0.1:1", "http://127.8.9.1", "http://[::1]:1"]
    )
    def test_this_machine_needs_none(self, url):
        assert header_for(url, token=CANARY) == f"Bearer {CANARY}"

    @pytest.mark.parametrize(
        "url", ["http://127.0.0.1.attacker.example", "http://localhost.example", "http://10.0.0.1"]
    )
    def test_what_only_looks_like_this_machine_is_another(self, url):
        with pytest.raises(Invalid, match="plain http"):
            Client(url, token=CANARY)


class Redirecting(httpx.BaseTransport):
    """Answers every request with a redirect to another server, and counts requests by host."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.hosts: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.hosts.append(request.url.host)
        return httpx.Response(self.status, headers={"location": "https://attacker/api/v2/config"})


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_never_followed(status):
    transport = Redirecting(status)
    not_followed = pytest.raises(Invalid, match="a redirect, which is not followed")
    with Client(SERVER, token=CANARY, transport=transport) as client, not_followed:
        client.config()
    assert transport.hosts == ["catalog.example"]


@pytest.mark.parametrize(("status", "kind"), [(401, Unauthenticated), (403, Denied)])
def test_a_refusal_is_not_sent_again(status, kind):
    sent: list[httpx.Request] = []

    def refuse(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(status, json={"message": "no"})

    transport = httpx.MockTransport(refuse)
    with (
        Client(SERVER, token=CANARY, transport=transport) as client,
        pytest.raises(kind) as refusal,
    ):
        client.commits.commit("main", "m", [_put()], expected="ab" * 32)
    assert type(refusal.value) is kind
    assert len(sent) == 1


def _put() -> Put:
    return Put(key=("a",), content=Namespace(elements=("a",)))


def test_without_credentials_the_error_explains_how_to_log_in(guarded):
    url, _ = guarded
    with Client(url, "sales") as client, pytest.raises(Unauthenticated) as refusal:
        client.references.get("main")
    assert f"no credentials were sent to {url}" in refusal.value.message
    assert f"`lochan login {url}`" in refusal.value.message


def test_a_write_whose_reply_was_lost_is_unknown_whatever_happens_to_its_token(
    tmp_path, monkeypatch
):
    file = tmp_path / "token"
    file.write_text(CANARY)
    monkeypatch.setenv("LOCHAN_TOKEN_FILE", str(file))
    monkeypatch.setenv("LOCHAN_TOKEN_URI", SERVER)

    def lose(request: httpx.Request) -> httpx.Response:
        file.unlink(missing_ok=True)
        raise httpx.ReadError("lost", request=request)

    client = Client(SERVER, transport=httpx.MockTransport(lose), sleep=lambda _: None)
    with client, pytest.raises(Unknown):
        client.commits.commit("main", "m", [_put()], expected="ab" * 32)


@pytest.mark.parametrize(
    "url",
    [
        "https://ada:opensesame@catalog.example",
        "https://opensesame@catalog.example",
        "https://:opensesame@catalog.example",
    ],
)
def test_an_address_with_a_password_is_refused_with_a_hint_and_not_repeated(url):
    for make in (Client, AsyncClient):
        with pytest.raises(InvalidUrl, match="`lochan login`") as refusal:
            make(url)
        assert "opensesame" not in refusal.value.message


def failures(url: str) -> Iterator[LochanError]:
    """Errors of every kind that a client with a token can raise."""

    def break_off(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadError("broke", request=request)

    def answer(status: int) -> httpx.MockTransport:
        return httpx.MockTransport(lambda _: httpx.Response(status, text="no"))

    transports = [answer(status) for status in (302, 401, 403, 404, 409, 500, 503)]
    for transport in (httpx.MockTransport(break_off), *transports):
        with Client(url, token=CANARY, transport=transport, sleep=lambda _: None) as client:
            with pytest.raises(LochanError) as raised:
                client.references.get("main")
            yield raised.value
            with pytest.raises(LochanError) as raised:
                client.commits.commit("main", "m", [_put()], expected="ab" * 32)
            yield raised.value


def test_no_error_no_log_and_no_repr_shows_a_token(guarded, caplog, profiles, monkeypatch):
    url, _ = guarded
    caplog.set_level(logging.DEBUG)
    profiles.store("default", Profile(url=url, token=CANARY))
    with Client(url, token=CANARY) as client:
        client.config()
        shown = [repr(client), repr(client._core.credentials), repr(vars(client._core))]
    with Client(url) as client:
        client.config()
        shown.append(repr(client._core.credentials))
    absent = Client("http://127.0.0.1:9", token=CANARY, sleep=lambda _: None)
    with absent, pytest.raises(Unavailable):
        absent.config()
    found = list(failures(url))
    assert len(found) == 16
    shown += [repr(error) + str(error.__cause__) + str(error.__context__) for error in found]
    shown += [repr(profiles.read()), repr(profiles.read()["default"].__rich_repr__())]
    assert any("HTTP Request" in record.message for record in caplog.records)
    everything = "\n".join([*shown, caplog.text])
    assert CANARY not in everything
    assert "opensesame" not in everything


def test_no_error_of_the_asynchronous_client_shows_a_token(guarded):
    url, _ = guarded

    async def run() -> str:
        async with AsyncClient(url, token=f"{CANARY}x") as client:
            with pytest.raises(Unauthenticated) as refusal:
                await client.config()
            return repr(client) + repr(refusal.value)

    assert CANARY not in asyncio.run(run())


def test_tests_do_not_use_the_credentials_of_their_user():
    assert not [name for name in os.environ if name.startswith("LOCHAN_TOKEN")]
    assert ProfileFile().read() == {}
