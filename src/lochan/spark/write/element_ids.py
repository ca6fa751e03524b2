"""Field ids of list elements, map keys and map values, added to Parquet files that Spark wrote.

Spark writes an id for every field of a struct, and has no place for the ids of what is in a list or
a map, by which Iceberg's readers find it. So the footer of such a file is written again with them.
All else stays as it was, byte for byte: no row is decoded, and offsets count from the beginning.

A file is replaced as a whole, because the task that does it may be killed, or may run twice at the
same time:

1. the footer is read; if it has the ids already, nothing is done
2. the file is copied to a hidden name beside it; the copy gets the new footer
3. the checksum that Hadoop keeps beside a local file is removed: it is that of the old bytes
4. the copy is renamed to the name of the file

An end after 2 or 3 leaves the file as Spark wrote it, and a copy that is in no snapshot. Two tasks
on one file make the same bytes. A reader of the file meanwhile reads one version or the other.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import urlsplit

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, StructType

from lochan.base.limits.spark_writes import SPARK_FOOTER_BYTES_MAX
from lochan.spark.write.parquet_footers import EncryptedError, insert_ids, read_elements

_MAGIC: Final = b"PAR1"
_MAGIC_ENCRYPTED: Final = b"PARE"
# Behind the footer: its length, and the magic.
_TAIL_BYTES: Final = 8
_FILE: Final = "file"


def is_local(location: str) -> bool:
    """Returns whether a file there can be replaced by renaming another one."""
    return urlsplit(location).scheme in ("", _FILE)


def add_element_ids(schema: Schema, location: str) -> None:
    """Gives a local file the ids of a schema; ValueError if its columns are not those."""
    path = _local_path(location)
    with path.open("rb") as stream:
        start, footer = _read_footer(stream)
    changed = footer_with_ids(schema, footer)
    if changed == footer:
        return
    copy = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    shutil.copy(path, copy)
    with copy.open("r+b") as stream:
        stream.seek(start)
        stream.write(changed + len(changed).to_bytes(4, "little") + _MAGIC)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    copy.replace(path)


def _local_path(location: str) -> Path:
    scheme, colon, rest = location.partition(":")
    return Path("/" + rest.lstrip("/")) if colon and scheme == _FILE else Path(location)


def _read_footer(stream: BinaryIO) -> tuple[int, bytes]:
    """Returns where a footer begins, and the footer."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - _TAIL_BYTES))
    tail = stream.read(_TAIL_BYTES)
    length, magic = int.from_bytes(tail[:4], "little"), tail[4:]
    if magic == _MAGIC_ENCRYPTED:
        raise EncryptedError("its footer is encrypted")
    start = size - _TAIL_BYTES - length
    if magic != _MAGIC or start < len(_MAGIC):
        raise ValueError("it is not a complete Parquet file")
    if length > SPARK_FOOTER_BYTES_MAX:
        raise ValueError(
            f"its footer has {length} bytes; at most {SPARK_FOOTER_BYTES_MAX} are read"
        )
    stream.seek(start)
    return start, stream.read(length)


def footer_with_ids(schema: Schema, footer: bytes) -> bytes:
    """Returns a footer in which list elements, keys and values have the ids of a schema.

    A footer lists the root, and then every node before its children.
    """
    elements = read_elements(footer)
    missing: dict[int, int] = {}
    for position, (element, node) in enumerate(zip_longest(elements, _nodes(schema))):
        if element is None:
            raise ValueError("it lacks columns of the table")
        if node is None:
            raise ValueError(f"it has a column {element.name} that the table does not have")
        children, element_id = node
        if element.children != children:
            raise ValueError(
                f"{element.name} has {element.children} parts, and the table has {children}"
            )
        if element_id is None or element.field_id == element_id:
            continue
        if element.field_id is not None:
            raise ValueError(
                f"{element.name} has the id {element.field_id}, which should be {element_id}"
            )
        missing[position] = element_id
    return insert_ids(footer, elements, missing)


def _nodes(schema: Schema) -> Iterator[tuple[int, int | None]]:
    """Yields the nodes of a file's schema: how many children each has, and its id in a list or map.

    Between a list and its element, and between a map and its keys and values, there is a group.
    """
    todo: list[tuple[IcebergType, int | None]] = [(schema.as_struct(), None)]
    while todo:
        kind, element_id = todo.pop()
        inside: list[tuple[IcebergType, int | None]] = []
        match kind:
            case StructType():
                inside = [(field.field_type, None) for field in kind.fields]
                yield len(inside), element_id
            case ListType():
                inside = [(kind.element_type, kind.element_id)]
                yield from ((1, element_id), (1, None))
            case MapType():
                inside = [(kind.key_type, kind.key_id), (kind.value_type, kind.value_id)]
                yield from ((1, element_id), (2, None))
            case _:
                yield 0, element_id
        todo += reversed(inside)
