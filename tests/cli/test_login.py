"""`lochan login` stores what a server accepts, and shows it to no one; commands then use it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from lochan.client.profiles import Profile, ProfileFile
from tests.cli.shell import Shell
from tests.client.secured import Secured, secured
from tests.client.serving import serving

SHELL = Shell()
TOKEN = "lochan_aaaaaaaaaaaaaaaa_opensesame"


@pytest.fixture(autouse=True)
def file(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where profiles are stored; nothing is there yet."""
    path = place / "config" / "credentials.toml"
    monkeypatch.setenv("LOCHAN_CREDENTIALS", str(path))
    monkeypatch.delenv("LOCHAN_PROFILE", raising=False)
    return path


@pytest.fixture
def server() -> Iterator[Secured]:
    """A server with a user."""
    with secured("sales") as running:
        yield running


class TestLogin:
    """What is stored, and what is refused."""

    @pytest.mark.parametrize("way", ["prompt", "stdin", "file"])
    def test_a_token_is_verified_and_stored(self, server, file, place, monkeypatch, way):
        words, stdin = [], f"{server.token}\n"
        if way == "prompt":
            monkeypatch.setattr("lochan.cli.login.is_terminal", lambda: True)
        elif way == "stdin":
            words = ["--token-stdin"]
        else:
            (place / "token").write_text(stdin)
            words, stdin = ["--token-file", "token"], ""
        result = SHELL.run("login", server.url, *words, stdin=stdin)
        assert f"logged in to {server.url} as admin (" in result.stdout
        assert server.word not in result.output
        assert ProfileFile().read() == {"default": Profile(url=server.url, token=server.token)}
        assert stat.S_IMODE(file.stat().st_mode) == 0o600

    def test_an_access_key_is_stored_with_its_secret(self, server):
        key_id, secret = server.new_access_key()
        words = ("--access-key", key_id, "--token-stdin", "--profile", "nightly", "--json")
        result = SHELL.run("login", server.url, *words, "--repository", "sales", stdin=secret)
        printed = msgspec.json.decode(result.stdout)
        assert "everyone" in printed.pop("roles")
        assert printed == {
            "profile": "nightly",
            "url": server.url,
            "user": "admin",
            "expiresAt": None,
        }
        assert ProfileFile().read() == {
            "nightly": Profile(
                url=server.url,
                access_key_id=key_id,
                access_key_secret=secret,
                repository="sales",
            )
        }
        SHELL.run("branch", "create", "dev", "--profile", "nightly")

    def test_a_short_lived_token_is_stored_without_the_secret(self, server, file):
        key_id, secret = server.new_access_key()
        words = ("--access-key", key_id, "--short-lived", "--token-stdin")
        result = SHELL.run("login", server.url, *words, stdin=secret)
        assert " until 20" in result.stdout
        stored = ProfileFile().get("default")
        assert stored.token
        assert stored.token not in result.output
        assert stored.expires_at is not None
        assert stored.expires_at > datetime.now(UTC) + timedelta(minutes=30)
        assert secret not in file.read_text() + result.output
        assert SHELL.one("access", "whoami")["name"] == "admin"

    def test_what_the_server_does_not_accept_is_not_stored(self, server, file):
        key_id, _ = server.new_access_key()
        result = SHELL.run("login", server.url, "--token-stdin", stdin=TOKEN, code=10)
        assert "did not accept" in result.stderr
        for more in ([], ["--short-lived"]):
            words = ("--access-key", key_id, "--token-stdin", *more)
            result = SHELL.run("login", server.url, *words, stdin="opensesame", code=10)
            assert "opensesame" not in result.output
        assert not file.exists()

    def test_a_server_without_users_gets_nothing_stored(self, file):
        with serving() as url:
            result = SHELL.run("login", url, "--token-stdin", stdin=TOKEN, code=2)
        assert "needs no credentials yet, so nothing was stored" in result.stderr
        assert not file.exists()

    @pytest.mark.parametrize(
        "words",
        [
            (TOKEN,),
            ("URL", TOKEN),
            ("URL", "--token", TOKEN),
            ("URL", f"--token={TOKEN}"),
            ("URL", "--access-key", TOKEN),
            ("URL", "--token-file", TOKEN),
            ("URL", "--profile", TOKEN),
            ("URL", "eyJopensesame.opensesame.opensesame"),
        ],
    )
    def test_a_token_on_the_command_line_is_refused_and_not_repeated(self, server, words):
        words = tuple(server.url if word == "URL" else word for word in words)
        result = SHELL.run("login", *words, stdin=TOKEN, code=2)
        assert "every user of this machine can see it (`ps`)" in result.stderr
        assert "opensesame" not in result.output
        assert server.sent == set()

    def test_without_a_terminal_the_way_of_the_secret_is_named(self, server):
        result = SHELL.run("login", server.url, stdin=TOKEN, code=2)
        assert "use --token-stdin or --token-file FILE" in result.stderr

    @pytest.mark.parametrize("secret", ["", "two words", "é", "x" * 20_000])
    def test_what_cannot_be_a_token_is_sent_nowhere(self, server, secret):
        SHELL.run("login", server.url, "--token-stdin", stdin=secret, code=2)
        assert server.sent == set()

    def test_a_wrong_call_is_explained(self, server):
        for words, message in (
            (("--token-stdin", "--token-file", "x"), "both given"),
            (("--short-lived", "--token-stdin"), "--short-lived needs --access-key"),
            (("--token-file", "missing"), "missing cannot be read"),
            (("--token-stdin", "--profile", "a b"), "the name of a profile"),
        ):
            result = SHELL.run("login", server.url, *words, stdin=TOKEN, code=2)
            assert message in result.stderr
        assert "name the server" in SHELL.run("login", "--token-stdin", code=2).stderr

    def test_a_secret_goes_to_no_server_that_a_directory_names_by_itself(
        self, server, place, monkeypatch
    ):
        """A directory of others, such as a clone, could name any server as the one that runs."""
        folder = place / ".lochan"
        folder.mkdir()
        named = folder / "server.json"
        named.write_text(f'{{"url": "https://c.invalid", "pid": {os.getpid()}}}')
        result = SHELL.run("login", "--token-stdin", stdin=TOKEN, code=2)
        assert "no secret is sent there" in result.stderr
        named.write_text(f'{{"url": "{server.url}", "pid": {os.getpid()}}}')
        with monkeypatch.context() as patched:
            patched.setattr("lochan.cli.login.is_own_server_file", lambda: False)
            SHELL.run("login", "--token-stdin", stdin=TOKEN, code=2)
        assert server.sent == set()
        SHELL.run("login", "--token-stdin", stdin=server.token)
        assert ProfileFile().read() == {"default": Profile(url=server.url, token=server.token)}

    def test_plain_http_to_another_machine_has_to_be_allowed(self):
        result = SHELL.run("login", "http://c.invalid", "--token-stdin", stdin=TOKEN, code=2)
        assert "`lochan login --insecure`" in result.stderr

    def test_a_profile_is_renewed_and_never_given_another_server(self, server):
        SHELL.run("login", server.url, "--token-stdin", stdin=server.token)
        renewed = server.new_token()
        SHELL.run("login", "--token-stdin", stdin=renewed)
        assert ProfileFile().get("default").token == renewed
        result = SHELL.run("login", "http://127.0.0.1:9", "--token-stdin", stdin=TOKEN, code=2)
        assert f"the profile 'default' is for {server.url}" in result.stderr

    def test_an_address_with_a_password_is_refused_and_not_repeated(self):
        result = SHELL.run("login", "https://ada:opensesame@host", "--token-stdin", code=2)
        assert "opensesame" not in result.output


def test_logout_removes_the_profile_and_nothing_else(file):
    ProfileFile().store("a", Profile(url="https://host", token="t"))
    ProfileFile().store("b", Profile(url="https://host", token="t"))
    assert "removed the profile a" in SHELL.out("logout", "--profile", "a")
    assert list(ProfileFile().read()) == ["b"]
    SHELL.run("logout", "--profile", "a", code=4)
    assert SHELL.one("logout", "--profile", "b") == {"profile": "b", "url": "https://host"}


class TestCommands:
    """Commands on a server that needs credentials."""

    def test_without_credentials_a_command_explains_how_to_log_in(self, server):
        result = SHELL.run("branch", "--url", server.url, code=10)
        assert f"`lochan login {server.url}`" in result.stderr
        ProfileFile().store("p", Profile(url=server.url, token=TOKEN))
        result = SHELL.run("branch", "--url", server.url, code=10)
        assert "did not accept the credentials of the profile 'p'" in result.stderr
        assert "opensesame" not in result.output

    def test_a_profile_names_server_repository_and_credentials(self, server, monkeypatch):
        stored = Profile(url=server.url, token=server.token, repository="sales")
        ProfileFile().store("p", stored)
        SHELL.run("branch", "create", "dev", "--profile", "p")
        monkeypatch.setenv("LOCHAN_PROFILE", "p")
        assert {each["name"] for each in SHELL.lines("branch")} == {"main", "dev"}
        names = [each["name"] for each in SHELL.lines("branch", "--repository", "default")]
        assert names == ["main"]
        assert SHELL.one("config", "list")["repository"] == "sales"

    def test_a_profile_serves_every_command_on_its_server(self, server):
        ProfileFile().store("p", Profile(url=server.url, token=server.token))
        SHELL.run("branch", "--url", server.url)
        SHELL.run("branch", "--url", server.url, "--profile", "p")
        result = SHELL.run("branch", "--url", "http://127.0.0.1:9", "--profile", "p", code=2)
        assert "which is another server" in result.stderr
        SHELL.run("branch", "--profile", "missing", code=4)

    def test_the_profile_default_is_used_where_nothing_else_is(self, server, place):
        ProfileFile().store("default", Profile(url=server.url, token=server.token))
        SHELL.run("branch", "create", "dev")
        assert not (place / ".lochan").exists()
        SHELL.run("branch", "--store", f"rocksdb:{place / 'mine'}")
        (place / ".lochan/store").mkdir(parents=True)
        assert [each["name"] for each in SHELL.lines("branch")] == ["main"]

    def test_a_variable_never_conflicts_with_an_option(self, server, place, monkeypatch):
        ProfileFile().store("p", Profile(url="http://127.0.0.1:9", token=TOKEN))
        ProfileFile().store("q", Profile(url=server.url, token=server.token))
        monkeypatch.setenv("LOCHAN_PROFILE", "p")
        store = f"rocksdb:{place / 'mine'}"
        SHELL.run("branch", "--url", server.url)
        SHELL.run("branch", "--profile", "q")
        SHELL.run("branch", "--store", store)
        monkeypatch.setenv("LOCHAN_STORE", store)
        SHELL.run("branch")
        monkeypatch.setenv("LOCHAN_URL", server.url)
        SHELL.run("branch")
        for other in ("--url", "--profile"):
            result = SHELL.run("branch", "--store", store, other, "q", code=2)
            assert f"{other} and --store were both given" in result.stderr

    def test_the_token_of_the_environment_is_used(self, server, monkeypatch, place):
        (place / "token").write_text(server.token)
        monkeypatch.setenv("LOCHAN_TOKEN_FILE", str(place / "token"))
        monkeypatch.setenv("LOCHAN_TOKEN_URI", server.url)
        SHELL.run("branch", "--url", server.url)
        monkeypatch.setenv("LOCHAN_TOKEN_URI", "http://127.0.0.1:9")
        SHELL.run("branch", "--url", server.url, code=10)
