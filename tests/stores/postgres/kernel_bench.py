"""Repositories on a real PostgreSQL for tests of the kernel; holds no test of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from lochan.base.ids import ObjId
from lochan.base.keys import table_key
from lochan.base.names import ref_name
from lochan.codec.elements import pack_table
from lochan.kernel.build import Head
from lochan.kernel.context import RepositoryContext
from lochan.kernel.plan import CommitPlan, Operation
from lochan.kernel.publish import Published, Publisher
from lochan.kernel.repository import Ports, create_repository, open_repository
from lochan.kernel.views import CommitView
from lochan.kv.store import Store
from lochan.system import SystemClock, SystemRandom, ThreadWaiting
from lochan.testing.invariants import all_rows, check_chain, heads_of, line_of, operations_in

MAIN = ref_name("main")
PORTS = Ports(SystemClock(), SystemRandom(), ThreadWaiting())


class Write:
    """Puts one key; carries its operation id, so that history can be held against it."""

    incarnation = None

    def __init__(self, operation: str, key: str = "only") -> None:
        self.operation = operation
        self.keys = [table_key([key])]
        self.element = pack_table(1, ObjId(operation.encode().ljust(32, b".")[:32]), bytes(16))
        hidden = (("operation", (operation,)),)
        self._plan = CommitPlan([Operation(self.keys[0], self.element)], operation, hidden=hidden)

    def plan(self, head: Head) -> Sequence[CommitPlan]:
        return [self._plan]


class Tally(msgspec.Struct):
    """What was acknowledged, held against what is there."""

    acknowledged: int
    losses: int
    duplicates: int
    strangers: int


def create(store: Store) -> RepositoryContext:
    return create_repository(store, PORTS, "default")


def connect(store: Store) -> RepositoryContext:
    return open_repository(store, PORTS, "default")


def operation_of(view: CommitView) -> str:
    assert view.body is not None
    return dict(view.body.hidden)["operation"][0]


def acknowledged_by(settled: Sequence[object]) -> dict[str, ObjId]:
    """Returns the operations of a chain whose proposals were all published, and their commits."""
    found = {}
    for answer in settled:
        assert isinstance(answer, Published), answer
        (view,) = answer.commits
        found[operation_of(view)] = view.obj_id
    return found


def publish(publisher: Publisher, names: Sequence[str]) -> dict[str, ObjId]:
    """Publishes a chain of writes and returns what was acknowledged."""
    acknowledged = acknowledged_by(publisher.publish([Write(name) for name in names]))
    assert list(acknowledged) == list(names)
    return acknowledged


def tally(store: Store, acknowledged: dict[str, ObjId], sent: set[str]) -> Tally:
    """Reads the branch with fresh eyes; the chain itself must be right."""
    context = connect(store)
    row = all_rows(context)[MAIN]
    check_chain(context, ObjId(row.pointer))
    line = {view.obj_id for view in line_of(context, ObjId(row.pointer))}
    found = Counter(operations_in(context, heads_of(context, row)))
    return Tally(
        len(acknowledged),
        sum(obj_id not in line for obj_id in acknowledged.values()),
        sum(count > 1 for count in found.values()),
        len(set(found) - sent),
    )
