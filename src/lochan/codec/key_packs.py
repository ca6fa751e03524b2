"""Key packs: the own keys of commits that follow each other, in one row.

A pack is derived from the commits alone. They never change, so neither does it: two servers that
make one pack make the same bytes, and one that is lost is made again.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import unpack_from
from typing import Final, Literal

import msgspec

from lochan.base.checks import check_stored
from lochan.base.ids import EMPTY_ID, ID_BYTES, ObjId
from lochan.codec.forms import RowForm

_END_BYTES: Final = 4
_PLACE_BYTES: Final = 2


class KeyPack(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """Commits, newest first, and for each key the places of the commits that list it."""

    version: Literal[1]
    sequence: int
    """That of the newest commit."""

    ids: bytes
    """The ids of the commits, one after the other."""

    parent: bytes
    """The first parent of the oldest commit."""

    unlisted: tuple[int, ...]
    """The places of commits that do not list their own keys."""

    keys: tuple[bytes, ...]
    """The own keys of all other commits, each once, in ascending order."""

    ends: bytes
    """For each key, where its places end in `places`: four bytes, the lowest first."""

    places: bytes
    """The places of the keys, ascending for each: two bytes, the lowest first."""

    def __len__(self) -> int:
        return len(self.ids) // ID_BYTES

    def id_at(self, place: int) -> ObjId:
        """Returns the commit at a place."""
        return ObjId(self.ids[place * ID_BYTES : (place + 1) * ID_BYTES])

    def find_place(self, obj_id: ObjId) -> int | None:
        """Returns the place of a commit, None if it is not here."""
        at = self.ids.find(obj_id)
        while at >= 0 and at % ID_BYTES:
            at = self.ids.find(obj_id, at + 1)
        return None if at < 0 else at // ID_BYTES

    def places_of(self, first: int, end: int) -> tuple[int, ...]:
        """Returns the places of the keys with the numbers [first, end)."""
        if first >= end:
            return ()
        (stop,) = unpack_from("<I", self.ends, (end - 1) * _END_BYTES)
        (start,) = unpack_from("<I", self.ends, (first - 1) * _END_BYTES) if first else (0,)
        return unpack_from(f"<{stop - start}H", self.places, start * _PLACE_BYTES)


KEY_PACK_FORM: Final = RowForm(KeyPack, "key pack")


class KeyPackBuilder:
    """Collects the own keys of commits, newest first."""

    def __init__(self, sequence: int) -> None:
        self._sequence = sequence
        self._ids: list[bytes] = []
        self._unlisted: list[int] = []
        self._places: dict[bytes, list[int]] = {}
        self._parent: bytes = EMPTY_ID
        self._size_bytes = 0

    def add(
        self, obj_id: ObjId, own: Sequence[bytes] | None, parent: ObjId, bytes_max: int | None
    ) -> bool:
        """Adds a commit; returns False, and leaves it out, if there is no room for it.

        There is always room for one commit.
        """
        listed, places = own or (), self._places
        size_bytes = ID_BYTES + _PLACE_BYTES * len(listed)
        size_bytes += sum([len(key) + _KEY_BYTES for key in listed if key not in places])
        if self._ids and bytes_max is not None and self._size_bytes + size_bytes > bytes_max:
            return False
        place = len(self._ids)
        if own is None:
            self._unlisted.append(place)
        for key in listed:
            places.setdefault(key, []).append(place)
        self._ids.append(obj_id)
        self._parent = parent
        self._size_bytes += size_bytes
        return True

    def build(self) -> KeyPack:
        """Returns the pack of what was added."""
        keys = sorted(self._places)
        ends, places, end = bytearray(), bytearray(), 0
        for key in keys:
            found = self._places[key]
            end += len(found)
            ends += end.to_bytes(_END_BYTES, "little")
            for place in found:
                places += place.to_bytes(_PLACE_BYTES, "little")
        return KeyPack(
            1,
            self._sequence,
            b"".join(self._ids),
            self._parent,
            tuple(self._unlisted),
            tuple(keys),
            bytes(ends),
            bytes(places),
        )


# A key in a pack beside its bytes: its length there, and its end.
_KEY_BYTES: Final = 3 + _END_BYTES


def decode_key_pack(newest: ObjId, sequence: int | None, raw: bytes) -> KeyPack:
    """Reads a pack; Corrupt unless it is that of a commit, of that sequence if it is known."""
    pack = KEY_PACK_FORM.decode(raw)
    count = len(pack)
    check_stored(
        pack.ids.startswith(newest)
        and len(pack.ids) == count * ID_BYTES
        and sequence in (None, pack.sequence),
        "a key pack is that of its newest commit",
    )
    check_stored(
        len(pack.parent) == ID_BYTES
        and pack.sequence >= count
        and (pack.sequence == count) == (pack.parent == EMPTY_ID)
        and len(pack.ends) == len(pack.keys) * _END_BYTES
        and int.from_bytes(pack.ends[-_END_BYTES:], "little") * _PLACE_BYTES == len(pack.places),
        "a key pack is whole",
    )
    return pack
