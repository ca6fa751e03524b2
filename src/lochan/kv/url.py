"""Store addresses: `scheme:rest`, read but never resolved here.

The scheme names an entry point of the group `lochan.stores`; the rest belongs to that store.
"""

from __future__ import annotations

import re

import msgspec

from lochan.base.errors import InvalidUrl

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,31}\Z")
# Greedy on purpose: a password may contain an unescaped / or @, and masking too much is harmless.
_USER = re.compile(r"(//[^/@:]*:)(.*)@")
_SECRET_PARAMETER = re.compile(
    r"([?&;][^=&;]*(?:password|passwd|pwd|secret|token|key)[^=&;]*=)[^&;]*", re.IGNORECASE
)


class StoreUrl(msgspec.Struct, frozen=True):
    """An address; `str()` of it is safe to print, passwords are masked."""

    scheme: str
    rest: str

    def __str__(self) -> str:
        without_password = _USER.sub(r"\1***@", self.rest)
        masked = _SECRET_PARAMETER.sub(r"\1***", without_password)
        return f"{self.scheme}:{masked}"

    __repr__ = __str__

    def __rich_repr__(self) -> list[tuple[str, str]]:
        """Keeps pretty printers from showing the fields."""
        return [("address", str(self))]


def parse_store_url(text: str) -> StoreUrl:
    """Splits an address at its scheme."""
    scheme, colon, rest = text.partition(":")
    if not colon or not _SCHEME.match(scheme):
        raise InvalidUrl(
            "a store address looks like memory: or rocksdb:PATH or postgresql://host/database"
        )
    if any(character < " " or character == "\x7f" for character in rest):
        raise InvalidUrl("a store address has no control characters")
    return StoreUrl(scheme, rest)
