"""`lochan events` on a server: what is printed, and where a later run goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.shell import Shell
from tests.events.streamed import StreamServer, stream_server

LONG_AGO = "2020-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def served() -> Iterator[StreamServer]:
    with stream_server() as server:
        yield server


@pytest.fixture
def events(served: StreamServer, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("LOCHAN_TOKEN", served.secret)
    monkeypatch.setenv("LOCHAN_TOKEN_URI", served.url)
    return Shell("--url", served.url)


def test_events_are_printed_and_a_later_run_goes_on(served, events):
    served.branch("printed")
    served.commit("printed", "a-table", message="the first\nand more")
    shown = events.out("events", "printed", "--since", LONG_AGO)
    assert "REFERENCE_CREATED  printed" in shown
    assert "the first" in shown
    assert "and more" not in shown
    assert "a-table (ICEBERG_TABLE)" in shown
    lines = events.lines("events", "printed", "--since", LONG_AGO)
    assert [one["event"]["type"] for one in lines] == [
        "REFERENCE_CREATED",
        "COMMIT",
        "CONTENT_STORED",
    ]
    rest = events.lines("events", "printed", "--from", lines[0]["token"])
    assert [one["event"]["id"] for one in rest] == [one["event"]["id"] for one in lines[1:]]
    served.commit("printed", "-a-table")
    followed = events.lines(
        *("events", "printed", "--follow", "-n", "2", "--from", lines[-1]["token"])
    )
    assert [one["event"]["type"] for one in followed] == ["COMMIT", "CONTENT_REMOVED"]


def test_filters_and_patterns_are_options(served, events):
    served.branch("of/1")
    served.branch("of/2")
    token = served_position(served, "of/*")
    served.commit("of/1", "keep", "other")
    served.commit("of/2", "keep")
    words = ("events", "of/*", "--from", token, "--type", "CONTENT_STORED", "--key", "ke*")
    found = [one["event"]["reference"]["name"] for one in events.lines(*words)]
    assert sorted(found) == ["of/1", "of/2"]


def served_position(served: StreamServer, reference: str) -> str:
    with served.follow(reference=reference, follow="false") as followed:
        return followed.position()


def test_what_makes_no_sense_is_refused(served, events, place):
    assert "--follow" in events.run("events", code=2).stderr
    assert "zone" in events.run("events", "--since", "2026-01-01", code=2).stderr
    assert "token" in events.run("events", "--from", "nonsense", code=2).stderr
    events.run("events", "nothing", "--follow", code=4)
    local = Shell("--store", "memory:")
    assert "server" in local.run("events", "--follow", code=2).stderr
