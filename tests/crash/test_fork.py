"""Forks beside an embedded store: its files are safe, whatever a child does and however it ends."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from lochan import open_repository
from lochan.base.errors import StoreForked, StoreLocked
from lochan.embedded import Embedded
from lochan.testing.forks import ForkedChild, error_kind
from tests.crash.preforked import WARNINGS, kill_again_and_again
from tests.crash.preforking import commit
from tests.profile import counted

REFUSED = ("get", "entries", "log", "commit", "create", "merge", "delete", "check")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"rocksdb:{tmp_path / 'store'}"


def test_what_a_forking_program_acknowledged_survives_its_kill(url: str) -> None:
    def refused(outcomes: dict[str, str]) -> None:
        assert outcomes == dict.fromkeys(REFUSED, "store_forked") | {"close": "none"}

    acknowledged = kill_again_and_again(url, counted(2, 10), refused)
    done = subprocess.run(
        [sys.executable, "-m", "lochan", "check", "--store", url],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("whole: ")
    assert not any("child" in name for name in acknowledged)


ENDS = """
import gc, os, sys
from lochan import open_repository
from tests.crash.preforking import ENDINGS, commit, end, try_everything

def main(url, ending, closed):
    repository = open_repository(url)
    commit(repository, "before")
    if closed:
        repository.close()
    if not os.fork():
        try_everything(repository, "child")
        repository = None
        gc.collect()
        return end(ending)
    code = os.waitstatus_to_exitcode(os.wait()[1])
    if not closed:
        commit(repository, "after")
        repository.close()
    sys.exit(0 if code == ENDINGS[ending] else 9)

main(sys.argv[1], sys.argv[2], sys.argv[3] == "closed")
"""


@pytest.mark.parametrize(
    ("ending", "state"),
    [
        ("exit", "open"),
        ("return", "open"),
        ("error", "open"),
        ("os_exit", "open"),
        ("exec", "open"),
        ("exit", "closed"),
    ],
)
def test_a_child_ends_as_it_wants_to(url: str, ending: str, state: str) -> None:
    """The exit handler of RocksDB's library waited for threads that a child does not have."""
    done = subprocess.run(
        [sys.executable, *WARNINGS, "-c", ENDS, url, ending, state],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if ending != "error":
        assert done.stderr == ""
    with open_repository(url) as repository:
        keys = {entry.key for entry in repository.contents.iterate("main")}
    assert keys == ({("before",), ("after",)} if state == "open" else {("before",)})


def test_a_child_does_not_keep_the_store_locked(url: str) -> None:
    repository = open_repository(url)
    reading, writing = os.pipe()
    child = ForkedChild(lambda: os.read(reading, 1).decode())
    repository.close()
    with open_repository(url) as again:
        commit(again, "while the child is there")
    os.write(writing, b"x")
    assert child.result() == "x"


@pytest.mark.parametrize("state", ["open", "closed"])
def test_no_store_is_opened_by_a_child_of_a_process_that_has_used_rocksdb(
    url: str, tmp_path: Path, state: str
) -> None:
    """Its writes would wait for threads of the library that the child does not have."""
    repository = open_repository(url)
    if state == "closed":
        repository.close()
    other = tmp_path / "other"

    def work() -> list[str]:
        kinds = [error_kind(partial(open_repository, each)) for each in (url, f"rocksdb:{other}")]
        return [*kinds, str(other.exists())]

    assert ForkedChild(work).result() == ["store_forked", "store_forked", "False"]
    repository.close()


OPENS_IN_CHILD = """
import os, sys
import lochan.stores.rocksdb
from lochan.assembly import open_store
from lochan.kv.store import Partition
if not os.fork():
    store = open_store(sys.argv[1])
    # More than all write buffers hold: threads of the library have to work.
    for number in range(30):
        place = Partition(b"place")
        store.put_many([(place, b"%d/%d" % (number, row), bytes(40_000)) for row in range(100)])
    store.flush(store.epoch())
    store.close()
    sys.exit(3)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def test_a_child_of_a_process_that_has_not_used_rocksdb_opens_a_store(url: str) -> None:
    done = subprocess.run(
        [sys.executable, *WARNINGS, "-c", OPENS_IN_CHILD, url],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (3, "")


SHARED: list[Embedded] = []


def _commit_shared(name: str) -> None:
    commit(SHARED[0], name)


def _commit_opened(url: str, name: str) -> int:
    with open_repository(url) as repository:
        commit(repository, name)
        return os.getpid()


def test_workers_of_multiprocessing_are_refused_or_open_the_store_themselves(
    url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    forked = multiprocessing.get_context("fork")
    spawned = multiprocessing.get_context("spawn")
    with open_repository(url) as repository, warnings.catch_warnings():
        # From Python 3.12 on a fork beside threads is warned of, and is what is tested here.
        warnings.simplefilter("ignore", DeprecationWarning)
        SHARED[:] = [repository]
        commit(repository, "before")
        with ProcessPoolExecutor(2, forked) as executor:
            for future in [executor.submit(_commit_shared, name) for name in "abcd"]:
                with pytest.raises(StoreForked, match="lochan serve"):
                    future.result()
        # Its workers end by themselves: a signal may be lost on a process that has just begun.
        pool = forked.Pool(2)
        with pytest.raises(StoreForked):
            pool.map(_commit_shared, "ab")
        pool.close()
        pool.join()
        process = forked.Process(target=_commit_shared, args=("e",))
        process.start()
        process.join()
        assert process.exitcode == 1
        with ProcessPoolExecutor(1, spawned) as executor, pytest.raises(StoreLocked):
            executor.submit(_commit_opened, url, "f").result()
        commit(repository, "after")
    SHARED.clear()
    with ProcessPoolExecutor(1, spawned) as executor:
        assert executor.submit(_commit_opened, url, "spawned").result() != os.getpid()
    with open_repository(url) as repository:
        keys = {entry.key[0] for entry in repository.contents.iterate("main")}
    assert keys == {"before", "after", "spawned"}
    capfd.readouterr()
