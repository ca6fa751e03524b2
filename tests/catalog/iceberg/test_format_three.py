"""Format 3: rows that are counted, and one table from its first to its last commit, in full."""

from __future__ import annotations

import pytest

from lochan.base.errors import Invalid, RequirementFailed
from tests.catalog.iceberg.builders import (
    NOW,
    UUID,
    Json,
    adding,
    changed,
    column,
    grown,
    partition,
    pointing,
    schema,
    sorting,
    table,
)


def rows(first, added, **more):
    return {"first-row-id": first, "added-rows": added, **more}


def test_rows_are_counted_up():
    after = changed(table(3), adding(1, **rows(0, 7)))
    assert after["next-row-id"] == 7
    after = changed(after, adding(2, **rows(7, 0)))
    assert after["next-row-id"] == 7


def test_rows_that_were_left_out_are_never_given_again():
    assert changed(table(3), adding(1, **rows(100, 7)))["next-row-id"] == 107


def test_row_ids_that_somebody_else_has_are_a_conflict():
    with pytest.raises(RequirementFailed, match="first-row-id is behind table next-row-id: 9 < 10"):
        changed(grown(table(3), 1), adding(2, **rows(9, 5)))


@pytest.mark.parametrize(
    "more", [{}, {"first-row-id": 0}, rows(0, -1), rows(-1, 1), rows(2**62, 2**62), rows("0", 1)]
)
def test_a_snapshot_must_say_which_rows_are_its_own(more):
    with pytest.raises(Invalid):
        changed(table(3), adding(1, **more))


def test_a_table_that_does_not_know_its_next_row_is_refused():
    broken = {name: value for name, value in table(3).items() if name != "next-row-id"}
    with pytest.raises(Invalid, match="'next-row-id' is missing"):
        changed(broken, {"action": "set-location", "location": "s3://b"})


GOLDEN_SCHEMA = schema(
    column(11, "id", "uuid", required=True),
    column(12, "doc", "variant", **{"initial-default": None, "doc": "whatever it is"}),
    column(13, "at", "timestamptz_ns", **{"initial-default": "2020-01-01T00:00:00+00:00"}),
    column(14, "where", "geography(srid:4326, spherical)"),
    **{"schema-id": 4, "identifier-field-ids": [11]},
)

GOLDEN_COLUMNS = [
    {"id": 1, "name": "id", "required": True, "type": "uuid"},
    {
        "id": 2,
        "name": "doc",
        "required": False,
        "type": "variant",
        "initial-default": None,
        "doc": "whatever it is",
    },
    {
        "id": 3,
        "name": "at",
        "required": False,
        "type": "timestamptz_ns",
        "initial-default": "2020-01-01T00:00:00+00:00",
    },
    {"id": 4, "name": "where", "required": False, "type": "geography(srid:4326, spherical)"},
]

GOLDEN_SNAPSHOTS = [
    {
        "snapshot-id": 100,
        "sequence-number": 1,
        "timestamp-ms": NOW + 100,
        "manifest-list": "s3://lake/t/metadata/snap-100.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
        "first-row-id": 0,
        "added-rows": 25,
        "key-id": "k1",
    },
    {
        "snapshot-id": 101,
        "sequence-number": 2,
        "timestamp-ms": NOW + 101,
        "manifest-list": "s3://lake/t/metadata/snap-101.avro",
        "summary": {"operation": "append"},
        "schema-id": 1,
        "parent-snapshot-id": 100,
        "first-row-id": 25,
        "added-rows": 5,
    },
]

GOLDEN: Json = {
    "format-version": 3,
    "table-uuid": UUID,
    "location": "s3://lake/t",
    "last-sequence-number": 2,
    "last-updated-ms": NOW + 300,
    "last-column-id": 5,
    "current-schema-id": 1,
    "schemas": [
        {
            "type": "struct",
            "schema-id": 0,
            "identifier-field-ids": [1],
            "fields": GOLDEN_COLUMNS,
        },
        {
            "type": "struct",
            "schema-id": 1,
            "fields": [
                *GOLDEN_COLUMNS,
                {
                    "id": 5,
                    "name": "n",
                    "required": True,
                    "type": "int",
                    "initial-default": 7,
                    "write-default": 8,
                },
            ],
        },
    ],
    "default-spec-id": 1,
    "partition-specs": [
        {
            "spec-id": 0,
            "fields": [
                {"source-id": 3, "name": "at_day", "transform": "day", "field-id": 1000},
            ],
        },
        {
            "spec-id": 1,
            "fields": [
                {"source-id": 3, "name": "at_day", "transform": "day", "field-id": 1000},
                {"source-id": 1, "name": "id_b", "transform": "bucket[8]", "field-id": 1001},
            ],
        },
    ],
    "last-partition-id": 1001,
    "default-sort-order-id": 1,
    "sort-orders": [
        {
            "order-id": 1,
            "fields": [
                {
                    "source-id": 3,
                    "transform": "identity",
                    "direction": "asc",
                    "null-order": "nulls-first",
                }
            ],
        }
    ],
    "properties": {"gc.enabled": "false"},
    "current-snapshot-id": 101,
    "next-row-id": 30,
    "encryption-keys": [{"key-id": "k1", "encrypted-key-metadata": "c2VjcmV0"}],
    "refs": {
        "main": {"type": "branch", "snapshot-id": 101},
        "first": {"type": "tag", "snapshot-id": 100, "max-ref-age-ms": 5},
    },
    "snapshots": GOLDEN_SNAPSHOTS,
    "statistics": [],
    "partition-statistics": [],
    "snapshot-log": [
        {"timestamp-ms": NOW + 100, "snapshot-id": 100},
        {"timestamp-ms": NOW + 101, "snapshot-id": 101},
    ],
    "metadata-log": [
        {"timestamp-ms": NOW, "metadata-file": "s3://lake/t/metadata/0.json"},
        {"timestamp-ms": NOW + 200, "metadata-file": "s3://lake/t/metadata/1.json"},
    ],
}


def test_the_life_of_a_table_in_full():
    metadata = table(
        3,
        schema=GOLDEN_SCHEMA,
        spec={"spec-id": 3, "fields": [partition(13, "at_day", "day", **{"field-id": 1})]},
        order={"order-id": 5, "fields": [sorting(13)]},
        properties={},
    )
    metadata = changed(
        metadata,
        {
            "action": "add-encryption-key",
            "encryption-key": {"key-id": "k1", "encrypted-key-metadata": "c2VjcmV0"},
        },
        {"action": "add-snapshot", "snapshot": GOLDEN_SNAPSHOTS[0]},
        pointing(100),
        {"action": "set-properties", "updates": {"gc.enabled": "false", "passing": "1"}},
        now_ms=NOW + 200,
        previous_location="s3://lake/t/metadata/0.json",
    )
    metadata = changed(
        metadata,
        {"action": "add-schema", "schema": {**GOLDEN["schemas"][1], "schema-id": 0}},
        {"action": "set-current-schema", "schema-id": -1},
        {
            "action": "add-spec",
            "spec": {"fields": [partition(3, "at_day", "day"), partition(1, "id_b", "bucket[8]")]},
        },
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "set-snapshot-ref", "ref-name": "first", "type": "tag", "snapshot-id": 100}
        | {"max-ref-age-ms": 5},
        {"action": "add-snapshot", "snapshot": GOLDEN_SNAPSHOTS[1]},
        pointing(101),
        {"action": "remove-properties", "removals": ["passing"]},
        now_ms=NOW + 300,
        previous_location="s3://lake/t/metadata/1.json",
    )
    assert metadata == GOLDEN
