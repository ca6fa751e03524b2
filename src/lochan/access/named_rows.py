"""Users, groups and policies: rows with an id, which other rows point to by their incarnation.

Deleting one takes several steps, and what a crash after each leaves:

1. Mark the row `deleting` by a swap. (From here on it counts as absent, and all rows that point to
   it are void.)
2. Remove the rows that point to it: memberships, attachments, tokens, access keys. (Some of them
   are left, void.)
3. Remove the row itself, if it is still the one that was marked. (Nothing.)

Any later caller that finds a marked row finishes steps 2 and 3: to create the same id, to delete it
again, or to list. A caller that adds a row that points to a user, a group or a policy reads that
one again after its write; so either the caller sees the mark and removes what it wrote, or step 2
finds it. Should the caller crash in between, its row points to an incarnation that is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

import msgspec

from lochan.access.records import NamedRow
from lochan.access.tables import AccessTable, after_effect
from lochan.base.errors import AlreadyExists, NotFound, TooLarge
from lochan.base.limits.access import ACCESS_COUNT_MS
from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.base.ports import Clock
from lochan.codec.forms import RowForm
from lochan.kv.store import Store
from lochan.model.results import Page
from lochan.persist.retry import Retry
from lochan.persist.rows import Done, Doubt, Stamped, Write

Named = TypeVar("Named", bound=NamedRow)

_NS_PER_MS: Final = 1_000_000


class NamedKind(msgspec.Struct, Generic[Named], frozen=True):
    """What differs between users, groups and policies; `blank` builds a row that is absent."""

    noun: str
    prefix: bytes
    form: RowForm[Named]
    blank: Callable[[str], Named]
    rows_max: int


class NamedRows(AccessTable[Named], Generic[Named]):
    """The users, the groups or the policies of one store; for any number of threads.

    `prune` is step 2 of a deletion: it removes all rows that point to an id and do not count.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        kind: NamedKind[Named],
        prune: Callable[[str, Retry], None],
    ) -> None:
        super().__init__(store, kind.prefix, kind.form, lambda row: self.key(row.id))
        self._clock = clock
        self._kind = kind
        self._prune = prune
        self._counted: tuple[int, int] | None = None

    def key(self, name: str) -> bytes:
        """Returns the key of the row of an id."""
        return self.prefix + name.encode()

    def find(self, name: str) -> Named | None:
        """Returns the row of an id, None if there is none that counts."""
        return _present(self.fetch(self.key(name)))

    def get(self, name: str) -> Named:
        """Returns the row of an id; NotFound if there is none that counts."""
        found = self.find(name)
        if found is None:
            raise self.not_found(name)
        return found

    def find_many(self, names: Iterable[str]) -> dict[str, Named]:
        """Returns the rows of those ids that have one that counts."""
        wanted = sorted(set(names))
        rows = map(_present, self.fetch_many([self.key(name) for name in wanted]))
        return {row.id: row for row in rows if row is not None}

    def not_found(self, name: str) -> NotFound:
        """Returns the error for an id without a row that counts."""
        return NotFound(f"there is no {self._kind.noun} {name!r}")

    def page(self, limit: int, after: str, retry: Retry) -> Page[Named]:
        """Returns rows in the order of their ids, after an id; finishes half-done deletions."""
        rows: list[Named] = []
        start = self.key(after) + b"\0" if after else self.prefix
        for page in self.pages(start=start, limit=min(limit + 1, PAGE_ENTRIES_MAX)):
            for found in page:
                if found.row.deleting:
                    self.finish(found, retry)
                elif found.row.incarnation:
                    rows.append(found.row)
            if len(rows) > limit:
                return Page(tuple(rows[:limit]), rows[limit - 1].id)
        return Page(tuple(rows), None)

    def create(self, row: Named, retry: Retry) -> None:
        """Adds a row with a new incarnation; AlreadyExists if the id is taken."""
        self.check_count()

        def decide(
            found: Stamped[Named] | None,
        ) -> Write[Named, Stamped[Named] | None] | Done[Stamped[Named] | None]:
            if found is None or not found.row.incarnation:
                return Write(row, None)
            if found.row.deleting:
                return Done(found)
            raise AlreadyExists(f"there is a {self._kind.noun} {row.id!r} already")

        blank = self._kind.blank(row.id)
        doubt = Doubt(f"the {self._kind.noun} {row.id!r} was created", "read it")
        while True:
            deleting = self.fill(blank, decide, _same_incarnation, retry, doubt)
            if deleting is None:
                return
            self.finish(deleting, retry)
            retry.again(at_once=True)

    def delete(self, name: str, retry: Retry) -> None:
        """Deletes a row and all that point to it; NotFound if there is none."""
        meant: list[bytes] = []

        def decide(
            found: Stamped[Named] | None,
        ) -> Write[Named, None] | Done[None]:
            incarnation = b"" if found is None else found.row.incarnation
            if found is None or not incarnation or meant not in ([], [incarnation]):
                if not meant:
                    raise self.not_found(name)
                # The one that was meant is gone; what is there now was created since.
                return Done(None)
            meant[:] = [incarnation]
            if found.row.deleting:
                return Done(None)
            return Write(msgspec.structs.replace(found.row, deleting=True), None)

        doubt = Doubt(f"the {self._kind.noun} {name!r} was deleted", "delete it again")
        self.swap(self.key(name), decide, retry, doubt)
        with after_effect(doubt):
            found = self.fetch(self.key(name))
            if found is not None and found.row.deleting:
                self.finish(found, retry)

    def finish(self, found: Stamped[Named], retry: Retry) -> None:
        """Steps 2 and 3 of deleting a row that is marked; any number of callers may do so."""
        name = found.row.id
        self._prune(name, retry)
        doubt = Doubt(f"the deletion of the {self._kind.noun} {name!r} was finished", "repeat it")
        self.clear(found, retry, doubt)

    def check_count(self) -> None:
        """Refuses one more row than there may be; counts again after a while."""
        now_ns = self._clock.monotonic_ns()
        counted = self._counted
        if counted is None or now_ns - counted[0] > ACCESS_COUNT_MS * _NS_PER_MS:
            counted = now_ns, sum(map(len, self.pages()))
        if counted[1] >= self._kind.rows_max:
            raise TooLarge(
                f"there are {counted[1]} rows of the kind {self._kind.noun}, and at most "
                f"{self._kind.rows_max} are allowed: delete some first"
            )
        self._counted = counted[0], counted[1] + 1


def _present(found: Stamped[Named] | None) -> Named | None:
    if found is None or found.row.deleting or not found.row.incarnation:
        return None
    return found.row


def _same_incarnation(present: Named, written: Named) -> bool:
    return present.incarnation == written.incarnation
