"""Twelve clients at once with all operations on files, tables and branches: every promise holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.http_load.processes import start_lochan
from lochan.client import Client
from lochan.embedded import open_repository
from lochan.testing.postgres import MISSING, find_binaries, shared_server
from tests.profile import counted
from tests.stateful.file_crowd import run_crowd
from tests.stateful.file_crowd_check import FileCrowdCheck

CLIENTS = 12
ROUNDS = range(counted(1, 15))
"""Each has a repository of its own, and another seed; together 30,000 requests in `deep`."""

Opened = Callable[[], AbstractContextManager[list[Any]]]


def crowd(opened: Opened, seed: int, wanted: int) -> FileCrowdCheck:
    """Runs one round and compares everything."""
    with opened() as systems:
        check = FileCrowdCheck(systems[0], run_crowd(systems, seed, wanted))
        check.run()
        if hasattr(systems[0], "check"):
            check.wrong += map(str, systems[0].check(history=True).findings)
    return check


def agrees(opened: Opened, seed: int, wanted: int) -> str:
    """Runs a round and raises if anything differs; returns what was done, in numbers."""
    check = crowd(opened, seed, wanted)
    if check.wrong:
        listed = "\n".join(check.wrong[:5])
        pytest.fail(f"seed {seed}: {len(check.wrong)} differences\n{listed}")
    refused = sum(times for name, times in check.counts.items() if not name.endswith(" done"))
    unknown = sum(times for name, times in check.counts.items() if name.endswith(" Unknown"))
    commits = len(check.history.commits)
    requests = sum(check.counts.values())
    return f"{requests} requests, {refused} refused, {unknown} unknown, {commits} commits"


@contextmanager
def threads(url: str) -> Iterator[list[Any]]:
    """Twelve threads on one embedded repository."""
    with open_repository(url) as repository:
        yield [repository] * CLIENTS


@contextmanager
def clients(urls: Sequence[str]) -> Iterator[list[Any]]:
    """Twelve clients on as many servers as there are, in turn."""
    with ExitStack() as stack:
        yield [stack.enter_context(Client(urls[at % len(urls)])) for at in range(CLIENTS)]


@pytest.mark.parametrize("seed", ROUNDS)
def test_twelve_threads_on_rocksdb_keep_every_promise_of_files(
    seed: int, record_property: Any, tmp_path: Path
) -> None:
    url = f"rocksdb:{tmp_path / 'store'}"
    summary = agrees(lambda: threads(url), seed, counted(1_500, 2_000))
    record_property("counted", f"files, twelve threads on RocksDB, seed {seed}: {summary}")


@pytest.mark.parametrize("seed", ROUNDS)
def test_two_servers_on_one_database_keep_every_promise_of_files(
    seed: int, record_property: Any, tmp_path: Path
) -> None:
    if find_binaries() is None:
        pytest.skip(MISSING)
    server = shared_server()
    assert server is not None
    store, data = server.url(schema=server.fresh_schema()), str(tmp_path / "data")
    with (
        start_lochan(store, tmp_path / "first", "--data", data) as one,
        start_lochan(store, tmp_path / "second", "--data", data) as other,
    ):
        urls = [one.address, other.address]
        summary = agrees(lambda: clients(urls), seed, counted(1_000, 2_000))
    record_property("counted", f"files, two servers on PostgreSQL, seed {seed}: {summary}")
