"""The MongoDB store: one collection, each write sent once and confirmed by the majority.

Rules of this module:

1. A write is one command, sent once, that returns when the majority of the replica set has it in
   its journal. A lost answer, or none from the majority in time, is Unknown.
2. Objects and the row of an `apply` are statements of one command, in this order. MongoDB executes
   and replicates them in their order, so no member ever has the row without its objects; a crash
   in between leaves objects that nothing refers to.
3. Reads are of the primary, and linearizable where an outdated answer would be wrong (`reads`).
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Final

from lochan.base.checks import check
from lochan.base.errors import Exhausted, Unavailable, Unknown
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
    PRESENT,
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
    Won,
)
from lochan.kv.walk import WalkPage
from lochan.process import after_fork
from lochan.stores.mongodb import documents as forms
from lochan.stores.mongodb.address import MongoAddress
from lochan.stores.mongodb.client import MongoClient
from lochan.stores.mongodb.failures import refusal
from lochan.stores.mongodb.reads import fetch_rows, find, walk_rows
from lochan.stores.mongodb.schema import prepare
from lochan.stores.mongodb.statements import send_change, send_writes

CAPABILITIES: Final = Capabilities(
    # A document has 16 MB; what is above stores no value over 384 KB.
    value_bytes_max=4_194_304,
    read_items_max=1_000,
    # A command has 100,000 statements and 48 MB; smaller ones let others in between.
    batch_items_max=1_000,
    batch_bytes_max=8_388_608,
    # The row of an apply is in the same command.
    apply_items_max=999,
    apply_bytes_max=8_388_608,
    atomic_apply=False,
    inline=False,
    durable_on_return=True,
    row_locks=False,
)

# How many rows one command deletes from a partition: some tens of milliseconds.
_DROP_ROWS: Final = 1_000


class MongoStore:
    """A Store in one collection of MongoDB, for any number of servers."""

    def __init__(self, address: MongoAddress) -> None:
        self._address = address
        self._lock = Lock()
        self._writes = 0
        self._client = MongoClient(address)
        after_fork(self, MongoStore._forked)
        try:
            prepare(self._client)
        except BaseException:
            self._client.close()
            raise

    def __repr__(self) -> str:
        return f"MongoStore({self._address.printable})"

    @property
    def capabilities(self) -> Capabilities:
        """What this store can do."""
        return CAPABILITIES

    def get(self, partition: Partition, key: bytes) -> Entry | None:
        """Returns the row, or None if it is absent."""
        return self.get_many([(partition, key)])[0]

    def get_many(self, names: Sequence[Name]) -> list[Entry | None]:
        """Returns the rows in the order of the names."""
        self._client.check_open()
        check_names(names, CAPABILITIES)
        found = fetch_rows(self._client, names)
        return [forms.read_entry(found[name]) if name in found else None for name in names]

    def add_many(self, adds: Adds) -> None:
        """Inserts what is absent, keeps what is there, renews an older half-day."""
        self._client.check_open()
        check_adds(adds, CAPABILITIES)
        if adds.items:
            send_writes(self._client, _additions(adds, forms.new_mark()))
            self._count()

    def put_many(self, items: Sequence[Item]) -> None:
        """Writes all items; of two with one name the last counts."""
        self._client.check_open()
        check_items(items, CAPABILITIES)
        if items:
            mark = forms.new_mark()
            last = {(partition, key): value for partition, key, value in items}
            puts = [forms.put_statement(*name, value, mark) for name, value in last.items()]
            send_writes(self._client, puts)
            self._count()

    def set_if(self, partition: Partition, key: bytes, value: bytes, expected: Expected) -> Outcome:
        """Writes the row if it is as expected."""
        return self.apply(NO_OBJECTS, SetIf(partition, key, value, expected))

    def delete(self, partition: Partition, key: bytes) -> None:
        """Makes the row absent."""
        self._client.check_open()
        check_name(partition, key)
        self._delete({"_id": forms.row_id(partition, key)})
        self._count()

    def delete_if(self, partition: Partition, key: bytes, expected: Expected) -> Outcome:
        """Deletes the row if it is as expected."""
        self._client.check_open()
        check_name(partition, key)
        check_expected(expected, deleting=True)
        where = forms.condition(partition, key, expected)
        if where is None:
            return Lost(None)
        command = {"findAndModify": self._client.collection, "query": where, "remove": True}
        row = self._client.write({**command, "fields": {"s": 1, "h": 1}}).get("value")
        if row is None:
            return Lost(ABSENT if expected is PRESENT else None)
        self._count()
        return Won(forms.stamp_of(row["s"], row["h"]))

    def scan(self, partition: Partition, start: bytes, end: bytes | None, limit: int) -> Page:
        """Returns one page of [start, end)."""
        self._client.check_open()
        check_range(partition, start, end, limit)
        if end is not None and start >= end:
            return Page([], None)
        where = {"_id": forms.key_range(partition, start, end)}
        batch = find(self._client, where, limit + 1, sort={"_id": 1})
        entries = [forms.read_entry(document) for document in batch.documents]
        if len(entries) > limit:
            return Page(entries[:limit], entries[limit].key)
        return Page(entries, None if batch.whole else entries[-1].key + b"\x00")

    def walk(self, prefix: bytes, cursor: bytes, limit: int) -> WalkPage:
        """Returns one page of the rows of all partitions that begin with the prefix."""
        self._client.check_open()
        return walk_rows(self._client, prefix, cursor, limit)

    def apply(self, adds: Adds, condition: SetIf) -> Outcome:
        """Adds objects and then sets one row if it is as expected, in one round trip."""
        self._client.check_open()
        check_apply(adds, condition, CAPABILITIES)
        mark = forms.new_mark()
        row = forms.set_statement(condition, mark)
        # A stamp that no row of this store can have: nothing has to be added for it.
        if row is None or not send_change(self._client, _additions(adds, mark), row):
            return Lost(ABSENT if condition.expected is PRESENT else None)
        self._count()
        return Won(forms.stamp_of(mark, 0))

    def apply_each(self, changes: Sequence[tuple[Adds, SetIf]]) -> list[Outcome]:
        """Applies the changes one after the other: a command has one count for all."""
        self._client.check_open()
        for adds, condition in changes:
            check_apply(adds, condition, CAPABILITIES)
        check_different_rows(changes)
        return apply_in_turn(self, changes)

    def hold(self, partition: Partition, key: bytes) -> Hold:
        """Reads a row without a lock: MongoDB has none that outlives a command."""
        held = ProcessHold(self, self.get(partition, key))
        after_fork(held, ProcessHold.end_in_child)
        return held

    def drop_partition(self, partition: Partition) -> None:
        """Deletes every row of a partition to which nothing is written any more, some at a time."""
        self._client.check_open()
        check_partition(partition)
        where = {"_id": forms.key_range(partition, b"", None)}
        deleted = 0
        try:
            while True:
                some = find(self._client, where, _DROP_ROWS, sort={"_id": 1}, projection={"_id": 1})
                if not some.documents:
                    break
                last = some.documents[-1]["_id"]
                self._delete({"_id": {"$gte": where["_id"]["$gte"], "$lte": last}}, limit=0)
                deleted += len(some.documents)
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

    def _delete(self, where: forms.Document, limit: int = 1) -> None:
        """Deletes documents, all of them with the limit 0."""
        check(limit in (0, 1), "MongoDB deletes one document or all")
        deletes = [{"q": where, "limit": limit}]
        answer = self._client.write({"delete": self._client.collection, "deletes": deletes})
        for error in answer.get("writeErrors", ())[:1]:
            raise refusal("delete", error, writes=True, begun=limit == 0)

    def _count(self) -> None:
        with self._lock:
            self._writes += 1


def _additions(adds: Adds, mark: bytes) -> list[forms.Document]:
    return [forms.add_statement(*item, adds.half_day, mark) for item in adds.items]
