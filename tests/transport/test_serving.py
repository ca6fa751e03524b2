"""The whole server, put together from settings, on the embedded store."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lochan.assembly.server_file import (
    ServerFile,
    read_server_file,
    remove_server_file,
    server_file,
    write_server_file,
)
from lochan.base.errors import Invalid
from lochan.settings import Settings
from tests.architecture.tree import ROOT
from tests.transport.world import Client, Place

# They start processes.
pytestmark = pytest.mark.slow

NOTE = Path(".lochan/server.json")


class Child(Place):
    """A server process and where it listens."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        super().__init__(int(url.rpartition(":")[2]))
        self.process = process
        self.url = url


@contextmanager
def serving(folder: Path, **settings: str) -> Iterator[Child]:
    """Starts a server in a folder; ended by the test or killed."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("LOCHAN_")}
    chosen = {f"LOCHAN_{name.upper()}": value for name, value in settings.items()}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.transport.serving_child"],
        cwd=folder,
        env={**outside, "PYTHONPATH": str(ROOT), "LOCHAN_PORT": "0", **chosen},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        if not url:
            raise AssertionError(process.communicate(timeout=30)[1])
        child = Child(process, url)
        try:
            yield child
        finally:
            for each in child.sockets:
                each.close()
            if process.poll() is None:
                process.kill()
            process.communicate(timeout=30)


def ended(child: Child, number: int = signal.SIGTERM) -> int:
    child.process.send_signal(number)
    child.process.wait(30)
    return child.process.returncode


def test_it_serves_a_fresh_store_and_keeps_it_for_the_next(tmp_path):
    with serving(tmp_path, repository="mine", default_branch="trunk") as child:
        with Client(child) as client:
            config = client.ask("GET", "/api/v2/config").json()
            assert config["defaultBranch"] == "trunk"
            assert client.ask("GET", "/api/v1/config").status == 200
            assert client.ask("GET", "/metrics").status == 404
        assert ended(child) == 0
    with serving(tmp_path, repository="mine") as child, Client(child) as client:
        again = client.ask("GET", "/api/v2/config").json()
        assert again["repositoryCreationTimestamp"] == config["repositoryCreationTimestamp"]
        assert ended(child) == 0


def test_it_leaves_a_note_while_it_runs_and_takes_it_away(tmp_path):
    with serving(tmp_path) as child:
        said = json.loads((tmp_path / NOTE).read_text())
        assert said == {"url": child.url, "pid": child.process.pid}
        assert read_server_file(tmp_path / NOTE) == ServerFile(child.url, child.process.pid)
        assert ended(child) == 0
    assert not (tmp_path / NOTE).exists()


def test_what_a_killed_server_left_is_not_believed_and_replaced(tmp_path):
    with serving(tmp_path) as child:
        assert ended(child, signal.SIGKILL) == -signal.SIGKILL
    assert (tmp_path / NOTE).exists()
    assert read_server_file(tmp_path / NOTE) is None
    with serving(tmp_path) as child:
        assert read_server_file(tmp_path / NOTE) == ServerFile(child.url, child.process.pid)
        assert ended(child) == 0


def test_a_second_server_is_told_where_the_first_one_is(tmp_path):
    with serving(tmp_path) as child:
        said = f"StoreLocked: a server serves this store already: {child.url}"
        with pytest.raises(AssertionError, match=said), serving(tmp_path):
            pass
        # The first one's note is still there.
        assert read_server_file(tmp_path / NOTE) == ServerFile(child.url, child.process.pid)
        assert ended(child) == 0


def test_metrics_and_the_access_log_are_served_when_they_are_asked_for(tmp_path):
    with serving(tmp_path, metrics="true", access_log="json") as child:
        with Client(child) as client:
            assert client.ask("GET", "/api/v2/config").status == 200
            answer = client.ask("GET", "/metrics")
            assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
            said = answer.body.decode()
            for name in ("requests_total", "store_calls_total", "node_cache_hits_total", "lanes"):
                assert f"\nlochan_{name}" in said, name
        child.process.send_signal(signal.SIGTERM)
        _, err = child.process.communicate(timeout=30)
    assert [json.loads(line)["route"] for line in err.splitlines()] == ["getConfigV2", "getMetrics"]


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("host", "0.0.0.0", "only this machine is served"),
        ("store", "nonsense:x", "no installed package has the store 'nonsense'"),
        ("port", "x", "LOCHAN_PORT"),
    ],
)
def test_what_cannot_be_served_is_said_before_anything_is_made(tmp_path, setting, value, said):
    with pytest.raises(AssertionError, match=said), serving(tmp_path, **{setting: value}):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("store", "place"),
    [
        (Settings().store, NOTE),
        ("rocksdb:a/b?cache_mb=5", Path("a/server.json")),
        ("rocksdb:///data/b", Path("/data/server.json")),
        ("memory:", None),
        ("postgresql://host/db", None),
    ],
)
def test_only_embedded_stores_have_a_note_beside_them(store, place):
    assert server_file(store) == place


def test_a_note_of_somebody_else_is_not_taken_away(tmp_path):
    file = tmp_path / "server.json"
    mine = write_server_file(file, "http://127.0.0.1:1")
    assert read_server_file(file) == mine
    other = ServerFile("http://127.0.0.1:2", os.getppid())
    file.write_text(json.dumps({"url": other.url, "pid": other.pid}))
    remove_server_file(file, mine)
    assert read_server_file(file) == other
    for nonsense in ("", "{", '{"url": 1}', '{"url": "x", "pid": -1}', '{"url": "x", "pid": 0}'):
        file.write_text(nonsense)
        assert read_server_file(file) is None


def test_wrong_settings_are_an_error_of_ours():
    from lochan.assembly.serve import serve

    with pytest.raises(Invalid):
        serve(Settings(host="192.0.2.1"), lambda _: None)
