"""Input that means harm, too deep, too much or of the wrong kind: a sentence, never a crash."""

from __future__ import annotations

import pytest

from lochan.base.errors import Invalid, TooLarge
from lochan.base.limits import iceberg
from lochan.catalog.iceberg import (
    apply_updates,
    apply_view_updates,
    build_table,
    build_view,
    check_requirements,
    table_content,
)
from tests.catalog.iceberg.builders import (
    NOW,
    SCHEMA,
    UUID,
    changed,
    column,
    grown,
    schema,
    table,
)


def deep(levels, kind="list"):
    inner: object = "int"
    for number in range(levels, 0, -1):
        if kind == "list":
            inner = {
                "type": "list",
                "element-id": number + 1,
                "element-required": True,
                "element": inner,
            }
        else:
            inner = {"type": "struct", "fields": [column(number + 1, "x", inner)]}
    return schema(column(1, "a", inner))


@pytest.mark.parametrize("levels", [200, 100_000])
def test_a_schema_that_is_nested_without_end_is_refused(levels):
    with pytest.raises(Invalid, match="nested deeper"):
        changed(table(), {"action": "add-schema", "schema": deep(levels)})
    with pytest.raises(Invalid, match="nested deeper"):
        table(schema=deep(levels), spec=None)
    with pytest.raises(Invalid, match="nested deeper"):
        changed(
            {**table(), "schemas": [{**deep(levels), "schema-id": 0}]},
            {"action": "add-schema", "schema": SCHEMA},
        )


@pytest.mark.parametrize("kind", ["list", "struct"])
def test_a_schema_as_deep_as_may_be_is_taken(kind):
    levels = {"list": 120, "struct": 40}[kind]
    made = table(schema=deep(levels, kind), spec=None)
    assert made["last-column-id"] == levels + 1
    again = {"action": "add-schema", "schema": made["schemas"][0]}
    assert changed(made, again) == made


def test_unknown_fields_without_end_are_refused_too():
    endless: object = []
    for _ in range(100_000):
        endless = [endless]
    with pytest.raises(Invalid, match="nested deeper"):
        changed({**table(), "x-odd": endless}, {"action": "set-location", "location": "b"})
    with pytest.raises(Invalid, match="nested deeper"):
        changed(table(), {"action": "set-location", "location": "b", "x": endless})
    with pytest.raises(Invalid, match="nested deeper"):
        check_requirements(table(), [{"type": "assert-create", "x": endless}])
    version = {"representations": endless}
    with pytest.raises(Invalid, match="nested deeper"):
        build_view(
            uuid=UUID, location="l", schema=SCHEMA, version=version, properties={}, now_ms=NOW
        )


def test_data_that_holds_itself_is_refused():
    loop: list = []
    loop += [loop, loop, loop]
    with pytest.raises(Invalid):
        changed(table(), {"action": "set-location", "location": "b", "x": loop})


def test_requests_without_end_are_refused():
    many = [{"action": "set-location", "location": "b"}] * (iceberg.ICEBERG_REQUESTS_MAX + 1)
    with pytest.raises(TooLarge):
        apply_updates(table(), many, now_ms=NOW)
    with pytest.raises(TooLarge):
        check_requirements(None, [{"type": "assert-create"}] * len(many))


def test_long_names_above_many_columns_are_refused():
    inner = {"type": "struct", "fields": [column(n, str(n)) for n in range(10, 300)]}
    long = schema(column(1, "a" * 100_000, inner))
    with pytest.raises(TooLarge, match="names of columns"):
        changed(table(), {"action": "add-schema", "schema": long})


def test_columns_without_end_are_refused(monkeypatch):
    monkeypatch.setattr("lochan.catalog.iceberg.columns.ICEBERG_COLUMNS_MAX", 5)
    wide = schema(*(column(n, str(n)) for n in range(1, 7)))
    with pytest.raises(TooLarge, match="more than 5 columns"):
        changed(table(), {"action": "add-schema", "schema": wide})
    with pytest.raises(TooLarge, match="more than 5 columns"):
        table(schema=wide, spec=None)


def test_values_without_end_are_refused(monkeypatch):
    monkeypatch.setattr("lochan.catalog.iceberg.values.ICEBERG_VALUES_MAX", 100)
    with pytest.raises(TooLarge, match="more than 100 objects and lists"):
        changed(table(), {"action": "set-location", "location": "b", "x": [[]] * 101})


NOT_CURRENT = [
    {"format-version": None},
    {"format-version": 4},
    {"format-version": True},
    {"table-uuid": 5},
    {"last-column-id": None},
    {"last-partition-id": None},
    {"current-schema-id": None},
    {"default-spec-id": []},
    {"default-sort-order-id": "0"},
    {"current-snapshot-id": "1"},
    {"refs": []},
    {"refs": {"main": 1}},
    {"refs": {"main": {"snapshot-id": 9, "type": "branch"}}},
    {"refs": {"main": {"snapshot-id": 1, "type": "branch"}}, "current-snapshot-id": None},
    {5: 6},
]
NOT_SOUND = [
    {"location": None},
    {"last-updated-ms": "now"},
    {"last-sequence-number": -1},
    {"schemas": None},
    {"schemas": {}},
    {"schemas": [5]},
    {"schemas": [{"schema-id": "0"}]},
    {"schemas": []},
    {"current-schema-id": 9},
    {"partition-specs": [{"spec-id": 0}]},
    {"sort-orders": "none"},
    {"default-sort-order-id": 4},
    {"properties": []},
    {"properties": {"a": None}},
    {"snapshots": [{}]},
    {"snapshots": [{"snapshot-id": []}]},
    {"current-snapshot-id": 77, "refs": {}},
    {"refs": {"b": {"snapshot-id": 9, "type": "branch"}}},
    {"statistics": [{"snapshot-id": {}}]},
    {"snapshot-log": [{}]},
]


@pytest.mark.parametrize("broken", [*NOT_CURRENT, *NOT_SOUND])
def test_metadata_that_no_client_could_read_is_not_changed(broken):
    metadata = {**grown(table(), 1), **broken}
    with pytest.raises(Invalid):
        changed(metadata, {"action": "set-location", "location": "b"})


@pytest.mark.parametrize("broken", NOT_CURRENT)
def test_nothing_is_required_or_told_of_what_cannot_be_read(broken):
    metadata = {**grown(table(), 1), **broken}
    with pytest.raises(Invalid):
        check_requirements(metadata, [{"type": "assert-table-uuid", "uuid": UUID}])
    with pytest.raises(Invalid):
        table_content(metadata, "l", None)


@pytest.mark.parametrize("metadata", [5, "text", [], True, 1.5])
def test_metadata_that_is_no_object_is_refused(metadata):
    with pytest.raises(Invalid):
        apply_updates(metadata, [], now_ms=NOW)
    with pytest.raises(Invalid):
        apply_view_updates(metadata, [], now_ms=NOW)
    with pytest.raises(Invalid):
        check_requirements(metadata, [{"type": "assert-create"}])


@pytest.mark.parametrize("updates", [5, "text", {}, None, [5], [None], [[]]])
def test_updates_that_are_none_are_refused(updates):
    with pytest.raises(Invalid):
        apply_updates(table(), updates, now_ms=NOW)
    with pytest.raises(Invalid):
        apply_view_updates(None, updates, now_ms=NOW)


@pytest.mark.parametrize("now_ms", [-1, 2**63, "now", None, 1.5])
def test_a_time_that_is_none_is_refused(now_ms):
    with pytest.raises(Invalid):
        apply_updates(table(), [], now_ms=now_ms)


@pytest.mark.parametrize(
    "given",
    [
        {"uuid": None},
        {"uuid": 5},
        {"location": ""},
        {"schema": None},
        {"schema": []},
        {"schema": {"fields": 5}},
        {"spec": {"fields": [5]}},
        {"spec": 5},
        {"order": {"fields": [{}]}},
        {"properties": None},
        {"properties": {"a": 1}},
    ],
)
def test_a_new_table_of_the_wrong_things_is_refused(given):
    good = {"uuid": UUID, "location": "l", "schema": SCHEMA, "spec": None, "order": None}
    more = {"properties": {}, "format_version": 2, "now_ms": NOW}
    with pytest.raises(Invalid):
        build_table(**(good | more | given))


def test_a_sentence_never_shows_the_value():
    with pytest.raises(Invalid) as caught:
        changed(table(), {"action": "x" * 10_000_000})
    assert len(caught.value.message) < 300
    with pytest.raises(Invalid) as caught:
        changed(table(), {"action": "set-location", "location": ["secret" * 1_000]})
    assert "secret" not in caught.value.message
