"""New tables: ids given anew in the order of the reference, in each format what it needs."""

from __future__ import annotations

import pytest

from lochan.base.errors import Invalid
from lochan.catalog.iceberg import table_content
from tests.catalog.iceberg.builders import (
    NOW,
    SCHEMA,
    UUID,
    Json,
    changed,
    column,
    grown,
    partition,
    schema,
    sorting,
    table,
)

NESTED = schema(
    column(70, "key", required=True),
    column(
        71,
        "place",
        {
            "type": "struct",
            "fields": [column(80, "lat", "double"), column(81, "town", "string")],
        },
    ),
    column(
        72,
        "tags",
        {
            "type": "map",
            "key-id": 90,
            "key": "string",
            "value-id": 91,
            "value-required": False,
            "value": {
                "type": "list",
                "element-id": 92,
                "element-required": True,
                "element": {"type": "struct", "fields": [column(93, "v", "int")]},
            },
        },
    ),
    column(73, "last", "date"),
    **{"identifier-field-ids": [70]},
)


def test_ids_count_level_by_level_and_depth_first():
    made = table(schema=NESTED, spec=None)
    key, place, tags, last = made["schemas"][0]["fields"]
    assert [key["id"], place["id"], tags["id"], last["id"]] == [1, 2, 3, 4]
    assert [each["id"] for each in place["type"]["fields"]] == [5, 6]
    assert (tags["type"]["key-id"], tags["type"]["value-id"]) == (7, 8)
    assert tags["type"]["value"]["element-id"] == 9
    assert tags["type"]["value"]["element"]["fields"][0]["id"] == 10
    assert made["last-column-id"] == 10
    assert made["schemas"][0]["identifier-field-ids"] == [1]


def test_partition_and_sort_fields_follow_their_columns():
    made = table(
        schema=NESTED,
        spec={
            "spec-id": 9,
            "fields": [partition(81, "town", **{"field-id": 7}), partition(73, "d", "day")],
        },
        order={"order-id": 9, "fields": [sorting(80), sorting(70, transform="bucket[4]")]},
    )
    assert made["partition-specs"] == [
        {
            "spec-id": 0,
            "fields": [
                {"source-id": 6, "name": "town", "transform": "identity", "field-id": 1000},
                {"source-id": 4, "name": "d", "transform": "day", "field-id": 1001},
            ],
        }
    ]
    assert made["last-partition-id"] == 1001
    assert [each["source-id"] for each in made["sort-orders"][0]["fields"]] == [5, 1]
    assert made["sort-orders"][0]["order-id"] == made["default-sort-order-id"] == 1


def test_a_plain_table_is_neither_partitioned_nor_sorted():
    made = table(spec=None, order=None)
    assert made["partition-specs"] == [{"spec-id": 0, "fields": []}]
    assert made["last-partition-id"] == 999
    assert made["sort-orders"] == [{"order-id": 0, "fields": []}]
    assert made["default-sort-order-id"] == 0


def test_format_one_writes_what_old_readers_look_for():
    made = table(1)
    assert made["schema"] == made["schemas"][0]
    assert made["partition-spec"] == made["partition-specs"][0]["fields"]
    assert made["current-snapshot-id"] == -1
    assert "last-sequence-number" not in made
    assert "next-row-id" not in made


def test_format_two_counts_commits():
    made = table(2)
    assert made["last-sequence-number"] == 0
    assert made["current-snapshot-id"] == -1
    assert not {"schema", "partition-spec", "next-row-id"} & made.keys()


def test_format_three_counts_rows():
    made = table(3)
    assert (made["next-row-id"], made["last-sequence-number"]) == (0, 0)
    assert made["current-snapshot-id"] is None


def test_words_that_are_written_elsewhere_are_no_properties():
    made = table(properties={"owner": "us", "format-version": "2", "uuid": "x"})
    assert made["properties"] == {"owner": "us"}


@pytest.mark.parametrize("version", [0, 4, True, "2", None])
def test_other_formats_are_refused(version):
    with pytest.raises(Invalid, match="Unsupported format version"):
        table(version)


def test_ids_may_be_missing_where_nobody_names_them():
    bare = schema(*({"name": name, "required": False, "type": "int"} for name in "abc"))
    made = table(schema=bare, spec=None)
    assert [each["id"] for each in made["schemas"][0]["fields"]] == [1, 2, 3]


def test_a_partition_field_of_an_ambiguous_column_is_refused():
    twice = schema(column(-1, "a"), column(-1, "b"))
    assert table(schema=twice, spec=None)["last-column-id"] == 2
    with pytest.raises(Invalid, match="several columns have the id -1"):
        table(schema=twice, spec={"fields": [partition(-1, "a")]})
    with pytest.raises(Invalid, match="no column has the id 5"):
        table(schema=twice, spec={"fields": [partition(5, "a")]})


@pytest.mark.parametrize(
    ("kind", "version"), [("variant", 2), ("timestamp_ns", 1), ("geometry(srid:3857)", 2)]
)
def test_types_of_format_three_are_refused_before_it(kind, version):
    with pytest.raises(Invalid, match="is not supported until v3"):
        table(version, schema=schema(column(1, "a", kind)), spec=None)
    made = table(3, schema=schema(column(1, "a", kind)), spec=None)
    assert made["schemas"][0]["fields"][0]["type"] == kind


def test_default_values_of_format_three_stay_as_they_are():
    with_default = column(1, "a", "int", **{"initial-default": 5, "write-default": 6})
    assert (
        table(3, schema=schema(with_default), spec=None)["schemas"][0]["fields"][0] == with_default
    )
    with pytest.raises(Invalid, match="initial default for a"):
        table(2, schema=schema(with_default), spec=None)


def test_types_and_fields_that_nobody_knows_stay():
    odd = column(1, "a", {"type": "tensor", "shape": [3, 3]}, **{"x-unit": "m"})
    made = table(schema=schema(odd, column(2, "b", "quaternion"), **{"x-more": 1}), spec=None)
    assert made["schemas"][0]["fields"][0] == odd
    assert made["schemas"][0]["fields"][1]["type"] == "quaternion"
    assert made["schemas"][0]["x-more"] == 1


def test_the_schema_that_came_in_stays_as_it_was():
    before = repr(NESTED)
    table(schema=NESTED, spec={"fields": [partition(81, "town")]})
    assert repr(NESTED) == before


def test_a_create_transaction_makes_the_same_table():
    made = table(2)
    created = changed(
        None,
        {"action": "assign-uuid", "uuid": UUID},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": SCHEMA},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": made["partition-specs"][0]},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": "s3://lake/t"},
        {"action": "set-properties", "updates": {"owner": "us"}},
        now_ms=NOW,
    )
    assert created == made


def test_a_create_transaction_may_leave_out_the_spec_and_the_order():
    created = changed(
        None,
        {"action": "assign-uuid", "uuid": UUID},
        {"action": "upgrade-format-version", "format-version": 3},
        {"action": "set-location", "location": "s3://lake/t"},
        {"action": "add-schema", "schema": SCHEMA},
    )
    assert created["format-version"] == 3
    assert created["partition-specs"] == [{"spec-id": 0, "fields": []}]
    assert created["sort-orders"] == [{"order-id": 0, "fields": []}]


@pytest.mark.parametrize("left_out", ["assign-uuid", "set-location", "add-schema"])
def test_a_create_transaction_without_the_needful_is_refused(left_out):
    updates: list[Json] = [
        {"action": "assign-uuid", "uuid": UUID},
        {"action": "set-location", "location": "s3://lake/t"},
        {"action": "add-schema", "schema": SCHEMA},
    ]
    changed(None, *updates)
    with pytest.raises(Invalid, match="a new table"):
        changed(None, *(each for each in updates if each["action"] != left_out))


def test_the_content_of_a_table_names_what_is_current():
    content = table_content(table(), "s3://lake/t/1.json", "7")
    assert (content.id, content.metadata_location) == ("7", "s3://lake/t/1.json")
    assert (content.snapshot_id, content.schema_id) == (-1, 0)
    content = table_content(grown(table(order={"fields": [sorting(1)]}), 5), "l", None)
    assert (content.snapshot_id, content.spec_id, content.sort_order_id) == (5, 0, 1)
