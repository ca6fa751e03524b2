"""Pages of listings by path: rights, prefixes and delimiters over keys in their order.

What a caller may not see is left out before common prefixes are formed: a prefix shows only if
there is something to see below it. A page looks at a bounded number of hidden keys; if it ends at
one of them, its token contains the place encrypted, so that it shows nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Final, Generic, TypeVar

import msgspec

from lochan.access.policy import KeyRight
from lochan.base.errors import Invalid
from lochan.base.keys import Universe, file_key, prefix_end
from lochan.base.limits.contents import PATH_BYTES_MAX
from lochan.base.limits.files import DELIMITER_CHARACTERS_MAX
from lochan.base.limits.requests import PAGE_ENTRIES_MAX, SCAN_ENTRIES_MAX
from lochan.service.pages import KeyRange, check_limit
from lochan.service.readable_keys import ranges_of

_Value = TypeVar("_Value")

_FILES: Final = bytes((Universe.FILES,))

# Records of jobs are below NUL, where no path can be.
_FIRST_PATH: Final = _FILES + b"\x01"

# Reads of one page: enough to fill it, unless most of what they pass is hidden or deleted.
_READS_MAX: Final = 20

# Marks an encrypted place; no key begins with it.
_SEALED: Final = b"\0"
_NONCE_BYTES: Final = 16
_PLACE_BYTES: Final = PATH_BYTES_MAX + 8

RawPage = tuple[Sequence[tuple[bytes, _Value]], bytes | None]
"""Keys of a range with their values, in order, and where to go on, None at the end."""

ReadRaw = Callable[[bytes, bytes | None, int], RawPage[_Value]]
"""Reads a page of [start, end); it may be short, or empty, before the end."""


class PathSelection(msgspec.Struct, frozen=True, kw_only=True):
    """Which paths a listing has: those with a prefix, folded at a delimiter, after a path."""

    prefix: str = ""
    delimiter: str = ""
    after: str = ""

    def check(self) -> None:
        """Refuses what no path can have."""
        for text in (self.prefix, self.after):
            if text:
                file_key(text)
        if len(self.delimiter) > DELIMITER_CHARACTERS_MAX or "\0" in self.delimiter:
            raise Invalid(f"a delimiter has at most {DELIMITER_CHARACTERS_MAX} characters")
        self.delimiter_bytes()

    def delimiter_bytes(self) -> bytes:
        """Returns the delimiter as paths contain it."""
        return bytes(file_key(self.delimiter))[1:] if self.delimiter else b""

    def range(self) -> KeyRange:
        """Returns the keys that are listed, from the first page on."""
        begin = bytes(file_key(self.prefix)) if self.prefix else b""
        start = begin or _FIRST_PATH
        end = prefix_end(begin or _FILES)
        if self.after:
            start = max(start, self._start_after(bytes(file_key(self.after))))
        return KeyRange(start, end)

    def _start_after(self, after: bytes) -> bytes:
        """Returns the first key that may be listed after a path.

        A common prefix is after a path if its own name is: one that the path is below, or that it
        is itself, is not listed again.
        """
        if self.delimiter and self.after.startswith(self.prefix):
            delimiter = self.delimiter_bytes()
            at = after.find(delimiter, 1 + len(self.prefix.encode()))
            if at >= 0:
                return prefix_end(after[: at + len(delimiter)]) or after + b"\0"
        return after + b"\0"

    def text(self) -> str:
        """Returns all of it as text, for a page token."""
        return f"{self.prefix}\0{self.delimiter}\0{self.after}"


class FoldedPage(msgspec.Struct, Generic[_Value], frozen=True):
    """Paths with their values, or common prefixes without one; where the next page begins."""

    items: Sequence[tuple[str, _Value | None]]
    next_start: bytes | None
    conceals: bool = False


def page_limit(limit: int | None) -> int:
    """Returns how many items a page has."""
    check_limit(limit)
    return PAGE_ENTRIES_MAX if limit is None else min(limit, PAGE_ENTRIES_MAX)


def fold_page(
    read: ReadRaw[_Value],
    right: KeyRight | None,
    selection: PathSelection,
    start: bytes,
    limit: int,
) -> FoldedPage[_Value]:
    """Returns a page of what a caller may see, from a key on."""
    within = KeyRange(start, selection.range().end)
    fold: _Fold[_Value] = _Fold(selection, right, limit)
    for part in ranges_of(right, within):
        at: bytes | None = max(part.start, start)
        while at is not None and (part.end is None or at < part.end):
            items, at = read(at, part.end, _step(limit, right))
            if fold.take(items):
                return fold.page()
            if fold.skip is not None and at is not None:
                at = max(at, fold.skip)
            fold.count_read(at)
            if fold.is_over:
                return fold.page()
    return fold.page()


def _step(limit: int, right: KeyRight | None) -> int:
    """Returns how many items are read at a time: one more than a page has shows where it ends."""
    return (limit if right is None else PAGE_ENTRIES_MAX) + 1


class _Fold(Generic[_Value]):
    """What a page has so far."""

    def __init__(self, selection: PathSelection, right: KeyRight | None, limit: int) -> None:
        self._covers = None if right is None else right.covers
        self._begin = 1 + len(selection.prefix.encode())
        self._delimiter = selection.delimiter_bytes()
        self._limit = limit
        self._found: list[tuple[str, _Value | None]] = []
        self._hidden = 0
        self._reads = 0
        self._next: bytes | None = None
        self._conceals = False
        self.skip: bytes | None = None
        """The first key after the last common prefix."""

    def take(self, items: Sequence[tuple[bytes, _Value]]) -> bool:
        """Adds keys; returns whether the page is full."""
        for key, value in items:
            if self.skip is not None and key < self.skip:
                continue
            if self._covers is not None and not self._covers(key):
                self._hidden += 1
                if self._hidden > SCAN_ENTRIES_MAX:
                    self._next, self._conceals = key, True
                    return True
                continue
            common = self._common_prefix(key)
            if len(self._found) == self._limit:
                self._next = common or key
                return True
            if common:
                self.skip = prefix_end(common)
                self._found.append((common[1:].decode(), None))
            else:
                self._found.append((key[1:].decode(), value))
        return False

    def count_read(self, at: bytes | None) -> None:
        """Ends the page after so many reads that have found little; they passed deleted files."""
        self._reads += 1
        if self._reads >= _READS_MAX and at is not None:
            self._next, self._conceals = at, True

    @property
    def is_over(self) -> bool:
        """Whether the page ends here."""
        return self._next is not None

    def page(self) -> FoldedPage[_Value]:
        """Returns the page."""
        return FoldedPage(self._found, self._next, self._conceals)

    def _common_prefix(self, key: bytes) -> bytes:
        if not self._delimiter:
            return b""
        at = key.find(self._delimiter, self._begin)
        return b"" if at < 0 else key[: at + len(self._delimiter)]


def seal_place(secret: bytes, nonce: bytes, place: bytes) -> bytes:
    """Encrypts a key for a page token, which is authenticated as a whole; all have one length."""
    plain = len(place).to_bytes(2, "big") + place.ljust(_PLACE_BYTES, b"\0")
    return _SEALED + nonce + _mixed(secret, nonce, plain)


def open_place(secret: bytes, place: bytes) -> bytes:
    """Returns the key of a place in a page token, encrypted or not."""
    if not place.startswith(_SEALED):
        return place
    nonce, sealed = place[1 : 1 + _NONCE_BYTES], place[1 + _NONCE_BYTES :]
    plain = _mixed(secret, nonce, sealed)
    return plain[2 : 2 + int.from_bytes(plain[:2], "big")]


def _mixed(secret: bytes, nonce: bytes, text: bytes) -> bytes:
    """Adds a stream that only the secret and the nonce give: a keyed hash of a counter."""
    blocks = range(-(-len(text) // 64))
    stream = b"".join(
        blake2b(nonce + at.to_bytes(4, "big"), key=secret, person=b"page place").digest()
        for at in blocks
    )
    return bytes(one ^ other for one, other in zip(text, stream, strict=False))
