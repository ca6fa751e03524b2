"""Copying a store: every row of one to another, whatever their databases are.

The target cannot be opened until the copy is whole. The steps, and what a kill after each leaves:

1. Write the mark of a copy in place of the mark of the format. (A store that every server refuses,
   and in which another run with the same source continues.)
2. Make the rows of the target those of the source, in both directions. Before the first one that
   differs is written, the position of step 3 is set back. (Rows, perhaps not all.)
3. Read all objects after that, check each against its id, add it and read it again. The position
   is noted after some pages, when they are durable. (Objects; the next run continues there.)
4. Do step 2 again. If nothing differs, no row of the source has changed in between: at the end of
   step 2 all rows of the source were as they are in the target; and every object that they refer to
   was stored before that moment, so step 3 has found it. Otherwise go to step 3, a few times.
5. Replace the mark of the copy by that of the source's format. (The copy.)

So a source that is written meanwhile makes the copy take longer or fail, never wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from lochan.access.records import ACCESS_PARTITION, SETUP_FORM, SETUP_KEY
from lochan.base.errors import Conflict, Corrupt, NotFound
from lochan.base.ids import ROOT_INSTANCE, InstanceId
from lochan.base.limits.maintenance import (
    COPY_PAGE_BYTES,
    COPY_PAGE_ROWS_FIRST,
    COPY_PAGE_ROWS_MAX,
    COPY_PAGES_UNSAVED_MAX,
    COPY_ROUNDS_MAX,
)
from lochan.base.limits.storage import HALF_GRACE_S
from lochan.kernel.repository import INSTANCES_PLACE, REPOSITORIES_PLACE, Ports, read_instance
from lochan.kv.format import FORMAT_KEY, FORMAT_PARTITION, check_mark
from lochan.kv.store import Entry, Item, Kind, Partition, Store
from lochan.kv.walk import Located
from lochan.transfer.copy_target import CopyPosition, CopyTarget
from lochan.transfer.erasure import drop_instance
from lochan.transfer.places import (
    ROOT_PLACES,
    check_row,
    is_bulk,
    kind_of,
    row_places,
    rows_of,
)
from lochan.transfer.retried import Retried, RetriedSource
from lochan.transfer.sources import RowSource, find_row

_ROWS_UNWRITTEN_MAX: Final = 1_000


class CopyProgress(msgspec.Struct, frozen=True, rename="camel"):
    """What a copy has done in this run.

    `rows` were different, `objects` and their `bytes` were read from the source, `rounds` counts
    how often the objects were read.
    """

    repositories: int = 0
    rows: int = 0
    objects: int = 0
    bytes: int = 0
    rounds: int = 0


class CopyReport(CopyProgress, frozen=True, rename="camel"):
    """What the run that has finished a copy has done; `has_users`: access was set up."""

    resumed: bool = False
    has_users: bool = False


ReportCopy = Callable[[CopyProgress], None]


class StoreCopy:
    """One run of a copy; `source_id` is 16 bytes that name the source, the same in every run."""

    def __init__(
        self,
        source: RowSource,
        target: Store,
        ports: Ports,
        source_id: bytes,
        report: ReportCopy | None = None,
        retried: Retried | None = None,
    ) -> None:
        retried = retried or Retried(ports)
        self._source = RetriedSource(source, retried)
        self._target = CopyTarget(target, ports, source_id, retried)
        self._clock = ports.clock
        self._report = report
        self._is_set_back = False
        self._instances: list[InstanceId] = []
        self._places: set[Partition] = set()
        self._page_rows = COPY_PAGE_ROWS_FIRST
        self._rows = self._objects = self._bytes = self._rounds = 0

    def run(self) -> CopyReport:
        """Copies until the target is whole.

        Conflict if the source is written all the time, or if another run takes the target.
        """
        mark = self._check_source()
        resumed = self._target.begin()
        while not self._copy_rows():
            if self._rounds == COPY_ROUNDS_MAX:
                raise Conflict(
                    "the store was written while it was copied, and what was copied is kept: stop "
                    "its servers, then run the same command again to copy the rest"
                )
            self._rounds += 1
            self._copy_objects()
        self._target.finish(mark)
        done = msgspec.structs.asdict(self._progress())
        return CopyReport(**done, resumed=resumed, has_users=self._find_setup() is not None)

    def _check_source(self) -> bytes:
        """Returns the mark of the source's format; refuses what cannot be copied."""
        mark = find_row(self._source, FORMAT_PARTITION, FORMAT_KEY)
        if mark is None:
            raise NotFound("there is no store to copy: the source has no mark of its format")
        check_mark(mark)
        setup = self._find_setup()
        if setup is not None and not SETUP_FORM.decode(setup.value).finished:
            # Its row names stamps, which only the source has.
            raise Conflict(
                "access is being set up in the source: start a server on it, which finishes that, "
                "or send the request for set-up again; then copy"
            )
        return mark.value

    def _find_setup(self) -> Entry | None:
        return find_row(self._source, ACCESS_PARTITION, SETUP_KEY)

    def _copy_rows(self) -> bool:
        """Steps 2 and 4; returns whether nothing differed and step 3 was done."""
        self._is_set_back = False
        target, before = self._target, self._rows
        wanted = list_instances(self._source)
        for instance in list_instances(target.rows):
            if instance not in wanted:
                self._change()
                drop_instance(target.store, instance, target.retried)
        self._instances = wanted
        for instance in wanted:
            places = dict.fromkeys(row_places(self._source, instance))
            # Partitions that are there no more are those of staging tokens, known by their rows.
            places |= dict.fromkeys(row_places(target.rows, instance))
            for place in reversed(places):
                self._copy_place(place)
        for raw in target.position.places:
            self._copy_place(Partition(raw))
        for place in ROOT_PLACES:
            self._copy_place(place)
        self._show()
        return self._rows == before and target.position.done

    def _copy_place(self, place: Partition) -> None:
        """Makes the rows of one partition those of the source."""
        self._places.add(place)
        puts: list[Item] = []
        size = 0
        for wanted, found in _pairs(
            rows_of(self._source, place), rows_of(self._target.rows, place)
        ):
            if wanted is None:
                if found is not None:
                    self._change()
                    self._target.delete(place, found.key)
            elif found is None or found.value != wanted.value:
                check_row(place, wanted)
                self._change()
                puts.append((place, wanted.key, wanted.value))
                size += len(wanted.value)
                if len(puts) == _ROWS_UNWRITTEN_MAX or size > COPY_PAGE_BYTES:
                    self._target.put(puts)
                    puts, size = [], 0
        if puts:
            self._target.put(puts)

    def _change(self) -> None:
        """Counts a row that differs; before the first one, objects have to be read anew."""
        self._rows += 1
        if not self._is_set_back:
            self._is_set_back = True
            self._target.note(CopyPosition(places=self._target.position.places))

    def _copy_objects(self) -> None:
        """Step 3, from the noted position on."""
        at = self._target.position
        places = dict.fromkeys(at.places)
        for instance in (ROOT_INSTANCE, *self._instances):
            if instance < at.instance:
                continue
            cursor: bytes | None = at.cursor if instance == at.instance else b""
            pages = 0
            while cursor is not None:
                page = self._source.walk(bytes(instance), cursor, self._page_rows)
                places |= dict.fromkeys(self._store_page(page.rows))
                cursor = page.next_cursor
                pages += 1
                if cursor is not None and pages % COPY_PAGES_UNSAVED_MAX == 0:
                    self._target.note(CopyPosition(1, instance, cursor, places=tuple(places)))
                self._show()
        last = self._instances[-1] if self._instances else ROOT_INSTANCE
        self._target.note(CopyPosition(1, last, done=True, places=tuple(places)))

    def _store_page(self, rows: Sequence[Located]) -> list[bytes]:
        """Stores the objects of a page; returns the partitions of rows that step 2 cannot know."""
        others: list[bytes] = []
        items: list[Item] = []
        for place, entry in rows:
            if is_bulk(place):
                if self._is_whole(place, entry):
                    items.append((place, entry.key, entry.value))
            elif place not in self._places and kind_of(place) != Kind.STAGING:
                others.append(place)
        self._store(items)
        size = sum(len(entry.value) for _, entry in rows)
        self._objects += len(items)
        self._bytes += sum(len(value) for _, _, value in items)
        if rows:
            fitting = COPY_PAGE_BYTES * len(rows) // max(size, 1)
            self._page_rows = min(max(fitting, 1), COPY_PAGE_ROWS_MAX)
        return others

    def _is_whole(self, place: Partition, entry: Entry) -> bool:
        """Returns whether a row is copied; a damaged key pack is not, since it is built again."""
        try:
            check_row(place, entry)
        except Corrupt:
            if kind_of(place) != Kind.KEY_PACKS:
                raise
            return False
        return True

    def _store(self, items: Sequence[Item]) -> None:
        """Adds what the target lacks, puts what it has otherwise, and reads all of it again."""
        target = self._target
        half_day = self._clock.now_us() // (HALF_GRACE_S * 1_000_000)
        missing = self._differing(items)
        if missing:
            target.add(missing, half_day)
            damaged = self._differing(missing)
            if damaged:
                target.put(damaged)
                if self._differing(damaged):
                    raise Corrupt("the target does not return what was written to it")

    def _differing(self, items: Sequence[Item]) -> list[Item]:
        found = self._target.fetch([(place, key) for place, key, _ in items])
        return [
            item
            for item, entry in zip(items, found, strict=True)
            if entry is None or entry.value != item[2]
        ]

    def _progress(self) -> CopyProgress:
        count = len(self._instances)
        return CopyProgress(count, self._rows, self._objects, self._bytes, self._rounds)

    def _show(self) -> None:
        if self._report is not None:
            self._report(self._progress())


def list_instances(source: RowSource) -> list[InstanceId]:
    """Returns the instances that the lists of a store name, in order."""
    named = {entry.key for entry in rows_of(source, INSTANCES_PLACE)}
    named |= {read_instance(entry) for entry in rows_of(source, REPOSITORIES_PLACE)}
    return [InstanceId(one) for one in sorted(named)]


def _pairs(
    wanted: Iterator[Entry], found: Iterator[Entry]
) -> Iterator[tuple[Entry | None, Entry | None]]:
    """Yields rows of both sides by their keys, in order; None where one side has none."""
    left, right = next(wanted, None), next(found, None)
    while left is not None or right is not None:
        if right is None or (left is not None and left.key < right.key):
            yield left, None
            left = next(wanted, None)
        elif left is None or right.key < left.key:
            yield None, right
            right = next(found, None)
        else:
            yield left, right
            left, right = next(wanted, None), next(found, None)
