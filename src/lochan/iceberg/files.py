"""Metadata files: read and written whole and without loss, kept in memory for the next reader.

A metadata file never changes once it is written, so what was read is right for ever. Table
properties have no say in how files are reached, only the catalog's own have: whoever may write a
table's properties must not choose where its readers send their credentials, nor what code they run.
"""

from __future__ import annotations

import gzip
import re
import uuid
import zlib
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from pyiceberg.io import FileIO, load_file_io

from lochan.base.errors import Corrupt, Invalid, TooLarge
from lochan.base.pipeline_limits import (
    ICEBERG_METADATA_BYTES_MAX,
    ICEBERG_METADATA_CACHE_BYTES_MAX,
)
from lochan.process import after_fork

Metadata = dict[str, Any]

_GZIP: Final = b"\x1f\x8b"
_CODEC: Final = "write.metadata.compression-codec"
_METADATA_PATH: Final = "write.metadata.path"
_VERSION: Final = re.compile(r"(\d{1,9})-[0-9a-fA-F-]{36}(?:\.\w+)?\.metadata\.json")
_encode: Final = msgspec.json.Encoder().encode


class MetadataFiles:
    """Reads and writes metadata files."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = dict(properties)
        self._begin()
        after_fork(self, MetadataFiles._begin)

    def _begin(self) -> None:
        """Starts with no connection and nothing read; in a forked process once more."""
        self._lock = Lock()
        self._ios: dict[str, FileIO] = {}
        self._kept: OrderedDict[str, tuple[int, Metadata]] = OrderedDict()
        self._kept_bytes = 0

    def io(self, location: str) -> FileIO:
        """Returns the way to files at a location; all of one scheme share their connections."""
        scheme = urlsplit(location).scheme
        with self._lock:
            if scheme not in self._ios:
                self._ios[scheme] = load_file_io(self._properties, location)
            return self._ios[scheme]

    def read(self, location: str) -> Metadata:
        """Returns what a file says, which must not be changed; FileNotFoundError if it is gone."""
        with self._lock:
            if location in self._kept:
                self._kept.move_to_end(location)
                return self._kept[location][1]
        with self.io(location).new_input(location).open() as stream:
            # A stream without a size reads to its end.
            raw = stream.read()
        raw = _plain(raw, location)
        try:
            metadata = msgspec.json.decode(raw, type=Metadata)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Corrupt(f"{location} is not Iceberg metadata: {error}") from None
        self._keep(location, len(raw), metadata)
        return metadata

    def write(self, location: str, metadata: Metadata) -> None:
        """Writes a file that is new; when this returns, every reader finds it."""
        raw = plain = _encode(metadata)
        if len(raw) > ICEBERG_METADATA_BYTES_MAX:
            raise TooLarge(f"metadata of {len(raw)} bytes; {ICEBERG_METADATA_BYTES_MAX} at most")
        if location.endswith(".gz.metadata.json"):
            raw = gzip.compress(raw)
        with self.io(location).new_output(location).create() as stream:
            stream.write(raw)
        self._keep(location, len(plain), metadata)

    def remove(self, location: str) -> None:
        """Removes a file that nobody can have heard of; one that stays is only lost space."""
        with self._lock:
            size, _ = self._kept.pop(location, (0, {}))
            self._kept_bytes -= size
        with suppress(OSError):
            self.io(location).delete(location)

    def _keep(self, location: str, size: int, metadata: Metadata) -> None:
        with self._lock:
            before = self._kept.pop(location, None)
            self._kept_bytes += size - (before[0] if before else 0)
            self._kept[location] = (size, metadata)
            while self._kept_bytes > ICEBERG_METADATA_CACHE_BYTES_MAX:
                _, (freed, _) = self._kept.popitem(last=False)
                self._kept_bytes -= freed


def new_location(metadata: Metadata, previous: str | None) -> str:
    """Returns where the next metadata file of a table or view goes: a new place each time."""
    properties = metadata.get("properties") or {}
    version = 0
    if previous is not None:
        match = _VERSION.fullmatch(previous.rpartition("/")[2])
        version = int(match[1]) + 1 if match else 0
    packed = ".gz" if str(properties.get(_CODEC, "")).lower() == "gzip" else ""
    directory = properties.get(_METADATA_PATH) or f"{metadata['location'].rstrip('/')}/metadata"
    return f"{directory.rstrip('/')}/{version:05d}-{uuid.uuid4()}{packed}.metadata.json"


def warehouse_location(warehouse: str) -> str:
    """Returns a warehouse as a location: a directory becomes `file://…`; no slash at the end."""
    if "#" in warehouse or "?" in warehouse:
        raise Invalid(
            f"a warehouse has no # and no ? in its name, where readers would cut it: {warehouse!r}"
        )
    if "://" in warehouse or warehouse.startswith("file:/"):
        return warehouse.rstrip("/")
    return f"file://{Path(warehouse).expanduser().resolve()}"


def _plain(raw: bytes, location: str) -> bytes:
    """Unpacks what is packed, whatever the file's name says; bounded, whoever has written it."""
    if raw.startswith(_GZIP):
        unpacking = zlib.decompressobj(wbits=31)
        try:
            raw = unpacking.decompress(raw, ICEBERG_METADATA_BYTES_MAX + 1)
        except zlib.error as error:
            raise Corrupt(f"{location} cannot be unpacked: {error}") from None
        if not unpacking.eof and len(raw) <= ICEBERG_METADATA_BYTES_MAX:
            raise Corrupt(f"{location} ends before its end")
    if len(raw) > ICEBERG_METADATA_BYTES_MAX:
        raise TooLarge(f"{location} has more than {ICEBERG_METADATA_BYTES_MAX} bytes")
    return raw
