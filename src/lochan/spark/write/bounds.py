"""Counts and bounds of a file's columns, from the footer of the file.

A file is skipped by its bounds, so they must never be narrower than its rows. Writers leave out
what they do not know, for one row group and not for the next: a text that is too long, an end that
is NaN. What one row group lacks is unknown for the whole file. PyIceberg passes over such a
row group, fails at years that Python's dates do not have, and ends texts with half a character;
so its function is not used here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow.parquet as pq
from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    StatisticsCollector,
    parquet_path_to_id_mapping,
)
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, PrimitiveType
from pyiceberg.utils.decimal import unscaled_to_decimal

# These hold days, microseconds and the digits of decimals as plain numbers, of any year.
_NUMBERS: Final = ("INT32", "INT64")
_BOUNDED: Final = (MetricModeTypes.FULL, MetricModeTypes.TRUNCATE)
_LAST: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)


class FileFacts(msgspec.Struct, frozen=True):
    """The facts of one written file, or the reason of a failure: `refused` rows, or a `problem`."""

    path: str
    size: int
    rows: int = 0
    column_sizes: dict[int, int] = {}
    value_counts: dict[int, int] = {}
    null_counts: dict[int, int] = {}
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    split_offsets: list[int] = []
    partition: list[bytes | None] = []
    refused: str = ""
    problem: str = ""


def read_columns(
    facts: FileFacts,
    footer: pq.FileMetaData,
    schema: Schema,
    plan: Mapping[int, StatisticsCollector],
) -> FileFacts:
    """Returns facts with the counts and bounds of a plan, as far as every row group has them."""
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    found = msgspec.structs.replace(
        facts,
        column_sizes={},
        value_counts={},
        null_counts={},
        lower={},
        upper={},
        split_offsets=sorted(_start(group.column(0)) for group in groups),
    )
    ids = parquet_path_to_id_mapping(schema)
    for position in range(footer.num_columns):
        chunks = [group.column(position) for group in groups]
        if chunks:
            number = ids[chunks[0].path_in_schema]
            _count(found, number, plan[number], chunks)
    return found


def _start(chunk: Any) -> int:
    data: int = chunk.data_page_offset
    return min(data, chunk.dictionary_page_offset) if chunk.has_dictionary_page else data


def _count(
    found: FileFacts, number: int, collector: StatisticsCollector, chunks: Sequence[Any]
) -> None:
    found.column_sizes[number] = sum(chunk.total_compressed_size for chunk in chunks)
    if collector.mode.type == MetricModeTypes.NONE:
        return
    found.value_counts[number] = sum(chunk.num_values for chunk in chunks)
    chunks = [chunk for chunk in chunks if chunk.num_values]
    nulls = [_nulls(chunk) for chunk in chunks]
    known = [count for count in nulls if count is not None]
    if len(known) == len(nulls):
        found.null_counts[number] = sum(known)
    if collector.mode.type not in _BOUNDED:
        return
    valued = [
        chunk for chunk, count in zip(chunks, nulls, strict=True) if count != chunk.num_values
    ]
    ends = [_ends(chunk, collector.iceberg_type) for chunk in valued]
    pairs = [pair for pair in ends if pair is not None]
    if not pairs or len(pairs) < len(ends):
        return
    lower = min(low for low, _ in pairs)
    upper = max(high for _, high in pairs)
    if collector.mode.length is not None:
        lower = lower[: collector.mode.length]
        upper = _UPPER[type(upper)](upper, collector.mode.length)
    found.lower[number] = to_bytes(collector.iceberg_type, lower)
    if upper is not None:
        found.upper[number] = to_bytes(collector.iceberg_type, upper)


def _nulls(chunk: Any) -> int | None:
    statistics = chunk.statistics if chunk.is_stats_set else None
    if statistics is None or not statistics.has_null_count:
        return None
    return int(statistics.null_count)


def _ends(chunk: Any, kind: PrimitiveType) -> tuple[Any, Any] | None:
    """Returns the smallest and the largest value of a row group, None if it lacks them."""
    statistics = chunk.statistics if chunk.is_stats_set else None
    if statistics is None or not statistics.has_min_max:
        return None
    if statistics.physical_type not in _NUMBERS:
        low, high = statistics.min, statistics.max
        # NaN is the one value that is not itself.
        return (low, high) if low == low and high == high else None  # noqa: PLR0124
    low, high = statistics.min_raw, statistics.max_raw
    if isinstance(kind, DecimalType):
        return unscaled_to_decimal(low, kind.scale), unscaled_to_decimal(high, kind.scale)
    return low, high


def upper_of_text(text: str, width: int) -> str | None:
    """Returns an upper bound of a text with at most `width` characters; None if there is none."""
    cut = text[:width]
    if cut == text:
        return text
    while cut:
        after = ord(cut[-1]) + 1
        if after in _SURROGATES:
            after = _SURROGATES.stop
        cut = cut[:-1]
        if after <= _LAST:
            return cut + chr(after)
    return None


def upper_of_bytes(raw: bytes, width: int) -> bytes | None:
    """Returns an upper bound of bytes with at most `width` bytes; None if there is none."""
    cut = raw[:width]
    if cut == raw:
        return raw
    cut = cut.rstrip(b"\xff")
    return cut[:-1] + bytes([cut[-1] + 1]) if cut else None


_UPPER: Final[Mapping[type, Callable[[Any, int], Any]]] = {
    str: upper_of_text,
    bytes: upper_of_bytes,
}
