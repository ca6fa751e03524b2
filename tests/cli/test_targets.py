"""Which catalog a command talks to."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from lochan.cli.command_context import find_target
from tests.cli.shell import Shell


def note(place: Path, url: str, pid: int) -> None:
    (place / ".lochan").mkdir(exist_ok=True)
    (place / ".lochan/server.json").write_bytes(msgspec.json.encode({"url": url, "pid": pid}))


def test_without_anything_it_is_the_store_of_the_directory_made_if_missing(local, place):
    first = local.run("branch")
    assert "creating a new store" in first.stderr
    assert (place / ".lochan/store").is_dir()
    local.put("orders", "s3://1")
    again = local.run("log", "--json")
    assert again.stderr == ""
    assert len(again.stdout.splitlines()) == 1


def test_a_server_that_runs_in_the_directory_is_found(shell, place):
    shell.put("orders", "s3://1")
    note(place, shell.always[1], os.getpid())
    assert len(Shell().lines("log")) == 1
    assert not (place / ".lochan/store").exists()


@pytest.mark.parametrize("left", [b'{"url":"http://127.0.0.1:9","pid":-1}', b"no json", b"{}"])
def test_what_a_dead_server_left_is_not_a_server(local, place, left):
    (place / ".lochan").mkdir()
    (place / ".lochan/server.json").write_bytes(left)
    assert find_target(None, None, "default").store == "rocksdb:.lochan/store"
    local.run("branch")


def test_options_win_over_the_environment_and_that_over_the_directory(shell, place, monkeypatch):
    url = shell.always[1]
    shell.put("orders", "s3://1")
    store = f"rocksdb:{place / 'elsewhere'}"
    note(place, "http://127.0.0.1:9", os.getpid())
    monkeypatch.setenv("LOCHAN_URL", url)
    assert len(Shell().lines("log")) == 1
    assert Shell().lines("log", "--store", store) == []
    monkeypatch.setenv("LOCHAN_STORE", store)
    assert len(Shell().lines("log", "--url", url)) == 1
    monkeypatch.delenv("LOCHAN_URL")
    assert Shell().lines("log") == []
    monkeypatch.setenv("LOCHAN_REPOSITORY", "other")
    assert Shell().lines("log", "--url", url) == []


def test_a_store_that_somebody_has_is_not_opened_twice(local, place):
    from lochan.embedded import open_repository

    with open_repository(f"rocksdb:{place / 'mine'}"):
        printed = local.run("branch", "--store", f"rocksdb:{place / 'mine'}", code=6).stderr
    assert "hint: a running server has the store open" in printed


def test_passwords_are_not_shown(local):
    printed = local.run("branch", "--store", "postgresql://me:secret@127.0.0.1:9/x", code=6)
    assert "secret" not in printed.output
    local.run("branch", "--store", "nothing", code=2)
    local.run("branch", "--url", "ftp://x", code=2)
