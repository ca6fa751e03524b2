"""The first row of every store: which storage format its other rows are written in.

A store of a newer format is refused before anything in it is changed; a new store is marked. Two
processes that open a new store at the same time agree, because the mark is a conditional write.

The mark is the number, a space and the CRC-32 of the number in hex: without the checksum one
flipped bit would turn "1" into "3", and the operator would be asked to upgrade. Every later format
keeps this form.

While a store is the target of a copy, the row holds the mark of the copy instead: the word "copy",
what is copied, the run that copies, and the checksum. Such a store is refused, and older versions
of Lochan refuse it too, because it is no number.
"""

from __future__ import annotations

import re
from typing import Final
from zlib import crc32

import msgspec

from lochan.base.checks import check_stored
from lochan.base.errors import Corrupt, Invalid, NewerFormat
from lochan.base.ids import ROOT_INSTANCE
from lochan.kv.store import ABSENT, Entry, Kind, Store, Won, partition

STORAGE_FORMAT: Final = 1

FORMAT_PARTITION: Final = partition(ROOT_INSTANCE, Kind.META)
FORMAT_KEY: Final = b"format"

_REPOSITORIES: Final = partition(ROOT_INSTANCE, Kind.REPOSITORIES)

_MARK: Final = re.compile(rb"([1-9][0-9]{0,8}) [0-9a-f]{8}\Z")
_COPY_MARK: Final = re.compile(rb"copy ([0-9a-f]{32}) ([0-9a-f]{32}) [0-9a-f]{8}\Z")


class CopyMark(msgspec.Struct, frozen=True):
    """That a store is being filled by a copy: a digest of the source, and the run that copies."""

    source: bytes
    run: bytes


def check_format(store: Store) -> None:
    """Marks a new store with the current format, refuses one of a newer format."""
    entry = store.get(FORMAT_PARTITION, FORMAT_KEY)
    if entry is None and store.scan(_REPOSITORIES, b"", None, 1).entries:
        # A store is marked before its first repository is created.
        entry = store.get(FORMAT_PARTITION, FORMAT_KEY)
        if entry is None:
            raise Corrupt("the store has lost the mark of its format; run `lochan check`")
    if entry is None:
        mark = encode_mark(STORAGE_FORMAT)
        outcome = store.set_if(FORMAT_PARTITION, FORMAT_KEY, mark, ABSENT)
        if isinstance(outcome, Won):
            return
        # Another process marked it in between; the mark is never removed.
        entry = store.get(FORMAT_PARTITION, FORMAT_KEY)
        check_stored(entry is not None, "the mark of the storage format is never removed")
    if entry is not None:
        check_mark(entry)


def encode_mark(number: int) -> bytes:
    """Returns the value of the row for a storage format."""
    digits = str(number).encode()
    return digits + f" {crc32(digits):08x}".encode()


def encode_copy_mark(mark: CopyMark) -> bytes:
    """Returns the value of the row while a copy fills the store."""
    text = b"copy %s %s" % (mark.source.hex().encode(), mark.run.hex().encode())
    return text + f" {crc32(text):08x}".encode()


def find_copy_mark(entry: Entry) -> CopyMark | None:
    """Returns the mark of a copy; None if the row is not one."""
    match = _COPY_MARK.match(entry.value)
    if match is None:
        return None
    mark = CopyMark(bytes.fromhex(match[1].decode()), bytes.fromhex(match[2].decode()))
    return mark if encode_copy_mark(mark) == entry.value else None


def check_mark(entry: Entry) -> None:
    """Raises Corrupt unless the row is a mark, NewerFormat if it is one of a newer Lochan.

    Invalid if a copy has not filled the store yet.
    """
    if find_copy_mark(entry) is not None:
        raise Invalid(
            "the store is an unfinished copy: run `lochan store copy` with the same two addresses "
            "again to finish it"
        )
    match = _MARK.match(entry.value)
    if match is None or encode_mark(int(match[1])) != entry.value:
        raise Corrupt(
            f"the mark of the storage format is {entry.value[:40]!r}, "
            "not a number with its checksum"
        )
    found = int(match[1])
    if found > STORAGE_FORMAT:
        raise NewerFormat(
            f"the store has storage format {found}, this Lochan knows {STORAGE_FORMAT}; "
            "newer format, upgrade Lochan"
        )
