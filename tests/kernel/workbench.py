"""A repository on the memory store with time and random in hand, and simple proposals.

Shared by the tests of the kernel; holds no test of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256

import msgspec

from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.keys import Key, Universe, file_key, table_key
from lochan.base.names import RefName
from lochan.codec.elements import pack_table
from lochan.codec.rows import ReferenceRow
from lochan.index.layers import read_page
from lochan.kernel.build import Head
from lochan.kernel.claims import KeyedRequest, claim_on_branch
from lochan.kernel.context import RepositoryContext
from lochan.kernel.history import iterate_log
from lochan.kernel.name_index import NameIndex
from lochan.kernel.plan import ANY, Anything, CommitPlan, Operation
from lochan.kernel.provenance import Initiator
from lochan.kernel.publish import Find, Published, Publisher
from lochan.kernel.references import NewReferenceRow, ReferenceIndex
from lochan.kernel.repository import Ports, create_repository, open_repository
from lochan.kernel.tags import Tags
from lochan.kernel.views import CommitView
from lochan.kv.observe import ObservedStore
from lochan.kv.store import Capabilities, Store
from lochan.model.references import Annotation
from lochan.persist.claims import Claim
from lochan.stores.memory.store import MemoryStore
from lochan.testing.call_counts import CallCounts
from lochan.testing.faults import Fault, FaultKind, FaultyStore, PlannedCall
from lochan.testing.ports import ManualClock, RecordedWaiting, SeededRandom

MAIN = RefName("main")


class Bench:
    """One server's view of one repository."""

    def __init__(self, store: Store | None = None, *, seed: int = 1, fresh: bool = True) -> None:
        self.store: Store = MemoryStore() if store is None else store
        self.clock = ManualClock()
        self.waiting = RecordedWaiting(self.clock)
        self.random = SeededRandom(seed)
        self.ports = Ports(self.clock, self.random, self.waiting)
        if fresh:
            self.context = create_repository(self.store, self.ports, "repo")
        else:
            self.context = open_repository(self.store, self.ports, "repo")
        self.names = ReferenceIndex(self.context)
        self.publisher = Publisher(self.context, MAIN)

    def again(self, store: Store | None = None, *, seed: int = 2) -> Bench:
        """Another server on the same store, or on a wrapper of it; nothing is in its memory."""
        return Bench(self.store if store is None else store, seed=seed, fresh=False)

    def commit(self, *wants: Wants) -> list[Published]:
        """Publishes proposals that must not be refused."""
        return [published(one) for one in self.publisher.publish(wants)]

    def head(self, name: RefName = MAIN) -> CommitView:
        return self.context.views.load(ObjId(self.row(name).pointer))

    def row(self, name: RefName = MAIN) -> ReferenceRow:
        found = self.context.references.fetch(name)
        assert found is not None
        return found.row

    def log(self, name: RefName = MAIN) -> list[CommitView]:
        """The whole history, oldest first."""
        return list(iterate_log(self.context.views, ObjId(self.row(name).pointer)))[::-1]

    def content(self, view: CommitView, universe: Universe) -> dict[bytes, bytes]:
        """Everything that a commit holds in one universe, read page by page."""
        start, found = bytes((universe,)), {}
        while True:
            items = read_page(
                self.context.nodes, view.index(universe), start, bytes((universe + 1,)), 500
            )
            found.update(items)
            if len(items) < 500:
                return found
            start = items[-1][0] + b"\0"


class Wants:
    """A proposal with fixed plans."""

    def __init__(self, *plans: CommitPlan, incarnation: int | None = None) -> None:
        self.plans = plans
        self.incarnation = incarnation
        self.heads: list[ObjId] = []

    def plan(self, head: Head) -> Sequence[CommitPlan]:
        self.heads.append(head.view.obj_id)
        return self.plans


class Reacts:
    """A proposal that plans by a function of the head."""

    incarnation = None

    def __init__(self, react: Callable[[Head], Sequence[CommitPlan]]) -> None:
        self._react = react

    def plan(self, head: Head) -> Sequence[CommitPlan]:
        return self._react(head)


class OnCalls:
    """A plan that does something to the calls that it chooses."""

    def __init__(self, choose: Callable[[PlannedCall], Fault | FaultKind | None]) -> None:
        self._choose = choose
        self.seen: list[PlannedCall] = []

    def decide(self, call: PlannedCall) -> Fault:
        self.seen.append(call)
        chosen = self._choose(call)
        if chosen is None:
            return Fault(FaultKind.OK)
        return chosen if isinstance(chosen, Fault) else Fault(chosen)


class LockingStore(FaultyStore):
    """Claims to have row locks, so that publishers hold rows after a lost swap."""

    @property
    def capabilities(self) -> Capabilities:
        return msgspec.structs.replace(super().capabilities, row_locks=True)


def nth(operation: str, ordinal: int, *faults: Fault | FaultKind) -> OnCalls:
    """Does things to the n-th call of an operation and to those of it that follow."""
    counted = [0]

    def choose(call: PlannedCall) -> Fault | FaultKind | None:
        if call.operation != operation:
            return None
        counted[0] += 1
        at = counted[0] - 1 - ordinal
        return faults[at] if 0 <= at < len(faults) else None

    return OnCalls(choose)


def dies_after_the_swap(store: Store) -> FaultyStore:
    """A store on which a server dies before it can go on after a move that it has just made."""
    swapped = []

    def choose(call: PlannedCall) -> FaultKind | None:
        if call.operation == "set_if":
            swapped.append(call)
        return FaultKind.CRASH_BEFORE if swapped and call.operation == "apply" else None

    return FaultyStore(store, OnCalls(choose))


def counted(store: Store) -> tuple[ObservedStore, CallCounts]:
    counts = CallCounts()
    return ObservedStore(store, counts, ManualClock()), counts


def table(number: int) -> Key:
    return table_key(["ns", f"table{number:06}"])


def path(number: int) -> Key:
    return file_key(f"dir/file{number:06}")


def element(number: int, payload: int = 1, content: int = 0) -> bytes:
    """A table element; the number is its value."""
    return pack_table(payload, ObjId(sha256(b"%d" % number).digest()), content.to_bytes(16, "big"))


def file_element(number: int) -> bytes:
    return b"\0" + b"file %d" % number


def put(key: bytes, value: bytes | None, expected: bytes | Anything | None = ANY) -> Operation:
    return Operation(key, value, expected)


def plan(operations: Iterable[Operation], name: str = "m", **more) -> CommitPlan:
    """A plan whose operation id is its name."""
    hidden = (("operation", (name,)),)
    return CommitPlan(list(operations), name, hidden=hidden, **more)


def wants(number: int, name: str | None = None) -> Wants:
    """Puts one table."""
    return Wants(plan([put(table(number), element(number))], name or f"put {number}"))


def published(settled: object) -> Published:
    assert isinstance(settled, Published), settled
    return settled


def operations(views: Iterable[CommitView]) -> list[str]:
    """The operation ids of commits."""
    return [dict(view.body.hidden)["operation"][0] for view in views if view.body is not None]


def branch(name: str, pointer: ObjId = EMPTY_ID) -> NewReferenceRow:
    return NewReferenceRow(RefName(name), "BRANCH", pointer)


def tag(
    bench: Bench, name: RefName, target: ObjId, who: str = "", note: Annotation | None = None
) -> ReferenceRow:
    """Creates a tag of a commit or of a tag, as the service does."""
    tags = Tags(bench.context)
    tags.peel_named(target)
    pointer = target if note is None else tags.annotate(target, note)
    return bench.names.create_many([NewReferenceRow(name, "TAG", pointer)], Initiator(who))[0]


def listed(context: RepositoryContext) -> dict[str, int]:
    """The content of the index of names: name and incarnation."""
    index = NameIndex(context)
    found = index.find_many([name for name, _ in index.page(b"f", b"g", 10_000)])
    return {name: one.incarnation for name, one in found.items()}


def claim(
    context: RepositoryContext,
    principal: str,
    key: str,
    digest: bytes,
    name: RefName,
    find: Find | None = None,
) -> Claim:
    """Claims a key for a commit to a branch."""
    return claim_on_branch(context, KeyedRequest(principal, key, digest, "commit", name), find)
