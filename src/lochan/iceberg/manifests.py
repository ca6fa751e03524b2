"""Manifests with exact doubles.

The compiled decoder of PyIceberg reads the eight bytes of a double as a float: 1.1 becomes
1.100000023841858, and 1e40 infinity. The doubles of a manifest are partition values, so files would
be looked up in the wrong partition, and a rewritten manifest would have the wrong value for every
engine. Everything else is decoded exactly. So this module uses PyIceberg's decoder and replaces
only the readers of doubles, in the reader of one file: nothing that other users of PyIceberg in the
process share is changed.

NaN is always the same object: PyIceberg looks up deletes by partition values, and NaN is equal only
to the same object.
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
    """Returns the entries of a manifest, with the fields that they inherit from the manifest."""
    with open_entries(manifest, io, MANIFEST_ENTRY_SCHEMAS[DEFAULT_READ_VERSION]) as entries:
        return [
            _inherit_from_manifest(entry, manifest)
            for entry in entries
            if not discard_deleted or entry.status != ManifestEntryStatus.DELETED
        ]


def open_entries(manifest: ManifestFile, io: FileIO, schema: Schema) -> ExactFile:
    """Returns the stored entries of a manifest, with the fields of a schema."""
    return ExactFile(
        io.new_input(manifest.manifest_path),
        schema,
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    )


class ExactFile(AvroFile[ManifestEntry]):
    """An Avro file whose doubles are read as doubles."""

    def __enter__(self) -> Self:
        super().__enter__()
        self.reader = _exact(self.reader)
        return self


class _ExactDouble(Reader):
    """Reads eight bytes as a double."""

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


_REPLACEMENTS: Final[dict[type[Reader], Any]] = {DoubleReader: _ExactDouble, FloatReader: _OneNaN}


# An entry, its file, the file's partition, and the option of a value that may be NULL.
_LEVELS: Final = 4


def _exact(reader: Reader) -> Reader:
    """Returns an exact reader of entries."""
    change: Callable[[Reader], Reader] = _exact_value
    for _ in range(_LEVELS):
        change = partial(_with_exact, change)
    return change(reader)


def _exact_value(reader: Reader) -> Reader:
    replacement = _REPLACEMENTS.get(type(reader))
    if replacement is None:
        return reader
    exact: Reader = replacement()
    return exact


def _with_exact(change: Callable[[Reader], Reader], reader: Reader) -> Reader:
    """Returns a reader whose inner readers are changed."""
    if isinstance(reader, OptionReader):
        inside = change(reader.option)
        return reader if inside is reader.option else OptionReader(inside)
    if isinstance(reader, StructReader):
        fields = tuple((at, change(each)) for at, each in reader.field_readers)
        if all(new is old for (_, new), (_, old) in zip(fields, reader.field_readers, strict=True)):
            return reader
        return StructReader(fields, reader.create_struct, reader.struct)
    return _exact_value(reader)
