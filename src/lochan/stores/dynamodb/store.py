"""The DynamoDB store: one table, consistent reads, each write sent once.

Rules of this module:

1. Reads are consistent ones: a write that returned is seen by every later read of any server.
2. A conditional write is one PutItem or DeleteItem with a condition, or one transaction; the driver
   never repeats it. A lost answer is Unknown.
3. Adding objects is conditional too, so it is a transaction; it costs twice as much as a plain
   write, and needs neither a read before it nor a second round trip.
4. A write that returned is durable: DynamoDB has it on several disks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import Final

from lochan.base.errors import Exhausted, Unavailable, Unknown
from lochan.base.limits.storage import OBJECT_BYTES_MAX
from lochan.kv.arguments import (
    check_adds,
    check_apply,
    check_different_rows,
    check_epoch,
    check_expected,
    check_items,
    check_name,
    check_names,
    check_partition,
    check_range,
)
from lochan.kv.defaults import NO_OBJECTS, ProcessHold, apply_in_turn
from lochan.kv.store import (
    ABSENT,
    Adds,
    Capabilities,
    Entry,
    Expected,
    Hold,
    Item,
    Lost,
    Name,
    Outcome,
    Page,
    Partition,
    SetIf,
    Stamp,
    Won,
)
from lochan.kv.walk import WalkPage
from lochan.process import after_fork
from lochan.stores.dynamodb import items as forms
from lochan.stores.dynamodb.address import DynamoAddress
from lochan.stores.dynamodb.batches import (
    GET_ITEMS_MAX,
    fetch_items,
    read_range,
    write_items,
)
from lochan.stores.dynamodb.client import DynamoClient
from lochan.stores.dynamodb.failures import CONDITION_FAILED, CONFLICTS
from lochan.stores.dynamodb.names import (
    ItemPlace,
    Range,
    behind_mark,
    collection_of,
    is_mark,
    marks_of,
    place_of,
)
from lochan.stores.dynamodb.schema import prepare
from lochan.stores.dynamodb.transactions import (
    TRANSACTION_BYTES_MAX,
    TRANSACTION_ITEMS_MAX,
    add_objects,
    apply_change,
    set_row,
)
from lochan.stores.dynamodb.walk import walk_table

CAPABILITIES: Final = Capabilities(
    # An item has 400 KB, names and attributes included; what is above stores no larger value.
    value_bytes_max=OBJECT_BYTES_MAX,
    read_items_max=GET_ITEMS_MAX,
    batch_items_max=TRANSACTION_ITEMS_MAX,
    batch_bytes_max=TRANSACTION_BYTES_MAX,
    # The row of an apply is in the same transaction, and may be as large as any value.
    apply_items_max=TRANSACTION_ITEMS_MAX - 1,
    apply_bytes_max=TRANSACTION_BYTES_MAX - OBJECT_BYTES_MAX,
    atomic_apply=True,
    inline=False,
    durable_on_return=True,
    row_locks=False,
)

# How many rows a scan for deleting reads at a time; DynamoDB ends a page at 1 MB anyway.
_DROP_ROWS: Final = 1_000


class DynamoStore:
    """A Store in one table of DynamoDB, for any number of servers."""

    def __init__(self, address: DynamoAddress, sleep: Callable[[float], None] = time.sleep) -> None:
        self._address = address
        self._lock = Lock()
        self._writes = 0
        self._client = DynamoClient(address, sleep)
        after_fork(self, DynamoStore._forked)
        try:
            prepare(self._client, sleep)
        except BaseException:
            self._client.close()
            raise

    def __repr__(self) -> str:
        return f"DynamoStore({self._address.region}/{self._address.table})"

    @property
    def capabilities(self) -> Capabilities:
        """What this store can do."""
        return CAPABILITIES

    def get(self, partition: Partition, key: bytes) -> Entry | None:
        """Returns the row, or None if it is absent."""
        self._client.check_open()
        check_name(partition, key)
        answer = self._client.read(
            "get_item",
            TableName=self._client.table,
            Key=forms.item_key(place_of(partition, key)),
            ConsistentRead=True,
        )
        item = answer.get("Item")
        return None if item is None else forms.read_entry(key, item)

    def get_many(self, names: Sequence[Name]) -> list[Entry | None]:
        """Returns the rows in the order of the names."""
        self._client.check_open()
        check_names(names, CAPABILITIES)
        places = [place_of(partition, key) for partition, key in names]
        found = fetch_items(self._client, places)
        return [
            forms.read_entry(key, found[place]) if place in found else None
            for (_, key), place in zip(names, places, strict=True)
        ]

    def add_many(self, adds: Adds) -> None:
        """Inserts what is absent, keeps what is there, renews an older half-day."""
        self._client.check_open()
        check_adds(adds, CAPABILITIES)
        if adds.items:
            self._mark(adds.items)
            add_objects(self._client, adds.items, adds.half_day)
            self._count()

    def put_many(self, items: Sequence[Item]) -> None:
        """Writes all items; of two with one name the last counts."""
        self._client.check_open()
        check_items(items, CAPABILITIES)
        if items:
            self._mark(items)
            stamp = forms.new_stamp()
            rows = {
                place: forms.row_item(place, value, stamp)
                for place, value in ((place_of(item[0], item[1]), item[2]) for item in items)
            }
            write_items(self._client, [{"PutRequest": {"Item": row}} for row in rows.values()])
            self._count()

    def set_if(self, partition: Partition, key: bytes, value: bytes, expected: Expected) -> Outcome:
        """Writes the row if it is as expected."""
        return self.apply(NO_OBJECTS, SetIf(partition, key, value, expected))

    def delete(self, partition: Partition, key: bytes) -> None:
        """Makes the row absent."""
        self._client.check_open()
        check_name(partition, key)
        place = place_of(partition, key)
        write_items(self._client, [_deletion(place)])
        self._count()

    def delete_if(self, partition: Partition, key: bytes, expected: Expected) -> Outcome:
        """Deletes the row if it is as expected."""
        self._client.check_open()
        check_name(partition, key)
        check_expected(expected, deleting=True)
        backoff = self._client.backoff()
        while True:
            answer = self._client.write(
                "delete_item",
                frozenset((CONDITION_FAILED, *CONFLICTS)),
                TableName=self._client.table,
                Key=forms.item_key(place_of(partition, key)),
                ReturnValues="ALL_OLD",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
                **forms.condition_arguments(expected),
            )
            if "Error" not in answer:
                self._count()
                return Won(Stamp(answer["Attributes"]["s"]["B"]))
            if answer["Error"]["Code"] == CONDITION_FAILED:
                item = answer.get("Item")
                return Lost(forms.read_entry(key, item) if item else ABSENT)
            backoff.again(answer["Error"]["Code"])

    def scan(self, partition: Partition, start: bytes, end: bytes | None, limit: int) -> Page:
        """Returns one page of [start, end)."""
        self._client.check_open()
        check_range(partition, start, end, limit)
        entries: list[Entry] = []
        if end is None or start < end:
            part = Range(collection_of(partition), b"", start, end)
            for found, key, item in self._walk(part, limit + 1):
                if is_mark(found.sort):
                    continue
                if len(entries) == limit:
                    return Page(entries, key)
                entries.append(forms.read_entry(key, item))
        return Page(entries, None)

    def walk(self, prefix: bytes, cursor: bytes, limit: int) -> WalkPage:
        """Returns one page of the rows of many partitions; reads the whole table for them."""
        self._client.check_open()
        return walk_table(self._client, self.scan, prefix, cursor, limit)

    def apply(self, adds: Adds, condition: SetIf) -> Outcome:
        """Adds objects and sets one row if it is as expected; else writes nothing."""
        self._client.check_open()
        check_apply(adds, condition, CAPABILITIES)
        self._mark([*adds.items, (condition.partition, condition.key, b"")])
        if adds.items:
            outcome = apply_change(self._client, adds.items, adds.half_day, condition)
        else:
            outcome = set_row(self._client, condition, forms.new_stamp())
        if isinstance(outcome, Won):
            self._count()
        return outcome

    def apply_each(self, changes: Sequence[tuple[Adds, SetIf]]) -> list[Outcome]:
        """Applies the changes one after the other: a transaction has one outcome for all."""
        self._client.check_open()
        for adds, condition in changes:
            check_apply(adds, condition, CAPABILITIES)
        check_different_rows(changes)
        return apply_in_turn(self, changes)

    def hold(self, partition: Partition, key: bytes) -> Hold:
        """Reads a row without a lock: DynamoDB has none."""
        held = ProcessHold(self, self.get(partition, key))
        after_fork(held, ProcessHold.end_in_child)
        return held

    def drop_partition(self, partition: Partition) -> None:
        """Deletes every row of a partition to which nothing is written any more, some at a time.

        A mark is deleted after all rows behind it, so that another attempt finds the rest.
        """
        self._client.check_open()
        check_partition(partition)
        waiting: list[ItemPlace] = []
        deleted = 0
        try:
            for place, _, _ in self._walk(
                Range(collection_of(partition), b"", b"", None), _DROP_ROWS
            ):
                if is_mark(place.sort) or len(waiting) == _DROP_ROWS:
                    write_items(self._client, [_deletion(one) for one in waiting])
                    deleted += len(waiting)
                    waiting = []
                waiting.append(place)
            write_items(self._client, [_deletion(one) for one in waiting])
        except (Exhausted, Unavailable) as error:
            if not deleted:
                raise
            raise Unknown(f"a part of the partition was deleted; {error.message}") from error
        self._count()

    def epoch(self) -> int:
        """Returns the number of the last acknowledged write of this process."""
        self._client.check_open()
        return self._writes

    def flush(self, epoch: int) -> None:
        """Returns at once: what was acknowledged is durable."""
        self._client.check_open()
        check_epoch(epoch, self._writes)

    def close(self) -> None:
        """Waits for running calls and closes all connections; later calls raise StoreClosed."""
        self._client.close()

    def _forked(self) -> None:
        """Replaces a lock that a thread of the parent may have."""
        self._lock = Lock()

    def _walk(self, part: Range, most: int) -> Iterator[tuple[ItemPlace, bytes, forms.Item]]:
        """Yields place, key and item of every row in order; a mark after the rows behind it."""
        levels = [(part, read_range(self._client, part, most))]
        marks: list[tuple[ItemPlace, bytes, forms.Item]] = []
        while levels:
            here, rows = levels[-1]
            item = next(rows, None)
            if item is None:
                levels.pop()
                if levels:
                    yield marks.pop()
                continue
            sort: bytes = item["k"]["B"]
            found = (ItemPlace(here.collection, sort), here.before + sort, item)
            if is_mark(sort):
                behind = behind_mark(here, sort)
                marks.append(found)
                levels.append((behind, read_range(self._client, behind, most)))
            else:
                yield found

    def _mark(self, items: Sequence[Item]) -> None:
        """Writes the marks that lead to long keys, before their rows; there are hardly any."""
        marks = {mark for partition, key, _ in items for mark in marks_of(partition, key)}
        if marks:
            puts = [
                {"PutRequest": {"Item": forms.item_key(mark)}}
                for mark in sorted(marks, key=lambda mark: (mark.collection, mark.sort))
            ]
            write_items(self._client, puts)

    def _count(self) -> None:
        with self._lock:
            self._writes += 1


def _deletion(place: ItemPlace) -> dict[str, dict[str, forms.Item]]:
    return {"DeleteRequest": {"Key": forms.item_key(place)}}
