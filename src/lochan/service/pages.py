"""What reads share: which keys a listing selects, limits of pages, keys that hold nothing."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from lochan.base.errors import ContentNotFound, Invalid
from lochan.base.keys import Universe, prefix_end, table_key
from lochan.catalog.conflicts import text_of
from lochan.model.commits import ContentKey
from lochan.model.specs import ReferenceSpec

_ALL_TABLES = bytes((Universe.TABLES,))


class KeyRange(msgspec.Struct, frozen=True, gc=False):
    """The keys of [start, end), with their universe byte; no end is the end of all keys."""

    start: bytes
    end: bytes | None


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which keys a listing selects: some by name, or a range that includes both ends."""

    keys: Sequence[ContentKey] = ()
    start: ContentKey | None = None
    end: ContentKey | None = None
    prefix: ContentKey | None = None
    filter: str = ""

    def range(self) -> KeyRange:
        """Returns the range in bytes."""
        low, high = _ALL_TABLES, prefix_end(_ALL_TABLES)
        if self.prefix is not None:
            if self.start is not None or self.end is not None:
                raise Invalid("a prefix cannot be combined with a first or a last key")
            # The key itself and all below it: the separator is the smallest byte that may follow.
            low = bytes(table_key(self.prefix))
            return KeyRange(low, low + b"\x02")
        if self.start is not None:
            low = bytes(table_key(self.start))
        if self.end is not None:
            high = bytes(table_key(self.end)) + b"\0"
        return KeyRange(low, high)

    def named_keys(self) -> list[bytes]:
        """Returns the named keys in order, each once."""
        return sorted({bytes(table_key(key)) for key in self.keys})

    def text(self) -> str:
        """Returns all of it as text, for a page token."""
        named = " ".join(key.hex() for key in self.named_keys())
        within = self.range()
        end = "" if within.end is None else within.end.hex()
        return f"{within.start.hex()}-{end} {named} {self.filter}"


def check_limit(limit: int | None) -> None:
    """Refuses a limit under one."""
    if limit is not None and limit < 1:
        raise Invalid(f"a page has at least one entry, not {limit}")


def content_not_found(key: ContentKey, spec: ReferenceSpec) -> ContentNotFound:
    """Returns the error for a key that holds nothing."""
    return ContentNotFound(
        f"Could not find content for key '{text_of(key)}' in reference '{spec.text()}'.", key
    )
