"""Content-addressed objects as rows of a store.

An object is stored in one of 65,536 partitions of its repository, chosen by the first two bytes of
its id, so that databases that spread by partition spread objects evenly. Reads re-check the hash.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from lochan.base.checks import check
from lochan.base.errors import Corrupt
from lochan.base.ids import InstanceId, ObjId
from lochan.base.keys import prefix_end
from lochan.base.limits.storage import HALF_GRACE_S
from lochan.base.ports import Clock
from lochan.codec.commits import (
    CommitLine,
    CommitObject,
    decode_commit,
    decode_line,
    is_commit,
)
from lochan.codec.objects import check_object_id
from lochan.kv.store import Adds, Entry, Kind, Partition, Store, partition
from lochan.persist.rows import scan_all

_SPREAD_BYTES: Final = 2


class Objects:
    """The objects of one repository.

    Storing is idempotent; storing again renews the row's half-day, which protects an object that is
    about to be referenced from the collector.
    """

    def __init__(self, store: Store, instance: InstanceId, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._base: bytes = partition(instance, Kind.OBJECTS)

    def fetch_many(self, ids: Sequence[ObjId]) -> list[bytes]:
        """Returns the bytes of all ids, in their order; a missing or changed one is Corrupt."""
        found = self._fetch(ids)
        for obj_id, raw in zip(ids, found, strict=True):
            check_object_id(obj_id, raw)
        return found

    def fetch_commits(self, ids: Sequence[ObjId]) -> list[CommitObject]:
        """Returns commits in the order of their ids, each checked against its id."""
        return [
            decode_commit(obj_id, raw) for obj_id, raw in zip(ids, self._fetch(ids), strict=True)
        ]

    def fetch_lines(self, ids: Sequence[ObjId]) -> list[CommitLine]:
        """Returns what a search needs of commits, each checked against its checksum only."""
        return [decode_line(obj_id, raw) for obj_id, raw in zip(ids, self._fetch(ids), strict=True)]

    def find_commit(self, obj_id: ObjId) -> CommitObject | None:
        """Returns a commit that a user named; None if there is none of that id."""
        raw = self.find(obj_id)
        if raw is None:
            return None
        if not is_commit(raw):
            # An object of another kind; or a commit whose first bytes were changed, which is there.
            check_object_id(obj_id, raw)
            return None
        return decode_commit(obj_id, raw)

    def find_commit_ids(self, beginning: bytes, limit: int) -> list[ObjId]:
        """Returns the ids of commits that begin with these bytes, two or more of them."""
        check(len(beginning) >= _SPREAD_BYTES, "the beginning of an id names its partition")
        place = Partition(self._base + beginning[:_SPREAD_BYTES])
        found = scan_all(self._store, place, beginning, prefix_end(beginning))
        commits = (ObjId(entry.key) for entry in found if is_commit(entry.value))
        return list(islice(commits, limit))

    def find(self, obj_id: ObjId) -> bytes | None:
        """Returns the bytes of any object that a user named, unchecked; None if there is none."""
        entry = self._store.get(Partition(self._base + obj_id[:_SPREAD_BYTES]), obj_id)
        return None if entry is None else entry.value

    def find_many(self, ids: Sequence[ObjId]) -> list[bytes | None]:
        """Returns the bytes of objects that a user named, unchecked; None where there is none."""
        return [None if entry is None else entry.value for entry in self._entries(ids)]

    def _fetch(self, ids: Sequence[ObjId]) -> list[bytes]:
        found: list[bytes] = []
        for obj_id, entry in zip(ids, self._entries(ids), strict=True):
            if entry is None:
                raise Corrupt(
                    f"object {obj_id.hex()} is missing though something refers to it",
                    obj_id,
                    missing=True,
                )
            found.append(entry.value)
        return found

    def _entries(self, ids: Sequence[ObjId]) -> list[Entry | None]:
        base = self._base
        names = [(Partition(base + obj_id[:_SPREAD_BYTES]), obj_id) for obj_id in ids]
        step = self._store.capabilities.read_items_max
        entries: list[Entry | None] = []
        for start in range(0, len(names), step):
            entries += self._store.get_many(names[start : start + step])
        return entries

    def adds(self, objects: Iterable[tuple[ObjId, bytes]]) -> Adds:
        """Prepares objects for `Store.add_many` or `Store.apply`."""
        base = self._base
        return Adds(
            [(Partition(base + obj_id[:_SPREAD_BYTES]), obj_id, raw) for obj_id, raw in objects],
            self._clock.now_us() // (HALF_GRACE_S * 1_000_000),
        )

    def store_many(self, objects: Iterable[tuple[ObjId, bytes]]) -> None:
        """Stores objects, in as many batches as the limits of the store require."""
        limits = self._store.capabilities
        batch: list[tuple[ObjId, bytes]] = []
        batch_bytes = 0
        for obj_id, raw in objects:
            if batch and (
                len(batch) == limits.batch_items_max
                or batch_bytes + len(raw) > limits.batch_bytes_max
            ):
                self._store.add_many(self.adds(batch))
                batch, batch_bytes = [], 0
            batch.append((obj_id, raw))
            batch_bytes += len(raw)
        if batch:
            self._store.add_many(self.adds(batch))
