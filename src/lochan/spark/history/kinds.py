"""The kinds of the data source: their columns, and the rows that values of `model/` become.

Times are microseconds in rows; `arrow_batch` and `plain_rows` turn them into what Spark takes.
Batches have exactly the Arrow types that Spark expects: it compares them and converts nothing. All
columns are nullable, as they are in a schema that a user writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from lochan.base.errors import Invalid
from lochan.base.limits.spark_reads import SPARK_BATCH_CHARACTERS_MAX, SPARK_BATCH_ROWS_MAX
from lochan.model.commits import ContentKey, LogEntry, Put
from lochan.model.contents import Content, OtherContent, type_of
from lochan.model.references import Reference
from lochan.model.results import DiffEntry, Entry

Row = tuple[Any, ...]

_TEXT: Final = StringType()
_TEXTS: Final = ArrayType(_TEXT)
_LONG: Final = LongType()
_TIME: Final = TimestampType()

_ARROW_TEXTS: Final = pa.list_(pa.field("element", pa.string()))

# Spark's own conversion has another signature in every version; a test holds ours to it.
_ARROW: Final[Mapping[str, pa.DataType]] = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "array<string>": _ARROW_TEXTS,
    "map<string,array<string>>": pa.map_(
        pa.field("key", pa.string(), nullable=False), pa.field("value", _ARROW_TEXTS)
    ),
}

COLUMNS: Final[Mapping[str, tuple[tuple[str, DataType], ...]]] = {
    "refs": (
        ("name", _TEXT),
        ("kind", _TEXT),
        ("commit", _TEXT),
        ("created_at", _TIME),
        ("expires_at", _TIME),
        ("message", _TEXT),
        ("commits", _LONG),
        ("ahead", _LONG),
        ("behind", _LONG),
        ("common_ancestor", _TEXT),
    ),
    "log": (
        ("seq", _LONG),
        ("commit", _TEXT),
        ("parent", _TEXT),
        ("parents", _TEXTS),
        ("time", _TIME),
        ("committer", _TEXT),
        ("author", _TEXT),
        ("authors", _TEXTS),
        ("author_time", _TIME),
        ("signed_off_by", _TEXTS),
        ("message", _TEXT),
        ("properties", MapType(_TEXT, _TEXTS)),
    ),
    "entries": (
        ("key", _TEXTS),
        ("name", _TEXT),
        ("type", _TEXT),
        ("content_id", _TEXT),
        ("metadata_location", _TEXT),
        ("content", _TEXT),
    ),
    "diff": (
        ("key", _TEXTS),
        ("name", _TEXT),
        ("change", _TEXT),
        ("from_type", _TEXT),
        ("from_content_id", _TEXT),
        ("from_metadata_location", _TEXT),
        ("from_content", _TEXT),
        ("to_type", _TEXT),
        ("to_content_id", _TEXT),
        ("to_metadata_location", _TEXT),
        ("to_content", _TEXT),
    ),
    "changes": (
        ("seq", _LONG),
        ("commit", _TEXT),
        ("time", _TIME),
        ("author", _TEXT),
        ("message", _TEXT),
        ("position", IntegerType()),
        ("operation", _TEXT),
        ("key", _TEXTS),
        ("name", _TEXT),
        ("type", _TEXT),
        ("content_id", _TEXT),
        ("metadata_location", _TEXT),
        ("content", _TEXT),
    ),
}

PUT: Final = "put"
DELETE: Final = "delete"
RESET: Final = "reset"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NOTHING: Final = (None, None, None, None)
_encode: Final = msgspec.json.Encoder().encode


def schema_of(kind: str) -> StructType:
    """Returns the columns of a kind."""
    return StructType([StructField(name, each) for name, each in COLUMNS[kind]])


def arrow_schema(schema: StructType) -> pa.Schema:
    """Returns the Arrow schema of columns of the data source."""
    return pa.schema(
        [pa.field(each.name, _ARROW[each.dataType.simpleString()]) for each in schema.fields]
    )


def check_schema(kind: str, schema: StructType) -> None:
    """Refuses a user's schema unless it chooses columns of the kind, in any order."""
    known = dict(COLUMNS[kind])
    for each in schema.fields:
        if known.get(each.name) != each.dataType:
            listed = ", ".join(f"{name} {kind.simpleString()}" for name, kind in known.items())
            raise Invalid(f"kind {kind!r} has no column {each.name!r} like that; it has {listed}")


def arrow_batch(kind: str, schema: StructType, rows: Sequence[Row]) -> pa.RecordBatch:
    """Returns the columns of the schema, out of all columns of the rows."""
    places = {name: at for at, (name, _) in enumerate(COLUMNS[kind])}
    shape = arrow_schema(schema)
    columns = list(zip(*rows, strict=True))
    arrays = [pa.array(columns[places[one.name]], type=one.type) for one in shape]
    return pa.RecordBatch.from_arrays(arrays, schema=shape)


def portions(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Cuts rows into what fits one batch, each at least one row.

    A commit's message is repeated on every row of it, and a column of Arrow ends at 2 GiB.
    """
    start = total = 0
    for at, row in enumerate(rows):
        characters = sum(map(_characters, row))
        is_full = at - start == SPARK_BATCH_ROWS_MAX
        if at > start and (is_full or total + characters > SPARK_BATCH_CHARACTERS_MAX):
            yield rows[start:at]
            start, total = at, 0
        total += characters
    if start < len(rows):
        yield rows[start:]


def plain_rows(kind: str, rows: Iterable[Row]) -> Iterator[Row]:
    """Yields rows with times as Python has them."""
    times = {at for at, (_, one) in enumerate(COLUMNS[kind]) if one == _TIME}
    for row in rows:
        yield tuple(
            _EPOCH + timedelta(microseconds=value) if at in times and value is not None else value
            for at, value in enumerate(row)
        )


def reference_row(reference: Reference) -> Row:
    """Returns the row of a branch or tag; the last four columns are set only with metadata."""
    metadata = reference.metadata
    found = (
        _NOTHING
        if metadata is None
        else (metadata.total, metadata.ahead, metadata.behind, metadata.common_ancestor)
    )
    return (
        reference.name,
        reference.kind,
        reference.hash,
        reference.created_us,
        reference.expires_us,
        None if reference.annotation is None else reference.annotation.message,
        *found,
    )


def log_row(seq: int, entry: LogEntry) -> Row:
    """Returns the row of a commit."""
    meta = entry.meta
    return (
        seq,
        meta.hash,
        entry.parent,
        list(meta.parents),
        meta.commit_time_us,
        meta.committer,
        meta.authors[0] if meta.authors else None,
        list(meta.authors),
        meta.author_time_us,
        list(meta.signed_off_by),
        meta.message,
        {name: list(values) for name, values in meta.properties},
    )


def entry_row(entry: Entry) -> Row:
    """Returns the row of a key and its content."""
    if entry.content is None:
        return (list(entry.key), _name(entry.key), entry.type, entry.content_id, None, None)
    return (list(entry.key), _name(entry.key), *_content(entry.content))


def diff_row(entry: DiffEntry) -> Row:
    """Returns the row of a key that differs, with its contents before and after."""
    change = "added" if entry.left is None else "removed" if entry.right is None else "changed"
    sides = (*_content(entry.left), *_content(entry.right))
    return (list(entry.key), _name(entry.key), change, *sides)


def change_rows(seq: int, entry: LogEntry) -> Iterator[Row]:
    """Yields what a commit changed, a row for each key."""
    meta = entry.meta
    author = meta.authors[0] if meta.authors else None
    commit = (seq, meta.hash, meta.commit_time_us, author, meta.message)
    for position, operation in enumerate(entry.operations or ()):
        key = operation.key
        content = operation.content if isinstance(operation, Put) else None
        change = DELETE if content is None else PUT
        yield (*commit, position, change, list(key), _name(key), *_content(content))


def reset_row(seq: int, commit: str, lost: str) -> Row:
    """Returns the row that makes a reader begin again at a commit."""
    message = f"the branch was reassigned; {lost} is no longer in its history"
    return (seq, commit, None, None, message, 0, RESET, None, None, *_NOTHING)


def _characters(value: Any) -> int:
    """Counts the text in a value of a row."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list):
        return sum(map(len, value))
    if isinstance(value, dict):
        return sum(len(name) + sum(map(len, texts)) for name, texts in value.items())
    return 0


def _name(key: ContentKey) -> str:
    return ".".join(key)


def _content(content: Content | None) -> Row:
    """Returns the type, the id, the metadata location, and the content as JSON."""
    if content is None:
        return _NOTHING
    if isinstance(content, OtherContent):
        place: Any = content.fields.get("metadataLocation")
        whole = _encode({"type": content.type, "id": content.id, **content.fields})
    else:
        place = getattr(content, "metadata_location", None)
        whole = _encode(content)
    located = place if isinstance(place, str) else None
    return (type_of(content), content.id, located, whole.decode("utf-8"))
