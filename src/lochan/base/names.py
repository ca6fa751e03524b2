"""Names of references, as users may choose them.

Branches and tags share one name space. Names that look like hashes or carry the marks of relative
specs are refused, so that every spec has one meaning. So are names with a segment `.` or
`..`: clients and proxies take them out of an address, and the server refuses such addresses. Names
of that form that earlier versions created are still read.
"""

from __future__ import annotations

import re
from typing import Final, NewType

from lochan.base.errors import Invalid
from lochan.base.limits.commits import REFERENCE_NAME_BYTES_MAX

RefName = NewType("RefName", str)
"""A checked name of a branch or tag, or of an internal reference."""

INTERNAL_PREFIX: Final = "int/"
REFS_NAME: Final = RefName("int/refs")

_PATTERN: Final = re.compile(r"[A-Za-z](?:[A-Za-z0-9_./-]*[A-Za-z0-9_-])?\Z")
_HASH: Final = re.compile(r"[0-9a-fA-F]{8,64}\Z")


def ref_name(text: str) -> RefName:
    """Checks a name that a user chooses for something new."""
    if "." in text.split("/"):
        raise Invalid(
            f"not a reference name: {text[:80]!r}; '.' cannot be a segment of it, because no "
            "address could hold it; choose another"
        )
    return known_name(text)


def known_name(text: str) -> RefName:
    """Checks a name that something may have already."""
    if not 0 < len(text) <= REFERENCE_NAME_BYTES_MAX:
        raise Invalid(f"a reference name has 1 to {REFERENCE_NAME_BYTES_MAX} characters")
    if not _PATTERN.match(text) or ".." in text or "//" in text:
        raise Invalid(
            f"not a reference name: {text[:80]!r}; it starts with a letter, holds letters, digits "
            "and _ . / -, no '..' or '//', and does not end with '.' or '/'"
        )
    if text.startswith(INTERNAL_PREFIX) or _HASH.match(text) or text in ("HEAD", "DETACHED"):
        raise Invalid(f"the name {text[:80]!r} is reserved; choose another")
    return RefName(text)
