"""Every type that a partition can have, with values at its edges, and tables of them.

Files are written by pyarrow and read by what executors read them with, so that a table with many
partitions is made in a fraction of a second; the partitions and bounds are those of a real write.
"""

from __future__ import annotations

import math
import struct
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg import types as iceberg
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from lochan.spark.write.snapshots import replace_files
from lochan.spark.write.statistics import build_data_file, build_layout, read_facts
from lochan.spark.write.transforms import build_spec, values_of

DAY = 86_400_000_000
EPOCH = date(1970, 1, 1).toordinal()
DAYS = [
    date(*each).toordinal() - EPOCH
    for each in (
        *((1, 1, 1), (1, 1, 2), (1582, 10, 15), (1582, 10, 4), (1969, 12, 31), (1970, 1, 1)),
        *((2024, 2, 29), (2026, 1, 1), (2026, 1, 31), (9999, 12, 1), (9999, 12, 31)),
    )
]
MOMENTS = sorted(
    {day * DAY for day in DAYS}
    | {day * DAY + DAY - 1 for day in DAYS}
    | {-1, 1, 3_600_000_000, DAYS[7] * DAY + 12 * 3_600_000_000 + 345}
)


def float32(value: float) -> float:
    return struct.unpack("<f", struct.pack("<f", value))[0]


def digits(precision: int, scale: int) -> list[Decimal]:
    largest = 10**precision - 1
    # The smallest cannot be truncated: what it would become has a digit too many.
    small = 10**3 - 10**precision
    several = (0, 1, -1, 5, 10**scale, 15 * 10**scale // 10, -(10**scale), largest, small)
    return [Decimal(each).scaleb(-scale, Context(prec=50)) for each in several]


@dataclass(frozen=True)
class Kind:
    """A type, values of it, and the partitions that it can have."""

    name: str
    type: iceberg.PrimitiveType
    values: list[Any]
    transforms: tuple[str, ...]

    def words(self) -> list[str]:
        return [each.format(self.name) for each in self.transforms]


IDENTITY = ("{}", "void({})")
BUCKET = ("bucket(4, {})",)
PERIODS = ("year({})", "month({})", "day({})")
INTS = [0, 1, -1, 4, 5, -5, -6, 1000, 16_777_217]
KINDS = [
    Kind("boolean", iceberg.BooleanType(), [True, False], IDENTITY),
    Kind(
        "int",
        iceberg.IntegerType(),
        [*INTS, -(2**31), -(2**31) + 1, 2**31 - 1, 2**31 - 2],
        (*IDENTITY, *BUCKET, "truncate(5, {})", "truncate(16, {})"),
    ),
    Kind(
        "long",
        iceberg.LongType(),
        [*INTS, -(2**63), -(2**63) + 1, 2**63 - 1, 2**63 - 2, 2**53 + 1, 2**31],
        (*IDENTITY, *BUCKET, "truncate(5, {})", "truncate(1000000, {})"),
    ),
    Kind(
        "float",
        iceberg.FloatType(),
        [
            *(0.0, -0.0, math.nan, math.inf, -math.inf, 1.0, -1.5, 16_777_216.0),
            *(float32(each) for each in (1.1, 0.1, 1e-45, 3.4028235e38, -3.4028235e38)),
        ],
        IDENTITY,
    ),
    Kind(
        "double",
        iceberg.DoubleType(),
        [
            *(0.0, -0.0, math.nan, math.inf, -math.inf, 1.0, 1.1, 0.1, 0.1 + 0.2, 1e40, -1e40),
            *(5e-324, 1.7976931348623157e308, -1.7976931348623157e308, float32(1.1), 2.0**53),
        ],
        IDENTITY,
    ),
    Kind(
        "decimal9",
        iceberg.DecimalType(9, 2),
        digits(9, 2),
        (*IDENTITY, *BUCKET, "truncate(10, {})"),
    ),
    Kind(
        "decimal18",
        iceberg.DecimalType(18, 3),
        digits(18, 3),
        (*IDENTITY, *BUCKET, "truncate(7, {})"),
    ),
    Kind(
        "decimal38",
        iceberg.DecimalType(38, 10),
        digits(38, 10),
        (*IDENTITY, *BUCKET, "truncate(1000, {})"),
    ),
    Kind("date", iceberg.DateType(), DAYS, (*IDENTITY, *BUCKET, *PERIODS)),
    Kind("ts", iceberg.TimestamptzType(), MOMENTS, (*IDENTITY, *BUCKET, *PERIODS, "hour({})")),
    Kind("local", iceberg.TimestampType(), MOMENTS, (*IDENTITY, *BUCKET, *PERIODS, "hour({})")),
    Kind(
        "text",
        iceberg.StringType(),
        [
            *("", "a", "ab", "abc", "abd", "Z", "a%b", "a_b", "it's", "é", "\uffff", "a" * 300),
            *("\U0001f600x", "\U0010ffff" * 20, "\U0010ffff", "a/b=c d", "1", "2026-01-01"),
        ],
        (*IDENTITY, *BUCKET, "truncate(2, {})"),
    ),
    Kind(
        "binary",
        iceberg.BinaryType(),
        [b"", b"\0", b"abc", b"abd", b"\xff", b"\xff" * 20, bytes(range(256)), b"\x80\x7f"],
        (*IDENTITY, *BUCKET, "truncate(2, {})"),
    ),
    Kind(
        "fixed",
        iceberg.FixedType(4),
        [b"\0" * 4, b"\xff" * 4, b"\x7f\xff\0\1", b"\x80\0\0\0", b"abcd"],
        (*IDENTITY, *BUCKET),
    ),
    Kind(
        "uuid",
        iceberg.UUIDType(),
        [
            uuid.UUID(int=each).bytes
            for each in (0, 2**128 - 1, 2**127, 2**127 - 1, 0x1234567890ABCDEF1234567890ABCDEF)
        ],
        (*IDENTITY, *BUCKET),
    ),
]


def arrow_of(kind: Kind) -> pa.DataType:
    """The type that files hold."""
    if isinstance(kind.type, iceberg.UUIDType):
        return pa.binary(16)
    schema = Schema(iceberg.NestedField(1, "v", kind.type, required=False))
    found = schema_to_pyarrow(schema, include_field_ids=False).field("v").type
    return {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(found, found)


def column(kind: Kind, values: Sequence[Any]) -> pa.Array:
    """Values as an array; days and microseconds are numbers, of any year."""
    arrow_type = arrow_of(kind)
    if pa.types.is_date(arrow_type):
        return pa.array(values, pa.int32()).cast(arrow_type)
    if pa.types.is_timestamp(arrow_type):
        return pa.array(values, pa.int64()).cast(arrow_type)
    return pa.array(values, arrow_type)


def schema_of(kind: Kind) -> Schema:
    return Schema(
        iceberg.NestedField(1, "id", iceberg.LongType(), required=False),
        iceberg.NestedField(2, kind.name, kind.type, required=False),
        iceberg.NestedField(3, "w", iceberg.IntegerType(), required=False),
    )


def make_table(lake: Any, name: str, kind: Kind, words: Sequence[str], rows: pa.Table) -> Table:
    """Makes a table of files that each have rows of one partition, in two manifests."""
    schema = schema_of(kind)
    spec = build_spec(schema, words)
    table = lake.catalog.create_table(
        name, schema, partition_spec=spec, properties={"commit.manifest-merge.enabled": "false"}
    )
    place = f"{table.location()}/data"
    table.io.new_output(f"{place}/_").create().close()
    layout = build_layout(table.schema(), table.spec(), {}, lake.files, place)
    physical = schema_to_pyarrow(table.schema())
    made = []
    for number, few in enumerate(split(schema, spec, kind, rows)):
        path = f"{place}/{number}.parquet"
        fields = [
            pa.field(each.name, few.schema.field(each.name).type, metadata=each.metadata)
            for each in physical
        ]
        pq.write_table(few.cast(pa.schema(fields)), path.removeprefix("file://"))
        facts = read_facts(layout, path)
        assert not facts.problem, facts.problem
        made.append(build_data_file(facts, table.schema(), table.spec()))
    half = len(made) // 2
    for several in (made[:half], made[half:]):
        replace_files(lake.catalog.load_table(name), several, [], {})
    return lake.catalog.load_table(name)


def split(schema: Schema, spec: Any, kind: Kind, rows: pa.Table) -> list[pa.Table]:
    """Rows by partition, the smallest values first; without partition, a few at a time."""
    groups: dict[str, list[int]] = {}
    order = list(range(len(rows)))
    values = rows.column(kind.name)
    if spec.is_unpartitioned():
        # As texts they are in no order of theirs, but their neighbours are alike.
        plain = values.to_pylist() if kind.name not in ("ts", "local", "date") else numbers(values)
        known = sorted((each for each in order if plain[each] is not None), key=_key(plain))
        missing = [each for each in order if plain[each] is None]
        known += missing
        return [rows.take(known[first : first + 4]) for first in range(0, len(known), 4)]
    for each in order:
        found = values_of(schema, spec, [values.slice(each, 1)])
        groups.setdefault(repr(found), []).append(each)
    return [rows.take(several) for several in groups.values()]


def _key(plain: list[Any]) -> Any:
    return lambda each: (isinstance(plain[each], float) and math.isnan(plain[each]), plain[each])


def numbers(values: pa.ChunkedArray) -> list[Any]:
    wide = pa.int32() if pa.types.is_date(values.type) else pa.int64()
    return values.cast(wide).to_pylist()
