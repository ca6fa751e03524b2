"""Keys of the two universes as the bytes by which everything is ordered.

A key is UTF-8: one universe byte, then for tables the elements joined by 0x01, for files the raw
path. Control characters are refused in elements, so a parent sorts directly before its children
and no two keys share an encoding. Case is kept and counts.

Records of jobs are in the files' universe, below NUL, where no user's path can be: NUL, the content
that the job has written, NUL, the name of the job.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum
from hashlib import sha256
from heapq import merge
from itertools import groupby, pairwise
from typing import Any, Final, NewType

from lochan.base.checks import check_stored
from lochan.base.errors import InvalidKey
from lochan.base.ids import ContentId, find_uuid_bytes
from lochan.base.limits.contents import (
    JOB_BYTES_MAX,
    KEY_BYTES_MAX,
    KEY_CHARACTERS_MAX,
    KEY_ELEMENTS_MAX,
    PATH_BYTES_MAX,
)

Key = NewType("Key", bytes)
"""An encoded key: universe byte and name."""

SEPARATOR: Final = "\x01"

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")

_RECORDS: Final = b"f\0"
_HASHED: Final = b"="

# Sorting this many keeps other threads waiting for a millisecond.
_SORTED_AT_ONCE_MAX: Final = 2_000


class Universe(IntEnum):
    """What a key names; the value is the key's first byte."""

    TABLES = 0x74
    FILES = 0x66


_TABLES_BEGIN: Final = bytes((Universe.TABLES,))


def table_key(elements: Iterable[str]) -> Key:
    """Encodes the name of a table, view or namespace."""
    if isinstance(elements, str):
        raise InvalidKey("a key is a list of elements, not one string")
    parts: tuple[Any, ...] = tuple(elements)
    if not 1 <= len(parts) <= KEY_ELEMENTS_MAX:
        raise InvalidKey(f"a key has 1 to {KEY_ELEMENTS_MAX} elements, not {len(parts)}")
    for position, part in enumerate(parts):
        if not isinstance(part, str) or not part or _CONTROL.search(part):
            raise _bad_element(position, part)
    text = SEPARATOR.join(parts)
    characters = len(text) - len(parts) + 1
    if characters > KEY_CHARACTERS_MAX:
        raise InvalidKey(f"a key has at most {KEY_CHARACTERS_MAX} characters, not {characters}")
    raw = _TABLES_BEGIN + _utf8(text)
    if len(raw) > KEY_BYTES_MAX:
        raise InvalidKey(f"a key has at most {KEY_BYTES_MAX} bytes, not {len(raw)}")
    return Key(raw)


def file_key(path: str) -> Key:
    """Encodes the path of a file."""
    if not isinstance(path, str):
        raise InvalidKey(f"a path is text, not {type(path).__name__}")
    raw = _utf8(path)
    if not 1 <= len(raw) <= PATH_BYTES_MAX:
        raise InvalidKey(f"a path has 1 to {PATH_BYTES_MAX} bytes, not {len(raw)}")
    if b"\0" in raw:
        raise InvalidKey("a path has no NUL character")
    return Key(bytes((Universe.FILES,)) + raw)


def job_key(content_id: str, job: str) -> Key:
    """Encodes the key of the record that a job has written a content."""
    return Key(jobs_prefix(content_id) + job_name(job))


def jobs_prefix(content_id: str) -> bytes:
    """Returns the common prefix of the keys of all records of a content."""
    return jobs_of_owner(_owner(content_id))


def job_name(job: str) -> bytes:
    """Encodes the name of a job after checking it."""
    if not isinstance(job, str):
        raise InvalidKey(f"the name of a job is text, not {type(job).__name__}")
    raw = _utf8(job)
    if not 1 <= len(raw) <= JOB_BYTES_MAX:
        raise InvalidKey(f"the name of a job has 1 to {JOB_BYTES_MAX} bytes, not {len(raw)}")
    for character in job:
        if character < " " or character == "\x7f":
            raise InvalidKey(f"the name of a job holds the control character {character!r}")
    return raw


def job_of(key: bytes) -> str:
    """Decodes the name of the job of a stored record."""
    check_stored(is_record(key), "the key of a record starts with its universe byte and NUL")
    return _decoded(key.split(b"\0", 2)[2])


def is_record(key: bytes) -> bool:
    """Returns whether a key is that of a job's record, not that of a file or a table."""
    return key.startswith(_RECORDS)


def owner_of(key: bytes) -> bytes:
    """Returns the content that a record belongs to, as `owner_name` names it."""
    return key.split(b"\0", 2)[1]


def has_uuid(key: bytes) -> bool:
    """Returns whether the id of the content that a record belongs to is a UUID."""
    return not owner_of(key).startswith(_HASHED)


def jobs_of_owner(owner: bytes) -> bytes:
    """Returns the common prefix of the keys of all records of an owner."""
    return _RECORDS + owner + b"\0"


def owner_name(raw_content_id: bytes) -> bytes:
    """Returns how records name a content whose id is known as the bytes of a UUID."""
    return raw_content_id.hex().encode("ascii")


def _owner(content_id: str) -> bytes:
    """Names a content in 32 characters; an id that is no UUID may be long, so by its hash."""
    raw = find_uuid_bytes(ContentId(content_id))
    if raw is not None:
        return owner_name(raw)
    return _HASHED + owner_name(sha256(_utf8(content_id)).digest()[:16])


def table_elements(key: Key) -> tuple[str, ...]:
    """Decodes a stored table key; the inverse of `table_key`."""
    if key[:1] != b"t":
        check_stored(False, "a table key starts with its universe byte")
    try:
        return tuple(key[1:].decode().split(SEPARATOR))
    except UnicodeDecodeError:
        check_stored(False, "a stored key is UTF-8")
        raise


def file_path(key: Key) -> str:
    """Decodes a stored file key; the inverse of `file_key`."""
    check_stored(key[:1] == b"f", "a file key starts with its universe byte")
    return _decoded(key[1:])


def prefix_end(prefix: bytes) -> bytes | None:
    """Returns the smallest byte string after all that start with the prefix, None if there is none.

    Ranges are half-open, so `prefix, prefix_end(prefix)` is exactly what starts with the prefix.
    """
    kept = prefix.rstrip(b"\xff")
    if not kept:
        return None
    return kept[:-1] + bytes((kept[-1] + 1,))


def _bad_element(position: int, part: Any) -> InvalidKey:
    if not isinstance(part, str):
        return InvalidKey(f"element {position} of the key is {type(part).__name__}, not text")
    control = _CONTROL.search(part)
    if control is None:
        return InvalidKey(f"element {position} of the key is empty")
    return InvalidKey(f"element {position} of the key holds the control character {control[0]!r}")


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidKey(f"not valid Unicode text at character {error.start}") from None


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        check_stored(False, "a stored key is UTF-8")
        raise


def ordered(keys: Iterable[bytes]) -> list[bytes]:
    """Returns keys in order, each once; many are sorted in slices, so that other threads run."""
    found = list(keys)
    if all(left < right for left, right in pairwise(found)):
        return found
    if len(found) <= _SORTED_AT_ONCE_MAX:
        return sorted(set(found))
    starts = range(0, len(found), _SORTED_AT_ONCE_MAX)
    slices = [sorted(found[start : start + _SORTED_AT_ONCE_MAX]) for start in starts]
    return [key for key, _ in groupby(merge(*slices))]
