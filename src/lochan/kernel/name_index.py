"""The index of references: which names exist, in which incarnation, now and at any earlier time.

It is the content of `int/refs`, a chain of internal commits that is only ever added to. So the
first state of a reference stays readable after its row has been replaced or removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from lochan.base.errors import Corrupt, Denied
from lochan.base.ids import ObjId
from lochan.base.keys import Key, Universe, file_key, file_path, ordered
from lochan.base.names import REFS_NAME, RefName
from lochan.codec.rows import (
    Move,
    ReferenceElement,
    ReferenceRow,
    decode_reference_element,
    encode_reference_element,
)
from lochan.index.layers import diff, find_many, read_page
from lochan.index.source import NodeSource
from lochan.kernel.build import Head
from lochan.kernel.context import RepositoryContext
from lochan.kernel.history import ancestor_at
from lochan.kernel.plan import CommitPlan, Operation
from lochan.kernel.provenance import Initiator, Provenance
from lochan.kernel.tags import BRANCH
from lochan.kernel.views import EMPTY_VIEW, CommitView

_FIRST_VERSION: Final = 1


class NewReferenceRow(msgspec.Struct, frozen=True):
    """A reference to be created."""

    name: RefName
    kind: str
    pointer: ObjId
    expires_us: int | None = None
    concealed: bool = False


class UnreadableReference(msgspec.Struct, frozen=True, gc=False):
    """A reference whose row has a newer format: what the index of names contains of it."""

    name: str
    kind: str
    created_us: int
    reason: str


ListedReference = ReferenceRow | UnreadableReference


class NameIndex:
    """Reads the index of one repository."""

    def __init__(self, context: RepositoryContext) -> None:
        self._context = context

    def head(self) -> CommitView:
        """Returns the present index."""
        found = self._context.references.fetch(REFS_NAME)
        if found is None:
            raise Corrupt("the index of references has lost its row")
        return self._context.views.load(ObjId(found.row.pointer))

    def find(self, name: RefName) -> ReferenceElement | None:
        """Returns what the index lists under a name now."""
        return self.find_many([name]).get(name)

    def find_many(
        self, names: Sequence[RefName], at: CommitView | None = None
    ) -> dict[RefName, ReferenceElement]:
        """Returns those of the names that the index lists, now or as of one of its commits."""
        by_key = {bytes(file_key(name)): name for name in names}
        keys = sorted(by_key)
        elements = find_many(self._context.nodes, (at or self.head()).files, keys)
        return {
            by_key[key]: decode_reference_element(element)
            for key, element in zip(keys, elements, strict=True)
            if element is not None
        }

    def page(self, first: bytes, stop: bytes, limit: int) -> list[tuple[RefName, bytes]]:
        """Returns the names between two keys of the index, in order, with their elements."""
        items = read_page(self._context.nodes, self.head().files, first, stop, limit)
        return [(RefName(file_path(Key(key))), element) for key, element in items]

    def get_created(self, name: RefName, incarnation: int) -> ReferenceElement:
        """Returns the first state of a reference, from the commit that added its incarnation."""
        views = self._context.views
        made = views.load(ancestor_at(views, self.head(), incarnation))
        element = self.find_many([name], made).get(name)
        if element is None:
            raise Corrupt(f"the index does not contain how {name!r} was created")
        return element


def row_of(name: RefName, element: ReferenceElement) -> ReferenceRow:
    """Returns the first row of a reference; every writer of it writes the same."""
    first = Move(
        _FIRST_VERSION,
        b"",
        element.pointer,
        "create",
        element.who,
        element.created_us,
        element.operation,
        roles=element.roles,
    )
    return ReferenceRow(
        1,
        name,
        element.kind,
        element.pointer,
        _FIRST_VERSION,
        element.incarnation,
        element.operation,
        element.created_us,
        expires_us=element.expires_us,
        moves=(first,),
        concealed=element.concealed,
    )


class BranchCount:
    """How many branches the index lists; exact, because it is counted on the head of each plan.

    The last published head that was counted is remembered, with its number. Another head costs the
    difference between the two; only the first count of a server reads the whole index.
    """

    def __init__(self) -> None:
        self._known: tuple[CommitView, int] = (EMPTY_VIEW, 0)

    def on(self, head: Head) -> int:
        """Returns how many branches there are on a head, which may be unpublished."""
        base = head.builder.base
        # Read and replaced as a whole: several threads may plan.
        known, count = self._known
        if known.obj_id != base.obj_id:
            count += _added(head.nodes, known, base)
            self._known = (base, count)
        # Nodes of an unpublished commit may never be stored, so it is not remembered.
        return count + _added(head.nodes, base, head.view)


def _added(nodes: NodeSource, before: CommitView, after: CommitView) -> int:
    """Returns how many branches more one commit of the index lists than another."""
    index = Universe.FILES
    changes = diff(nodes, before.index(index), after.index(index))
    return sum(_is_branch(change.right) - _is_branch(change.left) for change in changes)


def _is_branch(element: bytes | None) -> bool:
    return element is not None and decode_reference_element(element).kind == BRANCH


class BranchLimit(msgspec.Struct, frozen=True):
    """How many branches a repository may have, and how many it has."""

    branches_max: int
    count: BranchCount

    def check(self, head: Head, added: int) -> None:
        """Raises Denied if there would be too many branches."""
        if added and self.count.on(head) + added > self.branches_max:
            raise Denied(
                f"this repository may have {self.branches_max} branches, and would have more; "
                "delete some first"
            )


class AddNames:
    """Adds names to the index; each gets the sequence of the commit as its incarnation."""

    incarnation = None

    def __init__(
        self,
        context: RepositoryContext,
        wanted: Sequence[NewReferenceRow],
        who: Initiator,
        operation: bytes | None = None,
        limit: BranchLimit | None = None,
    ) -> None:
        self._wanted = wanted
        self._limit = limit
        self.names = [new.name for new in wanted]
        self._who = who
        self._operation = operation or context.random.random_bytes(16)
        self._now_us = context.clock.now_us()
        self.elements: dict[RefName, ReferenceElement] = {}

    def plan(self, head: Head) -> Sequence[CommitPlan]:
        """Plans one commit with all names; each expects that it is not listed."""
        if self._limit is not None and not self._has_listed(head):
            self._limit.check(head, sum(new.kind == BRANCH for new in self._wanted))
        self.elements = {
            new.name: ReferenceElement(
                new.kind,
                new.pointer,
                head.view.sequence + 1,
                self._now_us,
                self._operation,
                self._who.name,
                new.expires_us,
                self._who.roles,
                new.concealed,
            )
            for new in self._wanted
        }
        operations = [
            Operation(file_key(name), encode_reference_element(element), None)
            for name, element in self.elements.items()
        ]
        hidden = Provenance(who=self._who, operation=self._operation.hex()).headers()
        return [CommitPlan(operations, "create references", hidden=hidden)]

    def _has_listed(self, head: Head) -> bool:
        """Returns whether a name is taken: that is the reason to refuse it then."""
        found = head.find(ordered(bytes(file_key(name)) for name in self.names))
        return any(element is not None for element in found.values())


class RemoveName:
    """Removes a name from the index if it is still of the same incarnation."""

    incarnation = None

    def __init__(self, context: RepositoryContext, name: RefName, incarnation: int) -> None:
        self._name = name
        self._wanted = incarnation
        self._operation = context.random.random_bytes(16)

    def plan(self, head: Head) -> Sequence[CommitPlan]:
        """Plans the removal; nothing if another caller has finished it."""
        key = file_key(self._name)
        found = head.find([key])[key]
        if found is None or decode_reference_element(found).incarnation != self._wanted:
            return []
        hidden = (("operation", (self._operation.hex(),)),)
        return [CommitPlan([Operation(key, None, found)], "delete reference", hidden=hidden)]
