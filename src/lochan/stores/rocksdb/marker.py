"""The marker file LOCHAN in a store's directory: that it is ours, and how many writes it has.

Two lines of fixed width, each with a checksum:

1. name, version, number of openings, name and size of RocksDB's manifest. Written again after each
   opening and at each closing, so a database whose manifest was cut short or exchanged is
   recognised before RocksDB opens it: RocksDB takes a shorter manifest for the truth and deletes
   the tables that it does not list.
2. the number of the last write known to be durable. Written after each flush, before the flush
   returns, and not synchronised itself: after a kill it is exact, after a power cut it may be some
   seconds old, and it is never ahead of the log. A database whose last write has a smaller number
   has lost acknowledged writes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec

from lochan.base.errors import Corrupt, NewerFormat

_NAME: Final = "lochan-rocksdb"
_VERSION: Final = 1
_WIDTH: Final = 96
_LINE: Final = re.compile(
    rb"lochan-rocksdb 1 (\d{1,9}) (-|MANIFEST-\d{6,12}) (\d{1,18}) ([0-9a-f]{8}) *\n"
)
_DURABLE: Final = re.compile(rb"durable (\d{20}) ([0-9a-f]{8})\n")
_OTHER: Final = re.compile(rb"(lochan-rocksdb (\d{1,9}) .*) ([0-9a-f]{8}) *\n", re.DOTALL)
"""A line of another version: whatever its fields, its checksum comes last."""

_CURRENT: Final = re.compile(r"(MANIFEST-(\d{6,12}))\n\Z")


class Marker(msgspec.Struct, frozen=True, gc=False):
    """The fields of the first line; without an opening the store is being created."""

    openings: int = 0
    manifest: str = "-"
    manifest_bytes: int = 0


DURABLE_OFFSET: Final = _WIDTH
"""Where the second line begins."""


def encode_durable(write: int) -> bytes:
    """Builds the second line."""
    body = f"durable {write:020}"
    return f"{body} {crc32(body.encode()):08x}\n".encode()


def decode_durable(line: bytes, path: Path) -> int:
    """Reads the second line; a store that was never flushed has none."""
    if not line:
        return 0
    match = _DURABLE.fullmatch(line)
    if match is None or encode_durable(int(match[1])) != line:
        raise Corrupt(f"{path} is damaged: its second line should name the last durable write")
    return int(match[1])


def encode_marker(marker: Marker) -> bytes:
    """Builds the first line."""
    body = _body(marker)
    return f"{body} {crc32(body.encode()):08x}".ljust(_WIDTH - 1).encode() + b"\n"


def decode_marker(line: bytes, path: Path) -> Marker:
    """Reads the first line; the path is for the message."""
    match = _LINE.fullmatch(line)
    if match is not None:
        openings, manifest, size, checksum = match.groups()
        marker = Marker(int(openings), manifest.decode(), int(size))
        if crc32(_body(marker).encode()) == int(checksum, 16):
            return marker
    other = _OTHER.match(line)
    if other is not None and int(other[2]) > _VERSION and crc32(other[1]) == int(other[3], 16):
        raise NewerFormat(f"{path} was written by a newer Lochan: newer format, upgrade Lochan")
    raise Corrupt(f"{path} is damaged: its first line is not one of ours; restore a copy")


def read_manifest(directory: Path) -> tuple[str, int]:
    """Returns name and size of the manifest that RocksDB would use."""
    try:
        match = _CURRENT.match((directory / "CURRENT").read_text("ascii", "replace"))
        if match is None:
            raise Corrupt(f"{directory / 'CURRENT'} is damaged: it should name a manifest")
        return match[1], (directory / match[1]).stat().st_size
    except FileNotFoundError as error:
        raise Corrupt(f"the store in {directory} has lost {error.filename}") from None


def check_manifest(directory: Path, marker: Marker) -> None:
    """Refuses a manifest that is older or shorter than the one last seen."""
    name, size = read_manifest(directory)
    went_back = int(name.partition("-")[2]) < int(marker.manifest.partition("-")[2])
    was_cut = name == marker.manifest and size < marker.manifest_bytes
    if went_back or was_cut:
        raise Corrupt(
            f"the store in {directory} is older than when it was last open: {name} has {size} "
            f"bytes, {marker.manifest} had {marker.manifest_bytes}; restore a whole copy"
        )


def _body(marker: Marker) -> str:
    return f"{_NAME} {_VERSION} {marker.openings} {marker.manifest} {marker.manifest_bytes}"
