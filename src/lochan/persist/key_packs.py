"""Key packs as rows of a store, each named by its newest commit.

They have partitions of their own, apart from the objects: a pack is not named by the hash of its
bytes, nothing refers to it, and no user can name it. A collector may remove any of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from lochan.base.errors import Exhausted, NewerFormat, Unavailable, Unknown
from lochan.base.ids import InstanceId, ObjId
from lochan.base.limits.storage import HALF_GRACE_S
from lochan.base.ports import Clock
from lochan.codec.forms import encode_row
from lochan.codec.key_packs import KeyPack, decode_key_pack
from lochan.kv.store import Adds, Entry, Kind, Partition, Store, partition
from lochan.persist.rows import scan_all

_SPREAD: Final = 256
_SCANNED_TOGETHER: Final = 20


class KeyPackRows:
    """The key packs of one repository, in 256 partitions by the first byte of the commit."""

    def __init__(self, store: Store, instance: InstanceId, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._base: bytes = partition(instance, Kind.KEY_PACKS)

    def find(self, newest: ObjId, sequence: int) -> KeyPack | None:
        """Returns the pack whose newest commit this is; None if there is none to be used."""
        entry = self._store.get(self._place(newest), newest)
        if entry is None:
            return None
        try:
            return decode_key_pack(newest, sequence, entry.value)
        except NewerFormat:
            # All that it contains is in the commits too.
            return None

    def store(self, newest: ObjId, pack: KeyPack) -> None:
        """Stores a pack; one that is there stays as it is.

        A write that fails is not tried again: without the pack its commits are read.
        """
        half_day = self._clock.now_us() // (HALF_GRACE_S * 1_000_000)
        item = (self._place(newest), bytes(newest), encode_row(pack))
        with suppress(Unknown, Unavailable, Exhausted):
            self._store.add_many(Adds([item], half_day))

    def scan(self) -> Iterator[Entry]:
        """Yields the rows of all packs."""
        for number in range(_SPREAD):
            place = Partition(self._base + bytes((number,)))
            yield from scan_all(self._store, place, limit=_SCANNED_TOGETHER)

    def _place(self, newest: ObjId) -> Partition:
        return Partition(self._base + newest[:1])
