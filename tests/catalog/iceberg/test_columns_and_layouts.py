"""Schemas, partition specs and sort orders: found again, numbered anew, chosen, removed."""

from __future__ import annotations

import pytest

from lochan.base.errors import Invalid
from tests.catalog.iceberg.builders import (
    SCHEMA,
    changed,
    column,
    ids,
    partition,
    schema,
    sorting,
    table,
)

WIDER = schema(*SCHEMA["fields"], column(4, "more", "string"), **{"schema-id": 0})


def add_schema(given, **more):
    return {"action": "add-schema", "schema": given, **more}


def set_schema(number):
    return {"action": "set-current-schema", "schema-id": number}


def add_spec(*fields, **more):
    return {"action": "add-spec", "spec": {"spec-id": 0, "fields": list(fields), **more}}


def set_spec(number):
    return {"action": "set-default-spec", "spec-id": number}


def add_order(*fields, **more):
    return {
        "action": "add-sort-order",
        "sort-order": {"order-id": 1, "fields": list(fields), **more},
    }


def set_order(number):
    return {"action": "set-default-sort-order", "sort-order-id": number}


# Schemas


def test_a_new_schema_gets_the_next_id_whatever_its_own_was():
    after = changed(table(), add_schema(WIDER), set_schema(-1))
    assert ids(after, "schemas", "schema-id") == [0, 1]
    assert after["current-schema-id"] == 1
    assert after["last-column-id"] == 4


def test_a_schema_that_is_there_is_found_again():
    before = changed(table(), add_schema(WIDER), set_schema(-1))
    again = schema(
        *({**each, "doc": None} for each in WIDER["fields"]),
        **{"schema-id": 77, "identifier-field-ids": []},
    )
    after = changed(before, add_schema(again), set_schema(-1))
    assert after == before
    assert changed(before, add_schema(SCHEMA), set_schema(-1))["current-schema-id"] == 0


@pytest.mark.parametrize(
    "other",
    [
        schema(*SCHEMA["fields"][:2], column(3, "name", "string", doc="who")),
        schema(*SCHEMA["fields"][:2], column(3, "called", "string")),
        schema(*SCHEMA["fields"][:2], column(3, "name", "binary")),
        schema(*SCHEMA["fields"][:2], column(3, "name", "string", required=True)),
        schema(SCHEMA["fields"][0], SCHEMA["fields"][2], SCHEMA["fields"][1]),
        schema(*SCHEMA["fields"], **{"identifier-field-ids": [1]}),
        schema(*SCHEMA["fields"], **{"x-more": 1}),
    ],
)
def test_a_schema_that_differs_in_anything_is_another_one(other):
    after = changed(table(), add_schema(other))
    assert ids(after, "schemas", "schema-id") == [0, 1]


def test_spaces_in_a_type_make_no_other_schema():
    one = table(schema=schema(column(1, "a", "decimal(9, 2)")), spec=None)
    assert changed(one, add_schema(schema(column(1, "a", "decimal(9,2)")))) == one


def test_nested_columns_are_compared_too():
    def nested(kind):
        inner = {"type": "list", "element-id": 2, "element-required": True, "element": kind}
        return schema(column(1, "a", inner))

    one = table(schema=nested("int"), spec=None)
    assert changed(one, add_schema(nested("int"))) == one
    assert ids(changed(one, add_schema(nested("long"))), "schemas", "schema-id") == [0, 1]


def test_minus_one_is_the_schema_added_last():
    third = schema(*WIDER["fields"], column(5, "most"))
    after = changed(table(), add_schema(third), add_schema(WIDER), set_schema(-1))
    assert after["current-schema-id"] == 2
    assert after["last-column-id"] == 5
    with pytest.raises(Invalid, match="none was added"):
        changed(table(), set_schema(-1))


def test_the_last_column_id_never_goes_back():
    wide = changed(table(), add_schema(WIDER))
    assert changed(wide, add_schema(schema(column(1, "id"))))["last-column-id"] == 4


def test_a_schema_that_is_not_there_cannot_be_current():
    with pytest.raises(Invalid, match="unknown schema: 7"):
        changed(table(), set_schema(7))


def test_schemas_are_removed_but_not_the_current_one():
    before = changed(table(), add_schema(WIDER))
    after = changed(before, {"action": "remove-schemas", "schema-ids": [1, 99]})
    assert ids(after, "schemas", "schema-id") == [0]
    with pytest.raises(Invalid, match="Cannot remove the current schema"):
        changed(before, {"action": "remove-schemas", "schema-ids": [1, 0]})


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (schema(column(1, "a"), column(1, "b")), "two columns have the id 1"),
        (schema(column(1, "a"), column(2, "a")), "two columns have the name 'a'"),
        (schema(column(-4, "a")), "out of range"),
        (schema(column(2_147_483_500, "a")), "out of range"),
        (schema(column(1, "")), "'name' is empty"),
        (schema(column(1, "a", 5)), "must be a name or an object"),
        (schema(column(1, "a", {"type": "list"})), "must be a name or an object"),
        (schema(column(1, "a"), **{"identifier-field-ids": [9]}), "does not exist"),
        (schema(column(1, "a"), **{"identifier-field-ids": [1]}), "not a required field"),
        (
            schema(column(1, "a", "double", required=True), **{"identifier-field-ids": [1]}),
            "must not be float or double",
        ),
        ({"type": "list", "fields": []}, "must be of type 'struct'"),
        ({"type": "struct"}, "'fields' is missing"),
    ],
)
def test_a_schema_that_no_client_could_read_is_refused(given, sentence):
    with pytest.raises(Invalid, match=sentence):
        changed(table(), add_schema(given))


@pytest.mark.parametrize(
    ("outer", "sentence"),
    [
        (
            {"type": "struct", "fields": [column(2, "b", required=True)]},
            "nested in an optional field",
        ),
        (
            {"type": "list", "element-id": 2, "element": "int", "element-required": True},
            "nested in a list or a map",
        ),
    ],
)
def test_an_identifier_must_be_there_in_every_row(outer, sentence):
    given = schema(column(1, "a", outer), **{"identifier-field-ids": [2]})
    with pytest.raises(Invalid, match=sentence):
        changed(table(), add_schema(given))


# Partition specs


def test_a_new_spec_gets_the_next_id_and_its_new_fields_the_next_ids():
    after = changed(table(), add_spec(partition(1, "id_b", "bucket[4]"), partition(2, "d", "day")))
    added = after["partition-specs"][1]
    assert added["spec-id"] == 1
    # The day of the same column has the id that it has in the other spec.
    assert [each["field-id"] for each in added["fields"]] == [1001, 1000]
    assert after["last-partition-id"] == 1001


def test_the_last_partition_id_never_goes_back():
    assert changed(table(), add_spec())["last-partition-id"] == 1000
    wide = changed(table(), add_spec(partition(1, "id_b", "bucket[4]", **{"field-id": 1009})))
    after = changed(wide, add_spec(partition(3, "n", **{"field-id": 1004})))
    assert after["last-partition-id"] == 1009


def test_ids_of_fields_that_came_with_them_stay():
    after = changed(table(), add_spec(partition(3, "n", **{"field-id": 1007})), set_spec(-1))
    assert after["partition-specs"][1]["fields"][0]["field-id"] == 1007
    assert (after["last-partition-id"], after["default-spec-id"]) == (1007, 1)


def test_a_spec_that_partitions_in_the_same_way_is_found_again():
    before = changed(table(), add_spec(), set_spec(-1))
    again = partition(2, "at_day", "DAY", **{"field-id": 5000})
    after = changed(before, add_spec(again, **{"spec-id": 7}), set_spec(-1))
    assert after["default-spec-id"] == 0
    assert after["partition-specs"] == before["partition-specs"]


def test_minus_one_is_the_spec_added_last():
    with pytest.raises(Invalid, match="none was added"):
        changed(table(), set_spec(-1))
    with pytest.raises(Invalid, match="unknown spec: 7"):
        changed(table(), set_spec(7))


def test_specs_are_removed_but_not_the_default_one():
    before = changed(table(), add_spec())
    after = changed(before, {"action": "remove-partition-specs", "spec-ids": [1, 99]})
    assert ids(after, "partition-specs", "spec-id") == [0]
    with pytest.raises(Invalid, match="Cannot remove the default partition spec"):
        changed(before, {"action": "remove-partition-specs", "spec-ids": [0]})


def test_the_first_format_wants_ids_that_count_up_in_each_spec():
    one = table(1)
    after = changed(one, add_spec(partition(2, "at_day", "void"), partition(1, "id")))
    assert [each["field-id"] for each in after["partition-specs"][1]["fields"]] == [1000, 1001]
    with pytest.raises(Invalid, match="sequential IDs that are required in v1"):
        changed(one, add_spec(partition(1, "id", **{"field-id": 1001})))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ([partition(9, "x")], "Cannot find source column for partition field: 9"),
        ([partition(3, "x", "day")], "Invalid source type string for transform: day"),
        ([partition(1, "x", "hour")], "Invalid source type long for transform: hour"),
        ([partition(1, "x", "bucket[0]")], "must be between 1 and"),
        ([partition(1, "x"), partition(2, "x")], "more than once: x"),
        ([partition(1, "name")], "sourced from different field in schema: name"),
        ([partition(1, "")], "'name' is empty"),
        ([{"name": "x", "transform": "identity"}], "'source-id' is missing"),
        ([{"name": "x", "transform": "identity", "source-ids": []}], "'source-ids' is empty"),
        ([{"name": "x", "source-id": 1}], "'transform' is missing"),
        (
            [partition(1, "x", **{"field-id": 1009}), partition(3, "y", **{"field-id": 1009})],
            "two partition fields have the same id",
        ),
        ([partition(1, "x", **{"field-id": -3})], "cannot be the id of a partition field"),
    ],
)
def test_a_spec_that_cannot_be_made_of_the_columns_is_refused(fields, sentence):
    with pytest.raises(Invalid, match=sentence):
        changed(table(), add_spec(*fields))


def test_a_partition_field_may_not_come_from_a_list_or_an_object():
    inner = {"type": "list", "element-id": 2, "element-required": True, "element": "int"}
    one = table(schema=schema(column(1, "a", inner)), spec=None)
    with pytest.raises(Invalid, match="Invalid partition field parent"):
        changed(one, add_spec(partition(2, "x")))
    with pytest.raises(Invalid, match="non-primitive"):
        changed(one, add_spec(partition(1, "x")))


def test_transforms_that_nobody_knows_are_left_to_those_who_do():
    after = changed(table(3), add_spec({**partition(1, "z", "zorder"), "source-ids": [1, 2]}))
    assert after["partition-specs"][1]["fields"][0]["transform"] == "zorder"
    several = {"name": "z2", "transform": "zorder[4]", "source-ids": [1, 2]}
    assert changed(after, add_spec(several))["partition-specs"][2]["fields"][0]["source-ids"] == [
        1,
        2,
    ]


def test_the_columns_of_the_default_spec_cannot_go():
    with pytest.raises(Invalid, match="Cannot find source column for partition field: 2"):
        changed(table(), add_schema(schema(SCHEMA["fields"][0])), set_schema(-1))
    # One that is not in use any more does not hold its columns.
    after = changed(
        table(),
        add_spec(),
        set_spec(-1),
        add_schema(schema(SCHEMA["fields"][0])),
        set_schema(-1),
    )
    assert after["current-schema-id"] == 1


def test_a_new_column_cannot_be_called_like_a_partition_field():
    clash = schema(*SCHEMA["fields"], column(4, "at_day"))
    with pytest.raises(Invalid, match="different field in schema: at_day"):
        changed(table(), add_schema(clash), set_schema(-1))


# Sort orders


def test_a_new_order_gets_the_next_id_even_if_its_own_is_taken():
    before = changed(table(), add_order(sorting(1)), set_order(-1))
    after = changed(before, add_order(sorting(3)), set_order(-1))
    assert ids(after, "sort-orders", "order-id") == [0, 1, 2]
    assert after["default-sort-order-id"] == 2


def test_an_order_that_sorts_in_the_same_way_is_found_again():
    before = changed(table(), add_order(sorting(1)), add_order(sorting(3)), set_order(-1))
    after = changed(
        before, add_order(sorting(1, direction="ASC"), **{"order-id": 9}), set_order(-1)
    )
    assert after["sort-orders"] == before["sort-orders"]
    assert after["default-sort-order-id"] == 1


def test_no_order_is_always_zero():
    before = changed(table(), add_order(sorting(1)), set_order(-1))
    after = changed(before, add_order(**{"order-id": 5}), set_order(-1))
    assert after["default-sort-order-id"] == 0
    del before["sort-orders"][0]
    assert ids(changed(before, add_order()), "sort-orders", "order-id") == [1, 0]


@pytest.mark.parametrize(
    ("update", "sentence"),
    [
        (add_order(sorting(9)), "Cannot find source column for sort field: 9"),
        (add_order(sorting(3, transform="year")), "Invalid source type string"),
        (add_order(sorting(1, direction="up")), "must be one of asc, desc"),
        (add_order(sorting(1, **{"null-order": "nowhere"})), "must be one of nulls-first"),
        (set_order(-1), "none was added"),
        (set_order(7), "unknown sort order: 7"),
    ],
)
def test_an_order_that_cannot_be_is_refused(update, sentence):
    with pytest.raises(Invalid, match=sentence):
        changed(table(), update)


def test_the_columns_of_the_default_order_cannot_go():
    before = changed(table(spec=None), add_order(sorting(3)), set_order(-1))
    with pytest.raises(Invalid, match="Cannot find source column for sort field: 3"):
        changed(before, add_schema(schema(*SCHEMA["fields"][:2])), set_schema(-1))


def test_the_first_format_keeps_its_old_fields_in_step():
    after = changed(
        table(1), add_schema(WIDER), set_schema(-1), add_spec(partition(1, "id")), set_spec(-1)
    )
    assert after["schema"] == after["schemas"][1]
    assert after["partition-spec"] == [{**partition(1, "id"), "field-id": 1000}]
