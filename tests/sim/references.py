"""A miniature of references: a row for each name, and an index that lists them.

Create commits to the index, then writes the row; delete marks the row, commits to the index, and
then purges the row or leaves a tombstone. A server that finds a half-done step finishes it, by one
of three rules; the studies show that only the last is right.
"""

from __future__ import annotations

from typing import NamedTuple

from lochan.base.errors import AlreadyExists, NotFound
from lochan.kv.store import ABSENT, Expected, Partition, Stamp, Store, Won
from lochan.testing.sim import History, Scenario, Server, World

ROWS = Partition(b"rows")
INDEX = Partition(b"index")
NAME = b"main"
UNNAMED = 0


class Index(NamedTuple):
    """Version of the index, and the incarnation of the one name it may list."""

    version: int
    listed: int
    expected: Expected


class Row(NamedTuple):
    live: bool
    incarnation: int
    stamp: Stamp


class References:
    """The protocol, with one of the rules of recovery."""

    def __init__(self, store: Store, rule: str, *, resume: bool = True) -> None:
        self.store = store
        self.rule = rule
        self.resume = resume

    def fetch_index(self) -> Index:
        entry = self.store.get(INDEX, NAME)
        if entry is None:
            return Index(0, UNNAMED, ABSENT)
        version, listed = entry.value.split()
        return Index(int(version), int(listed), entry.stamp)

    def fetch_row(self) -> Row | None:
        entry = self.store.get(ROWS, NAME)
        if entry is None:
            return None
        state, incarnation = entry.value.split()
        return Row(state == b"live", int(incarnation), entry.stamp)

    def commit_index(self, index: Index, listed: int) -> bool:
        value = b"%d %d" % (index.version + 1, listed)
        return isinstance(self.store.set_if(INDEX, NAME, value, index.expected), Won)

    def create(self) -> int:
        while True:
            index = self.fetch_index()
            if index.listed != UNNAMED:
                self.get()
                raise AlreadyExists("listed")
            incarnation = index.version + 1
            if self.commit_index(index, incarnation):
                break
        self.add_row(incarnation)
        return incarnation

    def add_row(self, incarnation: int) -> None:
        """Writes the live row of an incarnation, unless a later step was made already."""
        row = self.fetch_row() if self.rule == "incarnation" else None
        if row is not None and row.incarnation >= incarnation:
            return
        expected: Expected = ABSENT if row is None else row.stamp
        self.store.set_if(ROWS, NAME, b"live %d" % incarnation, expected)

    def delete(self) -> int:
        row = self.fetch_row()
        if row is None or not row.live:
            raise NotFound("no live row")
        value = b"deleted %d" % row.incarnation
        marked = self.store.set_if(ROWS, NAME, value, row.stamp)
        if not isinstance(marked, Won):
            raise NotFound("another server deleted it")
        self.unlist(row.incarnation)
        if self.rule != "incarnation":
            self.store.delete_if(ROWS, NAME, marked.stamp)
        return row.incarnation

    def unlist(self, incarnation: int) -> None:
        index = self.fetch_index()
        while index.listed == incarnation and not self.commit_index(index, UNNAMED):
            index = self.fetch_index()

    def get(self) -> int:
        row = self.fetch_row()
        if row is not None and row.live:
            return row.incarnation
        if row is not None and self.rule != "incarnation":
            raise NotFound("being deleted")
        index = self.fetch_index()
        if index.listed == UNNAMED:
            raise NotFound("not listed")
        if row is not None and index.listed == row.incarnation:
            if self.resume:
                self.unlist(row.incarnation)
            raise NotFound("deleted")
        if self.rule == "check head" and self.fetch_index() != index:
            raise NotFound("the index moved")
        self.add_row(index.listed)
        return index.listed


def no_zombie(world: World, history: History) -> None:
    references = References(world.store, "")
    row, index = references.fetch_row(), references.fetch_index()
    if row is not None and row.live:
        assert index.listed == row.incarnation, "a live row that the index does not list"


def row_and_index_agree(world: World, history: History) -> None:
    no_zombie(world, history)
    references = References(world.store, "")
    row, index = references.fetch_row(), references.fetch_index()
    if index.listed != UNNAMED:
        assert row is not None and row.live, "listed, but without a live row"  # noqa: PT018
        assert index.listed == row.incarnation


def interleaved(rule: str, *plans: str) -> Scenario:
    """Each plan is the operations of one actor on a server of its own, separated by blanks."""

    def actor(plan: str):
        def act(server: Server) -> None:
            references = References(server.store, rule)
            for operation in plan.split():
                server.attempt(operation, getattr(references, operation))

        return act

    return Scenario(
        name=f"{' | '.join(plans)}, {rule}",
        servers={f"s{number}": [actor(plan)] for number, plan in enumerate(plans)},
        checks={"no zombie": no_zombie},
    )
