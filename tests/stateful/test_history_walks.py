"""Random mixes of all operations against the model of history: embedded, HTTP, two servers.

A failing walk is made shorter by leaving steps out, and printed with its seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from lochan.client import Client
from lochan.embedded import open_repository
from lochan.testing.postgres import MISSING, find_binaries, shared_server
from tests.client.serving import serving
from tests.profile import counted
from tests.stateful.history_answers import Difference
from tests.stateful.history_walk import Walk

STEPS = 250
"""Steps of one walk; each walk has a repository of its own."""

PARTS = range(counted(1, 4))
"""Each has seeds of its own; one alone ends in good time on a busy machine too."""

Opened = Callable[[], Any]


def run(opened: Opened, steps: Sequence[int]) -> Walk:
    """Walks these steps in a new repository."""
    with opened() as catalogs:
        walk = Walk(catalogs)
        for at, number in enumerate(steps):
            try:
                walk.step(number)
            except Difference as error:
                error.add_note(f"at step {at} of {len(steps)}")
                error.add_note("\n".join(walk.trace))
                raise
        walk.finish()
        return walk


def fails(opened: Opened, steps: Sequence[int]) -> Difference | None:
    try:
        run(opened, steps)
    except Difference as error:
        return error
    return None


def shortened(opened: Opened, steps: list[int]) -> tuple[list[int], Difference]:
    """Leaves out all steps without which the walk still fails; halves first, then single ones."""
    error = fails(opened, steps)
    assert error is not None
    size = len(steps) // 2
    while size:
        at = 0
        while at < len(steps):
            fewer = steps[:at] + steps[at + size :]
            again = fails(opened, fewer)
            if again is None:
                at += size
            else:
                steps, error = fewer, again
        size //= 2
    return steps, error


def walks(opened: Opened, first_seed: int, wanted: int) -> str:
    """Walks until so many steps were compared; returns what was done, in numbers."""
    counts: dict[str, int] = {}
    for seed in range(first_seed, first_seed + -(-wanted // STEPS)):
        steps = [seed * 1_000_000 + at for at in range(min(STEPS, wanted))]
        try:
            walk = run(opened, steps)
        except Difference:
            least, error = shortened(opened, steps)
            notes = "\n".join(error.__notes__)
            pytest.fail(f"seed {seed}, shortest walk {least}: {error}\n{notes}")
        for name, times in walk.counts.items():
            counts[name] = counts.get(name, 0) + times
    listed = ", ".join(f"{name} {times}" for name, times in sorted(counts.items()))
    return f"{sum(counts.values())} steps: {listed}"


@contextmanager
def embedded(url: str) -> Iterator[list[Any]]:
    with open_repository(url) as repository:
        yield [repository]


def clients(names: Iterator[int], *urls: str) -> Opened:
    """Returns how a new repository is opened on every one of the servers."""

    @contextmanager
    def opened() -> Iterator[list[Any]]:
        name = f"walk-{next(names)}"
        with ExitStack() as stack:
            made = [stack.enter_context(Client(url, name)) for url in urls]
            make_repository(urls[0], name)
            yield made

    return opened


def make_repository(url: str, name: str) -> None:
    httpx.post(f"{url}/api/v2/repositories", json={"name": name}).raise_for_status()


@pytest.mark.parametrize("part", PARTS)
def test_a_repository_in_memory_agrees_with_the_model(part, record_property):
    summary = walks(lambda: embedded("memory:"), 1_000 + 100 * part, counted(3_000, 7_500))
    record_property("told", f"history, embedded in memory, part {part}: {summary}")


@pytest.mark.parametrize("part", PARTS)
def test_a_repository_on_rocksdb_agrees_with_the_model(part, record_property, tmp_path: Path):
    numbers = count()

    def opened():
        return embedded(f"rocksdb:{tmp_path / str(next(numbers))}")

    summary = walks(opened, 2_000 + 100 * part, counted(500, 2_000))
    record_property("told", f"history, embedded on RocksDB, part {part}: {summary}")


@pytest.mark.parametrize("part", PARTS)
def test_a_server_agrees_with_the_model(part, record_property):
    with serving() as url:
        summary = walks(clients(count(), url), 3_000 + 100 * part, counted(500, 2_000))
    record_property("told", f"history, one server, part {part}: {summary}")


@pytest.mark.parametrize("part", PARTS)
def test_two_servers_on_one_database_agree_with_the_model(part, record_property):
    if find_binaries() is None:
        pytest.skip(MISSING)
    server = shared_server()
    assert server is not None
    store = server.url(schema=server.fresh_schema())
    with serving(store) as one, serving(store) as other:
        summary = walks(clients(count(), one, other), 4_000 + 100 * part, counted(500, 2_000))
    record_property("told", f"history, two servers on PostgreSQL, part {part}: {summary}")
