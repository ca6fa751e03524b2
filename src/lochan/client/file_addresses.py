"""Addresses of files: `lochan://repository@reference/path`.

The repository may be left out, and so may the `@` and the reference, which is then the default
branch. The first slash ends the reference: a slash, an `@` or a `%` in a reference is
percent-encoded (`lochan://default@feature%2Fx/a.csv`). Everything after that slash is the path as
it is, nothing in it is decoded.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

import msgspec

from lochan.base.errors import Invalid
from lochan.model.requests import DEFAULT_BRANCH
from lochan.model.specs import parse_spec

SCHEME: Final = "lochan://"

# What a reference may have unencoded: marks of hashes and steps, which are common in addresses.
_PLAIN_IN_REFERENCE: Final = "@~^*:"


class FileAddress(msgspec.Struct, frozen=True):
    """A file, or a prefix of files, of one repository; an empty repository is the caller's own."""

    repository: str
    spec: str
    path: str

    def text(self) -> str:
        """Returns the address that parses to this value."""
        return f"{SCHEME}{root_of(self.repository, self.spec)}/{self.path}"


def root_of(repository: str, spec: str) -> str:
    """Returns the part of an address before its path."""
    return f"{quote(repository, safe='')}@{quote(spec, safe=_PLAIN_IN_REFERENCE)}"


def parse_address(text: str) -> FileAddress:
    """Parses an address, with or without `lochan://`; Invalid if it is malformed."""
    root, _, path = text.removeprefix(SCHEME).partition("/")
    repository, _, reference = root.partition("@")
    spec = unquote(reference) or DEFAULT_BRANCH
    try:
        parse_spec(spec)
    except Invalid as error:
        raise Invalid(
            f"not the address of a file: {text[:200]!r}; write lochan://repository@reference/path, "
            f"with %2F for a slash in the reference ({error.message})"
        ) from None
    return FileAddress(unquote(repository), spec, path)
