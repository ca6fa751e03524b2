"""Forks beside a PostgreSQL store: children work on connections of their own, the parent on its."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from threading import Event, Thread

import psycopg
import pytest

from lochan import open_repository
from lochan.embedded import Embedded
from lochan.model.commits import Put
from lochan.model.contents import Namespace
from lochan.stores.postgres import session
from lochan.stores.postgres import store as postgres_store
from lochan.testing.contracts.sample_rows import REFERENCES, create
from lochan.testing.forks import ForkedChild
from lochan.testing.postgres import PostgresServer
from tests.architecture.tree import ROOT
from tests.crash.preforked import WARNINGS, kill_again_and_again
from tests.profile import counted
from tests.stores.postgres.conftest import Open

WORKS = ("get", "entries", "log", "commit", "create", "merge", "delete", "check", "close")


def sessions(database: psycopg.Connection, name: str) -> set[int]:
    """Returns the server's processes that serve clients of that name."""
    rows = database.execute("SELECT pid FROM pg_stat_activity WHERE application_name = %s", (name,))
    return {row[0] for row in rows}


def test_what_a_forking_program_and_its_children_acknowledged_survives_their_kill(
    server: PostgresServer, schema: str
) -> None:
    def worked(outcomes: dict[str, str]) -> None:
        assert outcomes == dict.fromkeys(WORKS, "none")

    url = server.url(schema=schema, pool=4)
    acknowledged = kill_again_and_again(url, counted(1, 6), worked)
    assert any("child" in name for name in acknowledged)


def test_a_child_leaves_the_sessions_of_its_parent_alone(
    opened: Open, database: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine three children need longer than a row may be held.
    monkeypatch.setitem(session._SETTINGS, "idle_in_transaction_session_timeout", "600000")
    monkeypatch.setattr(postgres_store, "HOLD_TIMEOUT_S", 600)
    store = opened(pool=3, application_name="leaves")
    create(store, b"key")
    holds = [store.hold(REFERENCES, b"key")]
    before = sessions(database, "leaves")
    assert before

    def work() -> list[int]:
        holds.clear()
        assert store.get(REFERENCES, b"key") is not None
        inside = sessions_of_child()
        store.close()
        return inside

    def sessions_of_child() -> list[int]:
        with psycopg.connect(database.info.dsn, autocommit=True) as own:
            return sorted(sessions(own, "leaves") - before)

    for _ in range(3):
        assert len(ForkedChild(work).result()) == 1
        assert before <= sessions(database, "leaves")
    holds[0].release()
    assert store.get(REFERENCES, b"key") is not None
    assert before & sessions(database, "leaves")


ENDS = """
import os, sys
from lochan import open_repository
from tests.crash.preforking import commit
repository = open_repository(sys.argv[1])
commit(repository, "before")
for use in (False, True):
    if not os.fork():
        if use:
            commit(repository, "child")
            repository.close()
        sys.exit(3)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 3
    commit(repository, f"after {use}")
repository.close()
"""


def test_the_end_of_a_child_does_not_disturb_its_parent(
    server: PostgresServer, schema: str
) -> None:
    url = server.url(schema=schema, pool=1)
    done = subprocess.run(
        [sys.executable, *WARNINGS, "-c", ENDS, url],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    with open_repository(url) as repository:
        keys = [entry.key[0] for entry in repository.contents.iterate("main")]
    assert sorted(keys) == ["after False", "after True", "before", "child"]


def test_a_child_commits_although_a_thread_of_its_parent_was_publishing(
    server: PostgresServer, schema: str
) -> None:
    """The lane of a branch belongs to a thread that the child does not have."""
    with open_repository(server.url(schema=schema, pool=4)) as repository:
        over = Event()

        def publish(number: int) -> None:
            turn = 0
            while not over.is_set():
                turn += 1
                commit_quietly(repository, f"thread{number}-{turn}")

        threads = [Thread(target=publish, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        try:
            for number in range(counted(6, 60)):
                name = f"child{number}"
                ForkedChild(partial(commit_quietly, repository, name)).result()
        finally:
            over.set()
            for thread in threads:
                thread.join()
        keys = {entry.key[0] for entry in repository.contents.iterate("main")}
        assert {f"child{number}" for number in range(counted(6, 60))} <= keys


def commit_quietly(repository: Embedded, name: str) -> None:
    put = Put(key=(name,), content=Namespace(elements=(name,)))
    repository.commits.commit("main", name, [put])
