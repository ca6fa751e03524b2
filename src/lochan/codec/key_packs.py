"""Key packs: the keys of files that commits in a row list as their own, in one stored row.

A pack is derived from the commits alone. They never change, so neither does it: two servers that
build one pack build the same bytes, and one that is lost is built again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from operator import le
from struct import unpack, unpack_from
from typing import Final, Literal

import msgspec

from lochan.base.checks import check_stored
from lochan.base.ids import EMPTY_ID, ID_BYTES, ObjId
from lochan.base.keys import Universe
from lochan.codec.forms import RowForm

_END_BYTES: Final = 4
_PLACE_BYTES: Final = 2

_FILES_BEGIN: Final = bytes((Universe.FILES,))
_FILES_END: Final = bytes((Universe.FILES + 1,))

# A key in a pack beside its bytes: its length there, and its end.
_KEY_BYTES: Final = 3 + _END_BYTES


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
    """The places of commits whose keys are not here."""

    keys: tuple[bytes, ...]
    """The own keys of all other commits that name files, each once, in ascending order."""

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

    def __init__(self, sequence: int, bytes_max: int) -> None:
        self._sequence = sequence
        self._bytes_max = bytes_max
        self._ids: list[bytes] = []
        self._unlisted: list[int] = []
        self._places: dict[bytes, list[int]] = {}
        self._parent: bytes = EMPTY_ID
        self._size_bytes = 0

    def add(self, obj_id: ObjId, own: Sequence[bytes] | None, parent: ObjId) -> bool:
        """Adds a commit; returns False, and leaves it out, if there is no room for it.

        There is always room for one commit.
        """
        place, places = len(self._ids), self._places
        listed = own or ()
        files = listed[bisect_left(listed, _FILES_BEGIN) : bisect_left(listed, _FILES_END)]
        size_bytes = ID_BYTES + _PLACE_BYTES * len(files)
        size_bytes += sum([len(key) + _KEY_BYTES for key in files if key not in places])
        if place and self._size_bytes + size_bytes > self._bytes_max:
            return False
        self._size_bytes += size_bytes
        if own is None:
            self._unlisted.append(place)
        for key in files:
            places.setdefault(key, []).append(place)
        self._ids.append(obj_id)
        self._parent = parent
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


def decode_key_pack(newest: ObjId, sequence: int, raw: bytes) -> KeyPack:
    """Reads a pack; Corrupt unless it is whole, and that of a commit of that sequence."""
    pack = KEY_PACK_FORM.decode(raw)
    count = len(pack)
    check_stored(
        pack.sequence == sequence >= count > 0
        and pack.ids.startswith(newest)
        and len(pack.ids) == count * ID_BYTES
        and len(pack.parent) == ID_BYTES
        and (sequence == count) == (pack.parent == EMPTY_ID),
        "a key pack is that of its newest commit",
    )
    check_stored(
        len(pack.ends) == len(pack.keys) * _END_BYTES and len(pack.places) % _PLACE_BYTES == 0,
        "a key pack has an end for each key",
    )
    ends = unpack(f"<{len(pack.keys)}I", pack.ends)
    places = unpack(f"<{len(pack.places) // _PLACE_BYTES}H", pack.places)
    check_stored(
        (ends[-1] if ends else 0) == len(places)
        and all(le(*pair) for pair in pairwise(ends))
        and max(places, default=0) < count
        and max(pack.unlisted, default=0) < count,
        "a key pack names commits that it contains",
    )
    return pack
