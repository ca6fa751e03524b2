"""Metadata files: read and written whole and without loss, and cached.

A metadata file never changes once it is written, so a cached one is always valid. Only the
catalog's own properties decide how files are accessed, not the table's: a writer of a table's
properties must not choose where its readers send their credentials, nor what code they run.
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
from lochan.base.limits.iceberg import ICEBERG_METADATA_BYTES_MAX, ICEBERG_METADATA_CACHE_BYTES_MAX
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
        self._reset()
        after_fork(self, MetadataFiles._reset)

    def _reset(self) -> None:
        """Starts without connections and with an empty cache; called again in a forked process."""
        self._lock = Lock()
        self._ios: dict[str, FileIO] = {}
        self._cached: OrderedDict[str, tuple[int, Metadata]] = OrderedDict()
        self._cached_bytes = 0

    def io(self, location: str) -> FileIO:
        """Returns the FileIO for a location; locations of one scheme share one."""
        scheme = urlsplit(location).scheme
        with self._lock:
            if scheme not in self._ios:
                self._ios[scheme] = load_file_io(self._properties, location)
            return self._ios[scheme]

    def read(self, location: str) -> Metadata:
        """Returns the metadata in a file, not to be changed; FileNotFoundError if it is missing."""
        with self._lock:
            if location in self._cached:
                self._cached.move_to_end(location)
                return self._cached[location][1]
        with self.io(location).new_input(location).open() as stream:
            # Without a size, a stream reads to its end.
            raw = stream.read()
        raw = _plain(raw, location)
        try:
            metadata = msgspec.json.decode(raw, type=Metadata)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Corrupt(f"{location} is not Iceberg metadata: {error}") from None
        self._cache(location, len(raw), metadata)
        return metadata

    def write(self, location: str, metadata: Metadata) -> None:
        """Writes a new file; when this returns, every reader can read it."""
        raw = plain = _encode(metadata)
        if len(raw) > ICEBERG_METADATA_BYTES_MAX:
            raise TooLarge(
                f"{location} would have {len(raw)} bytes; the limit is {ICEBERG_METADATA_BYTES_MAX}"
            )
        if location.endswith(".gz.metadata.json"):
            raw = gzip.compress(raw)
        with self.io(location).new_output(location).create() as stream:
            stream.write(raw)
        self._cache(location, len(plain), metadata)

    def remove(self, location: str) -> None:
        """Removes a file that nothing refers to; a failure only leaves unused space."""
        with self._lock:
            size, _ = self._cached.pop(location, (0, {}))
            self._cached_bytes -= size
        with suppress(OSError):
            self.io(location).delete(location)

    def _cache(self, location: str, size: int, metadata: Metadata) -> None:
        with self._lock:
            before = self._cached.pop(location, None)
            self._cached_bytes += size - (before[0] if before else 0)
            self._cached[location] = (size, metadata)
            while self._cached_bytes > ICEBERG_METADATA_CACHE_BYTES_MAX:
                _, (freed, _) = self._cached.popitem(last=False)
                self._cached_bytes -= freed


def new_location(metadata: Metadata, previous: str | None) -> str:
    """Returns a new location for the next metadata file of a table or view."""
    properties = metadata.get("properties") or {}
    version = 0
    if previous is not None:
        match = _VERSION.fullmatch(previous.rpartition("/")[2])
        version = int(match[1]) + 1 if match else 0
    packed = ".gz" if str(properties.get(_CODEC, "")).lower() == "gzip" else ""
    directory = properties.get(_METADATA_PATH) or f"{metadata['location'].rstrip('/')}/metadata"
    return f"{directory.rstrip('/')}/{version:05d}-{uuid.uuid4()}{packed}.metadata.json"


def warehouse_location(warehouse: str) -> str:
    """Returns a warehouse as a location without a final slash; a directory becomes `file://…`."""
    if "#" in warehouse or "?" in warehouse:
        raise Invalid(
            f"the warehouse {warehouse!r} contains # or ?, where readers would cut it; rename it"
        )
    if "://" in warehouse or warehouse.startswith("file:/"):
        return warehouse.rstrip("/")
    return f"file://{Path(warehouse).expanduser().resolve()}"


def _plain(raw: bytes, location: str) -> bytes:
    """Decompresses gzip, whatever the name of the file is, up to the limit of bytes."""
    if raw.startswith(_GZIP):
        decompressor = zlib.decompressobj(wbits=31)
        try:
            raw = decompressor.decompress(raw, ICEBERG_METADATA_BYTES_MAX + 1)
        except zlib.error as error:
            raise Corrupt(f"{location} cannot be decompressed: {error}") from None
        if not decompressor.eof and len(raw) <= ICEBERG_METADATA_BYTES_MAX:
            raise Corrupt(f"{location} is cut off")
    if len(raw) > ICEBERG_METADATA_BYTES_MAX:
        raise TooLarge(f"{location} has more than {ICEBERG_METADATA_BYTES_MAX} bytes")
    return raw
