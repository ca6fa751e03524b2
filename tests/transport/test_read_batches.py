"""Reads that wait together share one look at their rows, and answer as they would alone."""

from __future__ import annotations

from functools import partial

import pytest

from lochan.access.policy import Call
from lochan.base.errors import LochanError, ReferenceNotFound
from lochan.kernel.repository import Ports, create_repository
from lochan.kv.observe import ObservedStore
from lochan.model.requests import NewReference
from lochan.model.specs import parse_spec
from lochan.service.repository import Repository
from lochan.stores.memory.store import MemoryStore
from lochan.testing.call_counts import CallCounts
from lochan.testing.ports import ManualClock, RecordedWaiting, SeededRandom
from lochan.transport.exchange import Response
from lochan.transport.read_batches import BatchedRead, Outcome, read_together


@pytest.fixture
def world() -> tuple[Repository, CallCounts]:
    clock = ManualClock()
    counts = CallCounts()
    store = ObservedStore(MemoryStore(), counts, clock)
    ports = Ports(clock, SeededRandom(1), RecordedWaiting(clock))
    repository = Repository(create_repository(store, ports, "default"))
    for name in ("a", "b"):
        new = NewReference(kind="BRANCH", name=name, source=parse_spec("main"))
        write = repository.references.create(Call(), new)
        (settled,) = repository.publisher(write.branch).publish([write.proposal])
        write.finish(settled)
    counts.reset()
    return repository, counts


def read(repository: Repository, name: str) -> Response:
    return Response(200, repository.references.get(Call(), name).hash.encode())


def together(repository: Repository, *names: str) -> list[Outcome]:
    ignored: list[Outcome] = []
    return read_together(
        [
            BatchedRead(repository, name, partial(read, repository, name), ignored.append)
            for name in names
        ]
    )


def test_eight_reads_look_at_the_rows_once(world):
    repository, counts = world
    answers = together(repository, "main", "a", "b", "-", "main", "a", "b", "main")
    assert all(isinstance(answer, Response) for answer in answers)
    assert counts.calls == {"get_many": 1}


def test_one_read_looks_for_itself(world):
    repository, counts = world
    together(repository, "main")
    assert counts.calls == {"get": 1}


def test_what_is_missing_or_reserved_is_told_to_who_asked_for_it(world):
    repository, _ = world
    answers = together(repository, "main", "nowhere", "int/refs", "a")
    assert [isinstance(answer, Response) for answer in answers] == [True, False, False, True]
    assert all(isinstance(answer, ReferenceNotFound) for answer in answers[1:3])


def test_a_row_that_was_read_ahead_is_forgotten_afterwards(world):
    repository, counts = world
    together(repository, "main", "a")
    repository.references.delete(Call(), "a", None)
    counts.reset()
    first, second = together(repository, "a", "main")
    assert isinstance(first, LochanError)
    assert isinstance(second, Response)
    with pytest.raises(ReferenceNotFound):
        repository.references.get(Call(), "a")
