"""The values that a column may have, by the partition and bounds of a file or of a manifest.

Values are as manifests hold them: days and microseconds are numbers, so that no year is beyond a
calendar. Uuids are texts, as Spark shows them; bounds of them are not used, because writers do not
agree in which order uuids are. A bound that cannot be read restricts nothing.
"""

from __future__ import annotations

import math
import struct
import uuid
from datetime import date
from decimal import Context, Decimal
from typing import Any, Final

import msgspec
from pyiceberg import types as iceberg
from pyiceberg.manifest import DataFile, ManifestFile, PartitionFieldSummary
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)

from lochan.spark.read.filters import Domain, Domains
from lochan.spark.write.bounds import upper_of_bytes, upper_of_text

DAY_MICROS: Final = 86_400_000_000
_HOUR_MICROS: Final = 3_600_000_000
_SECOND_MICROS: Final = 1_000_000
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_MONTHS: Final = 12
# Days of 400 years, after which the calendar repeats itself.
_ERA_YEARS: Final = 400
_ERA_DAYS: Final = 146_097
EXACT: Final = Context(prec=100)
FLOATS: Final = (iceberg.FloatType, iceberg.DoubleType)
_INSTANTS: Final = (iceberg.TimestampType, iceberg.TimestamptzType)
_WHOLE: Final = {iceberg.IntegerType: 31, iceberg.LongType: 63}
_NOTHING_BUT_NULL: Final = Domain(is_empty=True, may_be_nan=False)
_PERIODS: Final = (YearTransform, MonthTransform, DayTransform, HourTransform)


class _Part(msgspec.Struct, frozen=True):
    """A field of a spec, where it is, and the type of its values."""

    position: int
    transform: Transform[Any, Any]
    source: iceberg.PrimitiveType
    result: iceberg.IcebergType


class SpecParts:
    """The domains of columns by the partitions of one spec."""

    def __init__(self, schema: Schema, spec: PartitionSpec) -> None:
        self._by_source: dict[int, list[_Part]] = {}
        for position, field in enumerate(spec.fields):
            part = _part(schema, field, position)
            if part is not None:
                self._by_source.setdefault(field.source_id, []).append(part)

    def of_partition(self, partition: Any, field_id: int, domain: Domain) -> Domain:
        """Returns a domain, narrowed by the partition of a file."""
        for part in self._by_source.get(field_id, ()):
            domain = domain.within(_of_value(part, partition[part.position]))
        return domain

    def of_summaries(self, summaries: list[PartitionFieldSummary], field_id: int) -> Domain:
        """Returns the domain of a field by the summaries of a manifest."""
        domain = Domain()
        for part in self._by_source.get(field_id, ()):
            if part.position < len(summaries):
                domain = domain.within(_of_summary(part, summaries[part.position]))
        return domain


def _part(schema: Schema, field: PartitionField, position: int) -> _Part | None:
    if isinstance(field.transform, VoidTransform) or field.source_id not in schema.field_ids:
        return None
    source = schema.find_type(field.source_id)
    if not isinstance(source, iceberg.PrimitiveType):
        return None
    try:
        result = field.transform.result_type(source)
    except (ValueError, NotImplementedError):
        return None
    return _Part(position, field.transform, source, result)


def domains_of_file(schema: Schema, parts: SpecParts, file: DataFile) -> Domains:
    """Returns a function that returns the domain of a field in a file."""
    top = {field.field_id for field in schema.fields}
    known: dict[int, Domain] = {}

    def domain_of(field_id: int) -> Domain:
        if field_id not in known:
            counted = _of_bounds(schema.find_type(field_id), field_id, file, field_id in top)
            known[field_id] = parts.of_partition(file.partition, field_id, counted)
        return known[field_id]

    return domain_of


def domains_of_partition(schema: Schema, parts: SpecParts, file: DataFile) -> Domains:
    """Returns the domains by the partition alone, for files of deletes."""
    return lambda field_id: parts.of_partition(
        file.partition, field_id, _unbounded(schema.find_type(field_id))
    )


def domains_of_manifest(schema: Schema, parts: SpecParts, manifest: ManifestFile) -> Domains:
    """Returns the domains of columns in all files of a manifest."""
    summaries = list(manifest.partitions or ())
    return lambda field_id: parts.of_summaries(summaries, field_id).within(
        _unbounded(schema.find_type(field_id))
    )


def _unbounded(kind: iceberg.IcebergType) -> Domain:
    return Domain(may_be_nan=isinstance(kind, FLOATS))


def _of_bounds(
    kind: iceberg.IcebergType, field_id: int, file: DataFile, is_top_level: bool
) -> Domain:
    nulls = (file.null_value_counts or {}).get(field_id)
    values = (file.value_counts or {}).get(field_id)
    if nulls is not None and values is not None and nulls >= values > 0:
        return _NOTHING_BUT_NULL
    low = value_of(kind, (file.lower_bounds or {}).get(field_id))
    high = value_of(kind, (file.upper_bounds or {}).get(field_id))
    if low is not None and high is not None and low > high:
        low = high = None
    is_float = isinstance(kind, FLOATS)
    return Domain(
        low,
        high,
        # A field of a struct that is NULL is NULL, whether or not the writer has counted it.
        may_be_null=nulls != 0 or not is_top_level,
        may_be_nan=is_float and (file.nan_value_counts or {}).get(field_id) != 0,
    )


def value_of(kind: iceberg.IcebergType, raw: bytes | None) -> Any:
    """Returns a bound as it is compared, None if it restricts nothing.

    Bounds of columns that were widened since are as short as they were.
    """
    if raw is None:
        return None
    match kind:
        case iceberg.BooleanType() if len(raw) == 1:
            return raw != b"\0"
        case iceberg.IntegerType() | iceberg.DateType() if len(raw) == 4:
            return int.from_bytes(raw, "little", signed=True)
        case iceberg.LongType() if len(raw) in (4, 8):
            return int.from_bytes(raw, "little", signed=True)
        case iceberg.TimestampType() | iceberg.TimestamptzType() if len(raw) == 8:
            return int.from_bytes(raw, "little", signed=True)
        case iceberg.FloatType() | iceberg.DoubleType():
            return _float(raw)
        case iceberg.DecimalType():
            unscaled = Decimal(int.from_bytes(raw, "big", signed=True))
            return unscaled.scaleb(-kind.scale, EXACT)
        case iceberg.StringType():
            try:
                return raw.decode()
            except UnicodeDecodeError:
                return None
        case iceberg.BinaryType() | iceberg.FixedType():
            return bytes(raw)
        case _:
            return None


def _float(raw: bytes) -> float | None:
    form = {4: "<f", 8: "<d"}.get(len(raw))
    if form is None:
        return None
    value: float = struct.unpack(form, raw)[0]
    return None if math.isnan(value) else value


def _of_value(part: _Part, value: Any) -> Domain:
    if value is None:
        # Only NULL is in the partition NULL, of every transform.
        return _NOTHING_BUT_NULL
    if isinstance(part.transform, BucketTransform):
        function = part.transform.transform(part.source)
        return Domain(may_be_null=False, buckets=((function, value),))
    if isinstance(part.transform, IdentityTransform) and isinstance(value, float):
        if math.isnan(value):
            return Domain(is_empty=True, may_be_null=False)
        return Domain(value, value, may_be_null=False, may_be_nan=False)
    held = str(uuid_of(value)) if isinstance(part.source, iceberg.UUIDType) else value
    return _of_range(part, held, held, may_be_null=False)


def uuid_of(value: Any) -> uuid.UUID:
    """Returns a uuid that may be given as its bytes."""
    return value if isinstance(value, uuid.UUID) else uuid.UUID(bytes=bytes(value))


def _of_summary(part: _Part, summary: PartitionFieldSummary) -> Domain:
    low, high = (value_of(part.result, each) for each in (summary.lower_bound, summary.upper_bound))
    may_be_nan = summary.contains_nan is not False
    if low is None or high is None or isinstance(part.transform, BucketTransform):
        return Domain(may_be_null=summary.contains_null, may_be_nan=may_be_nan)
    found = _of_range(part, low, high, may_be_null=summary.contains_null)
    return msgspec.structs.replace(found, may_be_nan=may_be_nan)


def _of_range(part: _Part, low: Any, high: Any, *, may_be_null: bool) -> Domain:
    """Returns the domain of values whose partitions lie between two."""
    transform, source = part.transform, part.source
    first, last = None, None
    if isinstance(transform, IdentityTransform):
        first, last = low, high
    elif isinstance(transform, TruncateTransform):
        first, last = _untruncated(source, transform.width, low, high)
    elif isinstance(transform, _PERIODS) and isinstance(low, int) and isinstance(high, int):
        first, last = _of_periods(source, transform, low, high)
    is_float = isinstance(source, FLOATS)
    return Domain(first, last, may_be_null=may_be_null, may_be_nan=is_float)


def _untruncated(source: iceberg.PrimitiveType, width: int, low: Any, high: Any) -> tuple[Any, Any]:
    match source:
        case iceberg.IntegerType() | iceberg.LongType():
            beyond = 1 << _WHOLE[type(source)]
            # Below the smallest number truncation overflows, to what is no multiple.
            if low % width or high % width or high + width > beyond:
                return None, None
            return low, high + width - 1
        case iceberg.DecimalType():
            step = Decimal(width - 1).scaleb(-source.scale, EXACT)
            return low, EXACT.add(high, step)
        case iceberg.StringType():
            return low, upper_of_text(high + "\0", len(high))
        case iceberg.BinaryType():
            return bytes(low), upper_of_bytes(bytes(high) + b"\0", len(high))
        case _:
            return None, None


def _of_periods(
    source: iceberg.PrimitiveType, transform: Transform[Any, Any], low: int, high: int
) -> tuple[Any, Any]:
    """Returns the first and the last moment of years, months, days or hours since 1970.

    Before 1970 some writers have rounded up, and some take the last second of a day for the next.
    """
    if low <= 0:
        low -= 1
    if isinstance(source, iceberg.DateType):
        return _first_day(transform, low), _first_day(transform, high + 1) - 1
    if not isinstance(source, _INSTANTS):
        return None, None
    if isinstance(transform, HourTransform):
        return low * _HOUR_MICROS - _SECOND_MICROS, (high + 1) * _HOUR_MICROS - 1
    first, after = _first_day(transform, low), _first_day(transform, high + 1)
    return first * DAY_MICROS - _SECOND_MICROS, after * DAY_MICROS - 1


def _first_day(transform: Transform[Any, Any], number: int) -> int:
    if isinstance(transform, DayTransform):
        return number
    if isinstance(transform, YearTransform):
        return day_of(1970 + number, 1)
    return day_of(1970 + number // _MONTHS, number % _MONTHS + 1)


def day_of(year: int, month: int, day: int = 1) -> int:
    """Returns days since 1970, for any year of the proleptic Gregorian calendar."""
    eras, within = divmod(year - 1, _ERA_YEARS)
    return date(within + 1, month, day).toordinal() - _EPOCH_DAY + eras * _ERA_DAYS
