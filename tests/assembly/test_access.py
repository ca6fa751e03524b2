"""Access of a server from its settings: keys, the first user, set-up, refusals in the audit log."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lochan.access.policy import Call
from lochan.access.tokens import new_token
from lochan.assembly import open_store
from lochan.assembly.access import ServerAccess, open_access
from lochan.assembly.first_user import set_up_first_user
from lochan.base.errors import AlreadyExists, Denied, Invalid, NotFound, Unauthenticated
from lochan.base.secrets import Secret
from lochan.kernel.repository import Ports
from lochan.persist.retry import RetryPolicy
from lochan.settings import Settings
from lochan.stores.memory.store import MemoryStore
from lochan.system import SystemClock, SystemRandom, ThreadWaiting
from lochan.telemetry.audit import AuditLog
from lochan.transport.exchange import Request, RequestHeaders, Response
from lochan.transport.routes import Match, Route

PORTS = Ports(SystemClock(), SystemRandom(), ThreadWaiting())
KEYS = [base64.b64encode(bytes([number]) * 32).decode() for number in range(1, 4)]
MATCH = Match(Route("route", lambda _: Response(200)), {})
HERE = Call(origin="127.0.0.1", trace="r1")


@pytest.fixture
def lines():
    return []


@pytest.fixture
def opened(lines):
    """Opens the access of a store that several servers share."""
    shared = MemoryStore()

    def open_it(on=shared, **settings) -> ServerAccess:
        settings.setdefault("store", "memory:")
        audit = AuditLog("denied", lambda line: lines.append(json.loads(line)))
        return open_access(Settings(**settings), on, PORTS, RetryPolicy(), audit)

    return open_it


def request(*headers: tuple[bytes, bytes], query: bytes = b"") -> Request:
    made = Request("GET", b"/x", query, RequestHeaders(headers), request_id="r1")
    made.origin = "10.1.2.3"
    return made


def with_token(text: str) -> Request:
    return request((b"authorization", f"Bearer {text}".encode()))


# Keys.


def test_beside_an_embedded_store_a_key_is_made_for_its_owner_and_used_again(opened, tmp_path):
    url = f"rocksdb:{tmp_path}/data/store"
    file = tmp_path / "data/access.key"
    file.parent.mkdir()
    with_key = []
    for _ in range(2):
        store = open_store(url)
        try:
            access = opened(store, store=url)
            if not with_key:
                access.control.set_up(HERE, "ada")
            with_key.append(file.read_bytes())
            assert access.authenticator.is_required()
        finally:
            store.close()
    assert with_key[0] == with_key[1]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.unlink()
    store = open_store(url)
    try:
        with pytest.raises(Invalid, match=r"access\.key .* is missing.*secret_key_file"):
            opened(store, store=url)
        assert not file.exists()
    finally:
        store.close()


@pytest.mark.parametrize("named", ["value", "file"])
def test_a_server_with_another_key_refuses_to_start_and_names_the_setting(opened, tmp_path, named):
    def keys(*chosen: str) -> dict[str, Any]:
        if named == "value":
            return {"secret_key": Secret(",".join(chosen))}
        file = tmp_path / "keys"
        file.write_text("# ours\n" + "\n".join(chosen) + "\n")
        file.chmod(0o600)
        return {"secret_key_file": str(file)}

    opened(**keys(KEYS[0])).control.set_up(HERE, "ada")
    with pytest.raises(Invalid) as refused:
        opened(**keys(KEYS[1]))
    assert "secret_key_file" in refused.value.message
    assert not [key for key in KEYS if key in refused.value.message]
    # A rotation: the new key first, the old one behind it.
    rotated = opened(**keys(KEYS[1], KEYS[0]))
    assert rotated.authenticator.is_required()


@pytest.mark.parametrize(
    ("content", "mode", "reason"),
    [
        (None, 0o600, "No such file"),
        ("", 0o600, "there is no secret key"),
        ("c2hvcnQ=", 0o600, "line 1 has 5 bytes"),
        ("nö", 0o600, "not base64"),
        (KEYS[0], 0o622, "other users can change"),
    ],
)
def test_a_file_of_keys_that_cannot_be_used_is_refused_by_name(
    opened, tmp_path, content, mode, reason
):
    file = tmp_path / "keys"
    if content is not None:
        file.write_text(content)
        file.chmod(mode)
    with pytest.raises(Invalid, match=reason) as refused:
        opened(secret_key_file=str(file))
    assert str(file) in refused.value.message
    assert KEYS[0] not in refused.value.message


def test_a_file_of_keys_that_all_can_read_is_used_with_a_warning(opened, tmp_path, caplog):
    file = tmp_path / "keys"
    file.write_text(KEYS[0])
    file.chmod(0o644)
    opened(secret_key_file=str(file))
    assert "secret keys readable by all users" in caplog.text
    assert KEYS[0] not in caplog.text


def test_on_a_store_that_servers_share_set_up_needs_a_key_that_is_named(opened):
    shared = {"store": "postgresql://host/database"}
    with pytest.raises(Invalid, match="secret_key_file of each server"):
        opened(**shared).control.set_up(HERE, "ada")
    access = opened(**shared, secret_key=Secret(KEYS[0]))
    access.control.set_up(HERE, "ada")
    with pytest.raises(Invalid, match="secret_key_file"):
        opened(**shared)


# The first user.


def wanted(tmp_path: Path) -> dict[str, Any]:
    return {
        "setup_user": "ada",
        "setup_token_file": str(tmp_path / "token"),
        "secret_key": Secret(KEYS[0]),
    }


def test_the_first_user_is_made_at_the_start_and_its_token_is_in_the_file(
    opened, tmp_path, lines, caplog
):
    caplog.set_level("DEBUG")
    access = opened(**wanted(tmp_path))
    file = tmp_path / "token"
    token = file.read_text().strip()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]
    caller = access.authentication.authenticate(with_token(token), MATCH)
    assert (caller.name, "admins" in caller.roles) == ("ada", True)
    assert [(line["event"], line["principal"]) for line in lines] == [("setup", "ada")]
    assert token not in caplog.text + json.dumps(lines)
    # The next start changes nothing and does not even read the file.
    file.write_text("something else")
    again = opened(**wanted(tmp_path))
    assert again.authentication.authenticate(with_token(token), MATCH).name == "ada"
    assert file.read_text() == "something else"


def test_a_token_that_was_made_elsewhere_is_used(opened, tmp_path):
    _, token, _ = new_token(SystemRandom())
    (tmp_path / "token").write_text(f"  {token}\n")
    access = opened(**wanted(tmp_path))
    assert access.authentication.authenticate(with_token(token), MATCH).name == "ada"


@pytest.mark.parametrize("content", ["", "nonsense", "lochan_a_b", "ö", "x" * 100_000])
def test_a_file_without_a_token_is_refused_and_nothing_is_set_up(opened, tmp_path, content):
    (tmp_path / "token").write_text(content)
    with pytest.raises(Invalid, match="setup_token_file") as refused:
        opened(**wanted(tmp_path))
    assert not content or content not in refused.value.message
    assert not opened(secret_key=Secret(KEYS[0])).authenticator.is_required()


def test_a_file_that_cannot_be_written_is_refused_and_nothing_is_set_up(opened, tmp_path):
    settings = wanted(tmp_path) | {"setup_token_file": str(tmp_path / "missing/token")}
    with pytest.raises(Invalid, match="setup_token_file cannot be written"):
        opened(**settings)
    assert not opened(secret_key=Secret(KEYS[0])).authenticator.is_required()


def test_of_two_servers_one_makes_the_first_user_and_the_other_leaves_no_token(opened, tmp_path):
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.mkdir()
    other.mkdir()
    # Both have seen that nothing is set up.
    late = opened(secret_key=Secret(KEYS[0]))
    late.directory.find_setup()
    opened(**wanted(mine))

    unaware: Any = SimpleNamespace(find_setup=lambda: None)
    set_up_first_user(Settings(**wanted(other)), unaware, late.control, PORTS.random)
    assert (mine / "token").exists()
    assert list(other.iterdir()) == []


# Set-up by a request.


@pytest.mark.parametrize("origin", ["127.0.0.1", "::1", "unix"])
def test_set_up_is_done_once_from_this_machine(opened, origin, lines):
    access = opened()
    made = access.control.set_up(Call(origin=origin), "ada")
    assert access.authentication.authenticate(with_token(made.secret), MATCH).name == "ada"
    with pytest.raises(AlreadyExists):
        access.control.set_up(Call(origin=origin), "eve")
    assert [(line["event"], line["allowed"], line["principal"]) for line in lines] == [
        ("setup", True, "ada"),
        ("setup", False, ""),
    ]


@pytest.mark.parametrize("origin", ["10.1.2.3", "2001:db8::1", "0.0.0.0", "x"])
def test_set_up_is_refused_to_other_machines(opened, origin, lines):
    access = opened()
    with pytest.raises(Denied, match="setup_user"):
        access.control.set_up(Call(origin=origin), "eve")
    assert not access.authenticator.is_required()
    assert lines[0]["reason"] == "elsewhere"


# Requests.


def test_before_set_up_every_caller_is_anyone_without_a_name_and_from_memory(opened):
    access = opened()
    first = access.authentication.authenticate(request(), MATCH)
    assert first.name == ""
    assert access.authentication.find_known(request(), MATCH) is first
    assert access.authentication.find_known(with_token("anything"), MATCH) is first


def test_a_server_looks_for_changes_only_while_requests_come(opened, monkeypatch):
    access = opened()
    fetched: list[int] = []
    fetch = access.directory.revision.fetch

    def counting() -> bytes:
        fetched.append(1)
        return fetch()

    monkeypatch.setattr(access.directory.revision, "fetch", counting)
    access.refresh()
    assert fetched == []
    access.authentication.find_known(request(), MATCH)
    access.refresh()
    access.refresh()
    assert fetched == [1]


def test_refused_credentials_are_in_the_audit_log_and_the_secret_is_not(opened, tmp_path, lines):
    access = opened(**wanted(tmp_path))
    _, wrong, _ = new_token(SystemRandom())
    lines.clear()
    for sent in (request(), with_token(wrong), request((b"authorization", b"Digest x"))):
        with pytest.raises(Unauthenticated):
            access.authentication.authenticate(sent, MATCH)
        assert access.authentication.find_known(sent, MATCH) is None
    assert [line["event"] for line in lines] == ["authentication"] * 3
    assert {(line["origin"], line["request"], line["route"]) for line in lines} == {
        ("10.1.2.3", "r1", "route")
    }
    assert len({line["reason"] for line in lines}) == 3
    assert wrong not in json.dumps(lines)


def test_a_hidden_repository_is_refused_like_a_missing_one_before_anything_is_read(
    opened, tmp_path, lines
):
    """A request that was malformed, or over the quota of the repository, showed that it exists."""
    access = opened(**wanted(tmp_path))
    token = (tmp_path / "token").read_text().strip()
    caller = access.authentication.authenticate(with_token(token), MATCH)
    admin = Call("ada", roles=caller.roles, rights=caller.rights, credential=caller.credential)
    access.control.create_user(admin, "eve")
    sent = with_token(access.control.create_token(admin, "eve").secret)
    lines.clear()
    for name in ("default", "hidden", "missing"):
        match = Match(MATCH.route, {}, name)
        for _ in range(2):
            with pytest.raises(NotFound, match=f"there is no repository '{name}'"):
                access.authentication.authenticate(sent, match)
            assert access.authentication.find_known(sent, match) is None
        assert access.authentication.authenticate(with_token(token), match).name == "ada"
    assert {(line["event"], line["principal"], line["allowed"]) for line in lines} == {
        ("repository", "eve", False)
    }
    # What is about all repositories is decided on later; its path may still name a hidden one.
    route = Route("list", lambda _: Response(200), of_repository=False)
    assert access.authentication.authenticate(sent, Match(route, {}, "default")).name == "eve"
    with pytest.raises(NotFound):
        access.authentication.authenticate(sent, Match(route, {}, "hidden"))


@pytest.mark.parametrize(
    "query", [b"access_token=x", b"a=b&ACCESS_TOKEN=x", b"token=", b"api_key=x", b"authorization=x"]
)
def test_credentials_in_an_address_are_refused(opened, query):
    access = opened()
    for step in (access.authentication.find_known, access.authentication.authenticate):
        with pytest.raises(Invalid, match="never into the address"):
            step(request(query=query), MATCH)


@pytest.mark.parametrize("query", [b"page-token=x", b"key=token=x", b"filter=access_token"])
def test_other_parameters_are_no_credentials(opened, query):
    access = opened()
    assert access.authentication.authenticate(request(query=query), MATCH).name == ""


def test_log_ins_are_in_the_audit_log(opened, tmp_path, lines):
    access = opened(**wanted(tmp_path))
    token = (tmp_path / "token").read_text().strip()
    caller = access.authentication.authenticate(with_token(token), MATCH)
    call = Call("ada", roles=caller.roles, rights=caller.rights, credential=caller.credential)
    key = access.control.create_access_key(call, "ada")
    lines.clear()
    login = access.control.login(HERE, key.key.id, key.secret)
    assert access.authentication.authenticate(with_token(login.secret), MATCH).name == "ada"
    for wrong in ((key.key.id, "x"), (key.secret, key.secret), (token, token)):
        with pytest.raises(Unauthenticated):
            access.control.login(HERE, *wrong)
    assert [(line["event"], line["allowed"], line["principal"]) for line in lines] == [
        ("login", True, "ada"),
        *[("login", False, "")] * 3,
    ]
    text = json.dumps(lines)
    assert not [secret for secret in (token, key.secret, login.secret) if secret in text]
