"""Partitions of every kind: files are left out by them, and readers in executors get them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from lochan.spark.read.arrow import arrow_frame
from lochan.spark.read.table_reader import plan_read
from tests.profile import counted
from tests.spark.row_values import rows

UTC = dt.UTC
EVENTS = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "at", TimestamptzType(), required=False),
    NestedField(3, "local", TimestampType(), required=False),
    NestedField(4, "day", DateType(), required=False),
    NestedField(5, "price", DecimalType(9, 2), required=False),
    NestedField(6, "name", StringType(), required=False),
    NestedField(7, "raw", BinaryType(), required=False),
)
RECORDS = [
    {
        "id": number,
        "at": dt.datetime(2024, 1 + number % 3, 1, 5, tzinfo=UTC),
        "local": dt.datetime(2024, 1, 1 + number % 2, 23, tzinfo=UTC).replace(tzinfo=None),
        "day": dt.date(1969, 12, 30 + number % 2),
        "price": Decimal(number % 4) / 4,
        "name": f"name {number % 3}",
        "raw": bytes([number % 2, 255]),
    }
    for number in range(12)
] + [dict.fromkeys(("id", "at", "local", "day", "price", "name", "raw"))]


@pytest.mark.parametrize(
    ("source", "transform", "where", "most"),
    [
        (1, "identity", "id = 3", 1),
        (1, "bucket[4]", "id = 3", 1),
        (1, "truncate[5]", "id < 5", 1),
        (2, "day", "at = '2024-02-01T05:00:00+00:00'", 1),
        (2, "month", "at >= '2024-03-01T00:00:00+00:00'", 1),
        (2, "hour", "at < '2024-01-15T00:00:00+00:00'", 1),
        (3, "identity", "local > '2024-01-02T00:00:00'", 1),
        (4, "identity", "day = '1969-12-31'", 1),
        (4, "year", "day = '1969-12-31'", 1),
        (5, "identity", "price = 0.25", 1),
        (5, "bucket[8]", "price = 0.25", 2),
        (6, "truncate[3]", "name = 'name 1'", 1),
        (7, "identity", "id = 3", 3),
        (6, "void", "name = 'name 1'", 1),
    ][:: counted(3, 1)],
)
def test_files_are_chosen_by_the_partition_and_read_with_it(lake, source, transform, where, most):
    spec = PartitionSpec(PartitionField(source, 1000, parse_transform(transform), "part"))
    table = lake.catalog.create_table("t.events", EVENTS, partition_spec=spec)
    table.append(pa.Table.from_pylist(RECORDS, EVENTS.as_arrow()))
    plan = plan_read(lake, "t.events", ref="main", where=where)
    assert 1 <= len(plan.tasks) <= most
    oracle = rows(table.scan(row_filter=where))
    assert oracle
    assert rows(lake.read("t.events", where=where)) == oracle
    whole = plan_read(lake, "t.events", ref="main")
    by_arrow = arrow_frame(lake, whole.table, whole.schema, whole.condition, whole.tasks)
    assert rows(by_arrow) == rows(table.scan())


def test_files_of_an_older_way_to_partition_are_read_too(lake):
    table = lake.catalog.create_table("t.events", EVENTS)
    table.append(pa.Table.from_pylist(RECORDS[:4], EVENTS.as_arrow()))
    with table.update_spec() as change:
        change.add_identity("name")
    table.append(pa.Table.from_pylist(RECORDS[4:], EVENTS.as_arrow()))
    with table.update_spec() as change:
        change.remove_field("name")
    table.append(pa.Table.from_pylist(RECORDS[:2], EVENTS.as_arrow()))
    assert rows(lake.read("t.events")) == rows(table.scan())
    where = "name = 'name 1'"
    assert rows(lake.read("t.events", where=where)) == rows(table.scan(row_filter=where))


@pytest.mark.parametrize("transform", ["identity", "bucket[4]", "void"][: counted(1, 3)])
def test_rows_are_found_by_uuids_that_are_partitions_too(lake, transform):
    schema = Schema(NestedField(1, "u", UUIDType()), NestedField(2, "id", LongType()))
    spec = PartitionSpec(PartitionField(1, 1000, parse_transform(transform), "part"))
    lake.catalog.create_table("t.keys", schema, partition_spec=spec)
    keys = [str(UUID(int=number << 64 | 7)) for number in range(5)]
    frame = lake.spark.createDataFrame(
        [(key, number) for number, key in enumerate(keys)], "u string, id long"
    )
    lake.write(frame, "t.keys")
    for where, ids in (
        (f"u = '{keys[3]}'", [3]),
        (f"u in ('{keys[1]}', '{keys[4]}')", [1, 4]),
        (f"u = '{keys[3]}' and id = 2", []),
        (f"u != '{keys[0]}' and id < 3", [1, 2]),
        ("u is not null and id = 4", [4]),
    ):
        assert sorted(row.id for row in lake.read("t.keys", where=where).collect()) == ids
    assert len(plan_read(lake, "t.keys", ref="main", where="id = 4").tasks) <= 2
