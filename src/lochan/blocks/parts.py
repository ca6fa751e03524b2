"""The rules of S3 for parts of one upload, the same at every place."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import md5
from typing import Final

from lochan.base.errors import Invalid
from lochan.base.limits.blocks import BLOCK_BYTES_MAX, PART_BYTES_MIN, PART_NUMBER_MAX
from lochan.staging.block_store import ChosenPart, StoredPart

_MD5: Final = re.compile(r"[0-9a-f]{32}\Z")


def check_number(number: int) -> None:
    """Raises Invalid for a number that no part may have."""
    if not 1 <= number <= PART_NUMBER_MAX:
        raise Invalid(f"parts are numbered 1 to {PART_NUMBER_MAX}, not {number}")


def check_order(chosen: Sequence[ChosenPart]) -> None:
    """Raises Invalid unless there are parts, each once, in the order of their numbers."""
    if not chosen:
        raise Invalid("a multipart upload is completed with at least one part")
    last = 0
    for part in chosen:
        check_number(part.number)
        if part.number <= last:
            raise Invalid(f"part {part.number} comes after part {last}: list parts in order, once")
        last = part.number


def choose_parts(
    stored: Mapping[int, StoredPart], chosen: Sequence[ChosenPart]
) -> list[StoredPart]:
    """Returns the chosen parts as they are stored; Invalid if one cannot be part of the block."""
    check_order(chosen)
    found: list[StoredPart] = []
    for part in chosen:
        there = stored.get(part.number)
        if there is None:
            raise Invalid(f"part {part.number} was not uploaded")
        if there.etag != part.etag.strip('"'):
            raise Invalid(f"part {part.number} has the ETag {there.etag}, not {part.etag[:80]!r}")
        found.append(there)
    for there in found[:-1]:
        if there.size < PART_BYTES_MIN:
            raise Invalid(
                f"part {there.number} has {there.size} bytes; all but the last have at least "
                f"{PART_BYTES_MIN}"
            )
    total = sum(there.size for there in found)
    if total > BLOCK_BYTES_MAX:
        raise Invalid(f"the parts have {total} bytes together; the limit is {BLOCK_BYTES_MAX}")
    return found


def joined_etag(etags: Sequence[str]) -> str | None:
    """Returns the ETag of parts with these ETags; None if one is no MD5, as with S3's own keys."""
    if not all(_MD5.match(etag) for etag in etags):
        return None
    together = md5(b"".join(map(bytes.fromhex, etags)), usedforsecurity=False)
    return f"{together.hexdigest()}-{len(etags)}"
