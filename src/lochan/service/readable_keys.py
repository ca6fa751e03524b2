"""Which keys a read may show: rights over keys, put together and applied to ranges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from lochan.access.policy import KeyRight
from lochan.base.checks import check
from lochan.service.pages import KeyRange


class JointRight(msgspec.Struct, frozen=True):
    """The keys that all of several rights cover."""

    rights: tuple[KeyRight, ...]

    def covers(self, raw: bytes) -> bool:
        """Returns whether all of the rights cover a key."""
        return all(right.covers(raw) for right in self.rights)

    def next_range(self, raw: bytes) -> tuple[bytes, bytes | None] | None:
        """Returns the next range that all of the rights have in common."""
        at = raw
        while True:
            found = [right.next_range(at) for right in self.rights]
            ranges = [one for one in found if one is not None]
            if len(ranges) < len(found):
                return None
            start = max(one[0] for one in ranges)
            end = min((one[1] for one in ranges if one[1] is not None), default=None)
            if end is None or start < end:
                return start, end
            check(start > at, "a range has keys at or after where it was searched from")
            at = start


def join_rights(*rights: KeyRight | None) -> KeyRight | None:
    """Returns the right to do all of several things; None for all keys."""
    limited: list[KeyRight] = []
    for right in rights:
        if right is not None and right not in limited:
            limited.append(right)
    if len(limited) < 2:
        return limited[0] if limited else None
    return JointRight(tuple(limited))


def ranges_of(right: KeyRight | None, within: KeyRange) -> Iterator[KeyRange]:
    """Yields the parts of a range outside of which no key is covered, in order."""
    if right is None:
        yield within
        return
    at = within.start
    while within.end is None or at < within.end:
        found = right.next_range(at)
        if found is None or (within.end is not None and found[0] >= within.end):
            return
        start, end = max(at, found[0]), found[1]
        if end is None or (within.end is not None and end >= within.end):
            yield KeyRange(start, within.end)
            return
        check(end > at, "a range has keys at or after where it was searched from")
        yield KeyRange(start, end)
        at = end


def covered(right: KeyRight | None, keys: Sequence[bytes]) -> list[bytes]:
    """Returns those of some keys that a right covers."""
    return list(keys) if right is None else [key for key in keys if right.covers(key)]


def covers(right: KeyRight | None, raw: bytes) -> bool:
    """Returns whether a right covers a key."""
    return right is None or right.covers(raw)
