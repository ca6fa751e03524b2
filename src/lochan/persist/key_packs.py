"""Key packs as rows of a store, each named by its newest commit.

They have partitions of their own, apart from the objects: a pack is not named by the hash of its
bytes, nothing refers to it, and no user can name it. Any of them may be removed at any time.
"""

from __future__ import annotations

from typing import Final

from lochan.base.errors import Corrupt, NewerFormat
from lochan.base.ids import InstanceId, ObjId
from lochan.codec.forms import encode_row
from lochan.codec.key_packs import KeyPack, decode_key_pack
from lochan.kv.store import Kind, Partition, Store, partition

_SPREAD_BYTES: Final = 1


class KeyPackRows:
    """The key packs of one repository, in 256 partitions by the first byte of the commit."""

    def __init__(self, store: Store, instance: InstanceId) -> None:
        self._store = store
        self._base: bytes = partition(instance, Kind.KEY_PACKS)

    def find(self, newest: ObjId, sequence: int) -> KeyPack | None:
        """Returns the pack whose newest commit this is; None if there is none that can be used.

        One that is damaged, or that a newer Lochan wrote, counts as missing: all that it contains
        is in the commits too.
        """
        try:
            entry = self._store.get(self._place(newest), newest)
            return None if entry is None else decode_key_pack(newest, sequence, entry.value)
        except (Corrupt, NewerFormat):
            return None

    def store(self, newest: ObjId, pack: KeyPack) -> None:
        """Stores a pack, in place of one that is there: both contain the same, or it is damaged."""
        self._store.put_many([(self._place(newest), newest, encode_row(pack))])

    def _place(self, newest: ObjId) -> Partition:
        return Partition(self._base + newest[:_SPREAD_BYTES])
