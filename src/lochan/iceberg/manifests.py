"""Manifests, read exactly.

PyIceberg reads manifests with a compiled decoder that takes the eight bytes of a double for a
float: 1.1 becomes 1.100000023841858, and 1e40 infinity. The doubles of a manifest are the values of
partitions, so files would be looked for in the wrong partition, and a manifest that is written
again would hold the wrong value for every engine. Everything else it reads exactly. So its decoder
is kept, and only what reads a double is exchanged, in the reader of one file: nothing that other
users of PyIceberg in the process share is changed.

NaN is always the same object: PyIceberg looks up deletes by the values of a partition, and finds
equal only what is equal to itself, or the same.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Self

from pyiceberg.avro.decoder import BinaryDecoder
from pyiceberg.avro.file import AvroFile
from pyiceberg.avro.reader import DoubleReader, FloatReader, OptionReader, Reader, StructReader
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DEFAULT_READ_VERSION,
    MANIFEST_ENTRY_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    _inherit_from_manifest,
)
from pyiceberg.schema import Schema

_DOUBLE: Final = struct.Struct("<d")


def entries_of(
    manifest: ManifestFile, io: FileIO, *, discard_deleted: bool = True
) -> list[ManifestEntry]:
    """Returns what a manifest lists, with what its entries have from the manifest itself."""
    with open_entries(manifest, io, MANIFEST_ENTRY_SCHEMAS[DEFAULT_READ_VERSION]) as entries:
        return [
            _inherit_from_manifest(entry, manifest)
            for entry in entries
            if not discard_deleted or entry.status != ManifestEntryStatus.DELETED
        ]


def open_entries(manifest: ManifestFile, io: FileIO, schema: Schema) -> ExactFile:
    """Returns the entries of a manifest as they are stored, with the fields of a schema."""
    return ExactFile(
        io.new_input(manifest.manifest_path),
        schema,
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    )


class ExactFile(AvroFile[ManifestEntry]):
    """A file of Avro whose doubles are read as doubles."""

    def __enter__(self) -> Self:
        super().__enter__()
        self.reader = _exact(self.reader)
        return self


class _ExactDouble(Reader):
    """Reads eight bytes as what they are."""

    def read(self, decoder: BinaryDecoder) -> float:
        (value,) = _DOUBLE.unpack(decoder.read(_DOUBLE.size))
        return value if value == value else math.nan  # noqa: PLR0124

    def skip(self, decoder: BinaryDecoder) -> None:
        decoder.skip_double()


class _OneNaN(FloatReader):
    """Reads a float; every NaN is the same object."""

    def read(self, decoder: BinaryDecoder) -> float:
        value = super().read(decoder)
        return value if value == value else math.nan  # noqa: PLR0124


_EXCHANGED: Final[dict[type[Reader], Any]] = {DoubleReader: _ExactDouble, FloatReader: _OneNaN}


# An entry, its file, the file's partition, and that a value may be NULL.
_LEVELS: Final = 4


def _exact(reader: Reader) -> Reader:
    """Returns a reader of entries that is exact."""
    change: Callable[[Reader], Reader] = _exact_value
    for _ in range(_LEVELS):
        change = partial(_with_exact, change)
    return change(reader)


def _exact_value(reader: Reader) -> Reader:
    exchanged = _EXCHANGED.get(type(reader))
    if exchanged is None:
        return reader
    made: Reader = exchanged()
    return made


def _with_exact(change: Callable[[Reader], Reader], reader: Reader) -> Reader:
    """Returns a reader with what is in it changed."""
    if isinstance(reader, OptionReader):
        inside = change(reader.option)
        return reader if inside is reader.option else OptionReader(inside)
    if isinstance(reader, StructReader):
        fields = tuple((at, change(each)) for at, each in reader.field_readers)
        if all(new is old for (_, new), (_, old) in zip(fields, reader.field_readers, strict=True)):
            return reader
        return StructReader(fields, reader.create_struct, reader.struct)
    return _exact_value(reader)
