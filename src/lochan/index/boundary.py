"""Where nodes end: decided by key hashes, looking only backwards.

An element ends its node, at its position in the node (counted from 1), if any of these holds:

1. on levels 0 and 1: its key is a *hard break* (hash on level 0 under 1 in 50,000);
2. it is the 80th;
3. with it, the raw bytes of keys and values reach 64 KB;
4. it is at least the 20th and its hash on this level is under 1 in 40;
5. it is at least the 50th and its hash on this level is under 8 in 40.

Nothing after an element matters, so an edit can move boundaries only to its right, and only until
one falls on an old one. The hash is BLAKE2b salted with a secret of the repository: without the
seed a user cannot choose names that make every key a boundary, or none.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from enum import IntEnum
from hashlib import blake2b
from itertools import accumulate
from typing import Final

from lochan.base.checks import check
from lochan.base.limits.storage import (
    HARD_BREAK_ONE_IN,
    NODE_ELEMENTS_EAGER,
    NODE_ELEMENTS_MAX,
    NODE_ELEMENTS_MIN,
    NODE_ELEMENTS_TARGET,
    NODE_RAW_BYTES_CAP,
    TREE_LEVELS_MAX,
)

SEED_BYTES: Final = 16

_ORDINARY: Final = (2**64 // NODE_ELEMENTS_TARGET).to_bytes(8, "big")
_EAGER: Final = (8 * 2**64 // NODE_ELEMENTS_TARGET).to_bytes(8, "big")
_HARD: Final = (2**64 // HARD_BREAK_ONE_IN).to_bytes(8, "big")
_HARD_LEVEL_MAX: Final = 1


class Rank(IntEnum):
    """Where a key ends its node: nowhere but at a limit, or from some position on."""

    NONE = 0
    EAGER = 1
    """From the 50th element on."""

    ORDINARY = 2
    """From the 20th on."""

    HARD = 3
    """Everywhere."""


class BoundaryRule:
    """The rule with one repository's seed."""

    def __init__(self, seed: bytes) -> None:
        check(len(seed) == SEED_BYTES, "a boundary seed has 16 bytes")
        # The seed goes in as salt and the level as personalisation: both are part of the first
        # state, as a key would be, but cost no block of their own for each key hashed.
        self._hashers = [
            blake2b(digest_size=8, salt=seed, person=bytes((level,)))
            for level in range(TREE_LEVELS_MAX)
        ]

    def hash(self, level: int, key: bytes) -> bytes:
        """Returns the 8 bytes by which a key's boundary is decided on a level."""
        hasher = self._hashers[level].copy()
        hasher.update(key)
        return hasher.digest()

    def is_hard_break(self, key: bytes) -> bool:
        """Returns whether the key ends its nodes on levels 0 and 1 at any position."""
        return self.hash(0, key) < _HARD

    def ends_node(self, level: int, key: bytes, position: int, *, soft: bool = False) -> bool:
        """Returns whether the element ends its node, by every rule but the byte cap.

        `soft` means that the key is known to be no hard break, which saves a hash: a key inside a
        node of level 0 or 1 is none.
        """
        if position >= NODE_ELEMENTS_MAX:
            return True
        if position < NODE_ELEMENTS_MIN:
            return not soft and level <= _HARD_LEVEL_MAX and self.is_hard_break(key)
        digest = self.hash(level, key)
        if digest < (_EAGER if position >= NODE_ELEMENTS_EAGER else _ORDINARY):
            return True
        if soft or level > _HARD_LEVEL_MAX:
            return False
        return digest < _HARD if level == 0 else self.is_hard_break(key)

    def ranker(self, level: int) -> Callable[[bytes], int]:
        """Returns the function from a key to its `Rank` on a level; it is called very often."""
        copy, hard = self._hashers[level].copy, _HARD if level == 0 else b""
        is_hard_break = self.is_hard_break if level == 1 else None

        def rank(key: bytes) -> int:
            hasher = copy()
            hasher.update(key)
            digest = hasher.digest()
            if is_hard_break is not None and is_hard_break(key):
                return Rank.HARD
            if digest >= _EAGER:
                return Rank.NONE
            if digest >= _ORDINARY:
                return Rank.EAGER
            return Rank.HARD if digest < hard else Rank.ORDINARY

        return rank

    def find_cuts(
        self, level: int, keys: Sequence[bytes], sizes: Sequence[int] | None
    ) -> list[int]:
        """Returns the ends (exclusive) of all nodes that are complete, from a node's start.

        `sizes` are the raw bytes of the elements, None when 80 of them cannot reach the cap.
        """
        digests = self._hash_all(level, keys)
        likely = [i for i, digest in enumerate(digests) if digest < _EAGER]
        if level == 0:
            hard = {i for i in likely if digests[i] < _HARD}
        elif level <= _HARD_LEVEL_MAX:
            low = self._hash_all(0, keys)
            hard = {i for i, digest in enumerate(low) if digest < _HARD}
            likely = sorted({*likely, *hard})
        else:
            hard = set()
        sums = None if sizes is None else [0, *accumulate(sizes)]
        cuts: list[int] = []
        start = 0
        count = len(keys)
        cursor = 0
        while start < count:
            end = start + NODE_ELEMENTS_MAX
            if sums is not None:
                end = min(end, _cap_end(sums, start))
            first = start + NODE_ELEMENTS_MIN - 1
            eager = start + NODE_ELEMENTS_EAGER - 1
            while cursor < len(likely):
                i = likely[cursor]
                if i >= end:
                    break
                cursor += 1
                if i in hard or (i >= first and (i >= eager or digests[i] < _ORDINARY)):
                    end = i + 1
                    break
            if end > count:
                break
            cuts.append(end)
            start = end
        return cuts

    def _hash_all(self, level: int, keys: Sequence[bytes]) -> list[bytes]:
        copy = self._hashers[level].copy
        digests = []
        for key in keys:
            hasher = copy()
            hasher.update(key)
            digests.append(hasher.digest())
        return digests


def _cap_end(sums: Sequence[int], start: int) -> int:
    """Returns where the byte cap ends a node, by the raw bytes before each element."""
    return bisect_left(sums, sums[start] + NODE_RAW_BYTES_CAP, start + 1)
