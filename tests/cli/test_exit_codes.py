"""Scripts may trust the exit codes, and people the hints."""

from __future__ import annotations

import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import msgspec
import pytest

from lochan.base import errors
from lochan.base.errors import (
    Bug,
    Corrupt,
    Denied,
    Exhausted,
    KeysConflict,
    LochanError,
    StoreLocked,
    Unauthenticated,
    Unavailable,
    Unknown,
)
from lochan.cli import exit_codes
from lochan.cli.exit_codes import exit_code, hint
from lochan.cli.groups import CommandFailure
from tests.architecture.tree import ROOT


def all_errors() -> list[type[LochanError]]:
    found = [one for one in vars(errors).values() if isinstance(one, type)]
    return [one for one in found if issubclass(one, LochanError) and one is not LochanError]


def made(kind: type[LochanError]) -> LochanError:
    return KeysConflict("why", ()) if kind is KeysConflict else kind("why")


def test_the_documented_codes_are_those_of_the_code():
    page = (ROOT / "docs/cli.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", page, re.MULTILINE)
    assert {int(code): meaning for code, meaning in rows} == exit_codes.MEANINGS


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (Unknown, 5),
        (Unavailable, 6),
        (Exhausted, 6),
        (Denied, 7),
        (Unauthenticated, 10),
        (Corrupt, 8),
        (Bug, 1),
    ],
)
def test_errors_that_are_hard_to_cause_have_their_codes(kind, code):
    assert exit_code(kind("why")) == code


@pytest.mark.parametrize("kind", all_errors(), ids=lambda one: one.kind)
def test_every_error_has_a_documented_code_that_is_not_success(kind):
    assert exit_code(made(kind)) in exit_codes.MEANINGS.keys() - {exit_codes.DONE}


def test_more_exact_errors_have_more_exact_hints():
    assert hint(StoreLocked("why")) != hint(Unavailable("why")) != ""


def test_success_is_zero_and_a_wrong_call_is_two(shell):
    shell.run("branch", code=0)
    shell.run("branch", "--nothing", code=2)
    shell.run("nothing", code=2)
    shell.run("branch", "create", "no..name", code=2)
    shell.run("branch", "--store", "memory:", code=2)


def test_a_conflict_is_three(shell):
    shell.run("branch", "create", "dev")
    printed = shell.run("branch", "create", "dev", code=3).stderr
    assert "error: " in printed
    assert "hint: choose another name" in printed


def test_what_is_missing_is_four(shell):
    shell.run("log", "nowhere", code=4)
    shell.run("content", "get", "nothing", code=4)


@pytest.mark.slow
def test_a_server_that_is_away_is_six(local):
    printed = local.run("branch", "--url", "http://127.0.0.1:9", code=6).stderr
    assert "no connection to http://127.0.0.1:9" in printed
    assert "lochan serve" in printed


def test_errors_are_json_for_programs(shell):
    shell.put("orders", "s3://1")
    shell.run("branch", "create", "old", "--bare")
    result = shell.run("content", "put", "a.b", "--location", "s3://x", "--json", code=3)
    printed = msgspec.json.decode(result.stderr)
    assert (printed["error"], printed["exitCode"]) == ("keys_conflict", 3)
    assert printed["conflicts"][0]["conflictType"] == "NAMESPACE_ABSENT"
    assert "-p" in printed["hint"]
    assert result.stdout == ""


def test_a_failure_never_shows_a_traceback():
    shown = CommandFailure(Unknown("it is not known"), as_json=False)
    assert shown.exit_code == 5
    assert shown.format_message() == "it is not known"


class CutsWrites(BaseHTTPRequestHandler):
    """Answers reads, and closes the connection on writes."""

    def do_GET(self) -> None:
        body = b'{"reference":{"type":"BRANCH","name":"main","hash":"%s"}}' % (b"ab" * 32)
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its own name
        """Logs nothing."""


@pytest.mark.slow
def test_an_unknown_outcome_is_five(local):
    server = ThreadingHTTPServer(("127.0.0.1", 0), CutsWrites)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}"
        printed = local.run("branch", "create", "dev", "--url", url, code=5).stderr
    finally:
        server.shutdown()
        thread.join(60)
        server.server_close()
    assert "it is unknown whether the change took effect" in printed
    assert "before a retry" in printed


def test_files_that_cannot_be_read_are_a_wrong_call(shell):
    printed = shell.run("content", "put", "a", "--file", "missing.json", code=2).stderr
    assert "missing.json cannot be read" in printed
    shell.run("branch", "create", "dev")
    shell.run("merge", "dev", "--resolve", "a=missing.json", code=2)
