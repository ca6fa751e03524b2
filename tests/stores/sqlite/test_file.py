"""The file of an SQLite store: whose it is, which version it has, and several processes on it."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from lochan.assembly import open_store
from lochan.base.errors import Corrupt, InvalidUrl, NewerFormat, StoreForked, Unavailable, Unknown
from lochan.kv.store import ABSENT, Adds, SetIf, Won
from lochan.stores.sqlite import failures
from lochan.testing.contracts.sample_rows import OBJECTS, REFERENCES, create, fetch, fetch_all
from lochan.testing.forks import ForkedChild, error_kind

PROCESSES = 4

COUNTER = """
import sys
from lochan.assembly import open_store
from lochan.kv.store import Won
from lochan.testing.contracts.sample_rows import REFERENCES, fetch
store = open_store(sys.argv[1])
won = 0
while won < 25:
    entry = fetch(store, b"count")
    value = b"%d" % (int(entry.value) + 1)
    won += isinstance(store.set_if(REFERENCES, b"count", value, entry.stamp), Won)
store.close()
"""

OPENER = """
import sys
from lochan.assembly import open_store
from lochan.testing.contracts.sample_rows import create
sys.stdin.readline()
store = open_store(sys.argv[1])
create(store, sys.argv[2].encode())
store.close()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.mark.parametrize(
    "address",
    [
        "sqlite:",
        "sqlite::memory:",
        "sqlite://host/file",
        "sqlite:/tmp",
        "sqlite:/nonexistent/directory/file",
        "sqlite:/tmp/file?busy_timeout_ms=0",
        "sqlite:/tmp/file?busy_timeout_ms=1000000000",
        "sqlite:/tmp/file?busy_timeout_ms=1&x=2",
        "sqlite:/tmp/file?other=1",
    ],
)
def test_a_wrong_address_is_refused(address: str) -> None:
    with pytest.raises(InvalidUrl):
        open_store(address)


def test_a_database_of_another_program_is_refused_and_untouched(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE theirs (x)")
    database.close()
    before = path.read_bytes()
    with pytest.raises(InvalidUrl, match="another program"):
        open_store(f"sqlite:{path}")
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_bytes(b"not a database at all, but long enough to look like one" * 40)
    with pytest.raises(Corrupt):
        open_store(f"sqlite:{path}")


def test_tables_of_a_newer_version_are_refused(path: Path) -> None:
    open_store(f"sqlite:{path}").close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 2")
    database.close()
    with pytest.raises(NewerFormat, match="version 2"):
        open_store(f"sqlite:{path}")


def test_a_write_beside_a_long_one_of_another_process_has_no_effect(path: Path) -> None:
    store = open_store(f"sqlite:{path}?busy_timeout_ms=1")
    stamp = create(store, b"key", b"one")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="another process was writing"):
        store.set_if(REFERENCES, b"key", b"two", stamp)
    with pytest.raises(Unavailable):
        store.apply(Adds([(OBJECTS, b"o", b"")], 1), SetIf(REFERENCES, b"key", b"two", stamp))
    # Readers do not wait for a writer.
    assert fetch(store, b"key").value == b"one"
    other.execute("ROLLBACK")
    other.close()
    assert fetch_all(store, OBJECTS) == []
    assert isinstance(store.set_if(REFERENCES, b"key", b"two", stamp), Won)
    store.close()


def test_a_commit_that_fails_is_unknown_and_any_other_statement_is_not() -> None:
    error = sqlite3.OperationalError("disk I/O error")
    assert isinstance(failures.commit_failure(error), Unknown)
    assert isinstance(failures.failure(error), Unavailable)


def test_a_damaged_file_is_corrupt_and_never_empty(path: Path) -> None:
    store = open_store(f"sqlite:{path}")
    store.put_many([(REFERENCES, b"%05d" % number, b"x" * 300) for number in range(500)])
    store.close()
    raw = bytearray(path.read_bytes())
    for page in range(1, len(raw) // 4_096):
        raw[page * 4_096 : page * 4_096 + 64] = b"\xff" * 64
    path.write_bytes(raw)
    damaged = open_store(f"sqlite:{path}", any_format=True)
    with pytest.raises(Corrupt):
        fetch_all(damaged, REFERENCES)
    damaged.close()


def test_stamps_go_on_where_another_process_left_them(path: Path) -> None:
    one, other = open_store(f"sqlite:{path}"), open_store(f"sqlite:{path}")
    stamps = set()
    for number in range(10):
        store = (one, other)[number % 2]
        stamps.add(create(store, b"key"))
        store.delete(REFERENCES, b"key")
    assert len(stamps) == 10
    one.close()
    other.close()


@pytest.mark.slow
def test_every_write_of_several_processes_takes_effect_once(path: Path) -> None:
    store = open_store(f"sqlite:{path}")
    create(store, b"count", b"0")
    command = [sys.executable, "-c", COUNTER, f"sqlite:{path}"]
    running = [subprocess.Popen(command) for _ in range(PROCESSES)]
    assert [one.wait() for one in running] == [0] * PROCESSES
    assert fetch(store, b"count").value == b"%d" % (25 * PROCESSES)
    store.close()


@pytest.mark.slow
def test_several_processes_may_create_the_file_at_once(path: Path) -> None:
    command = [sys.executable, "-c", OPENER, f"sqlite:{path}"]
    running = [
        subprocess.Popen([*command, f"row {number}"], stdin=subprocess.PIPE, text=True)
        for number in range(PROCESSES)
    ]
    for one in running:
        one.communicate("go\n")
    assert [one.returncode for one in running] == [0] * PROCESSES
    store = open_store(f"sqlite:{path}")
    assert len(fetch_all(store, REFERENCES)) == PROCESSES
    store.close()


@pytest.mark.slow
def test_a_child_of_a_process_with_an_open_file_opens_none(path: Path) -> None:
    store = open_store(f"sqlite:{path}")

    def work() -> str:
        return error_kind(lambda: open_store(f"sqlite:{path}"))

    assert ForkedChild(work).result() == StoreForked.kind
    assert isinstance(store.set_if(REFERENCES, b"key", b"", ABSENT), Won)
    store.close()
    assert ForkedChild(work).result() == "none"
