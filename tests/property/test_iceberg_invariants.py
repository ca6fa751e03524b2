"""Whatever is asked of the Iceberg engine: nothing given is changed, nothing unknown is lost,
nothing runs backwards, and hostile input gets a sentence."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from lochan.base.errors import Conflict, Invalid
from lochan.catalog.iceberg import (
    apply_updates,
    apply_view_updates,
    build_table,
    build_view,
    check_requirements,
    check_view_requirements,
    table_content,
    view_content,
)
from lochan.catalog.iceberg.requirements import REQUIREMENTS
from lochan.catalog.iceberg.tables import UPDATES
from lochan.catalog.iceberg.views import VIEW_UPDATES
from tests.catalog.iceberg import strategies
from tests.catalog.iceberg.builders import NOW, SCHEMA, UUID, Json, table

ALL_MOVES = [*strategies.MOVES, strategies.move_encrypt]
ELEMENTS = {
    "schemas": "schema-id",
    "partition-specs": "spec-id",
    "sort-orders": "order-id",
    "snapshots": "snapshot-id",
}
RISING = ["format-version", "last-updated-ms", "last-column-id", "last-partition-id"]
RISING += ["last-sequence-number", "next-row-id"]


def oddly(draw, updates: list[Json]) -> list[Json]:
    """The same updates, with a field that nobody knows in all that they bring along."""
    for each in updates:
        for name in ("schema", "spec", "sort-order", "snapshot", "statistics", "encryption-key"):
            if name in each:
                each[name] = {**each[name], "x-odd": draw(strategies.ODD)}
        for field in each.get("schema", {}).get("fields", []):
            field["x-odd"] = draw(strategies.ODD)
    return copy.deepcopy(updates)


def attempt(metadata: Json | None, updates: list[Json], number: int) -> Json | None:
    try:
        return apply_updates(
            metadata, updates, now_ms=strategies.time_of(number), previous_location="l"
        )
    except (Invalid, Conflict):
        return None


def check_nothing_is_lost(before: Json, after: Json, updates: list[Json]) -> None:
    for name in ("x-odd", "x-other"):
        assert after[name] == before[name]
    for among, name in ELEMENTS.items():
        old = {each[name]: each for each in before[among]}
        for each in after[among]:
            if each[name] in old:
                assert each == old[each[name]]
    stored = {each["snapshot-id"]: each for each in after["snapshots"]}
    for update in updates:
        if update["action"] == "add-snapshot":
            snapshot = update["snapshot"]
            if snapshot["snapshot-id"] in stored:
                assert stored[snapshot["snapshot-id"]]["x-odd"] == snapshot["x-odd"]
        if update["action"] == "add-schema":
            shapes = [{**each, "schema-id": 0} for each in after["schemas"]]
            if not any(each["action"] == "remove-schemas" for each in updates):
                assert lean({**update["schema"], "schema-id": 0}) in [lean(each) for each in shapes]


def lean(schema: Json) -> Any:
    """A schema without fields that are null, which are the same as fields that are not there."""
    fields = [{k: v for k, v in each.items() if v is not None} for each in schema["fields"]]
    return {k: v for k, v in schema.items() if v is not None} | {"fields": fields}


def check_sound(metadata: Json) -> None:
    current = metadata["current-snapshot-id"]
    main = metadata["refs"].get("main")
    assert (current if current not in (None, -1) else None) == (main and main["snapshot-id"])
    known = {each["snapshot-id"] for each in metadata["snapshots"]}
    assert {each["snapshot-id"] for each in metadata["refs"].values()} <= known
    assert {each["snapshot-id"] for each in metadata["snapshot-log"]} <= known
    if main is not None:
        assert metadata["snapshot-log"][-1]["snapshot-id"] == current
    for among, name in ELEMENTS.items():
        numbers = [each[name] for each in metadata[among]]
        assert len(numbers) == len(set(numbers))
    if metadata["format-version"] > 1:
        # Those that came with format 1 need not have one.
        numbers = [each.get("sequence-number", 0) for each in metadata["snapshots"]]
        assert max(numbers, default=0) <= metadata["last-sequence-number"]
    if metadata["format-version"] > 2:
        rows = [
            e["first-row-id"] + e["added-rows"] for e in metadata["snapshots"] if "added-rows" in e
        ]
        assert max(rows, default=0) <= metadata["next-row-id"]
    if metadata["format-version"] == 1:
        assert metadata["schema"] == strategies.current_schema(metadata)
    ids = [
        owner[name] for each in metadata["schemas"] for owner, name in strategies.id_places(each)
    ]
    assert max(ids) <= metadata["last-column-id"]
    assert table_content(metadata, "l", None).schema_id == metadata["current-schema-id"]


@given(st.data())
def test_requests_leave_a_sound_table_and_lose_nothing(data):
    metadata = data.draw(strategies.tables(odd=True))
    for number in range(1, 7):
        drawn = strategies.draw_request(data.draw, metadata, number, ALL_MOVES)
        updates = oddly(data.draw, copy.deepcopy(drawn))
        if data.draw(st.sampled_from([True, False, False, False])):
            updates.append({"action": "upgrade-format-version", "format-version": 3})
        kept = copy.deepcopy((metadata, updates))
        after = attempt(metadata, updates, number)
        assert (metadata, updates) == kept
        if after is None:
            continue
        check_nothing_is_lost(metadata, after, updates)
        check_sound(after)
        for name in RISING:
            assert after.get(name, 0) >= metadata.get(name, 0)
        metadata = after


@given(st.data())
def test_the_same_request_always_comes_to_the_same_bytes(data):
    metadata = data.draw(strategies.tables())
    updates = strategies.draw_request(data.draw, metadata, 1, ALL_MOVES)
    turned = [dict(reversed(each.items())) for each in updates]
    first, again, other = (attempt(metadata, each, 1) for each in (updates, updates, turned))
    assert msgspec.json.encode(first) == msgspec.json.encode(again)
    assert first == other


@given(st.data())
def test_a_request_that_changes_nothing_writes_nothing(data):
    metadata = data.draw(strategies.tables())
    updates = strategies.draw_request(data.draw, metadata, 1, ALL_MOVES)
    after = attempt(metadata, updates, 1)
    if after is not None and after["metadata-log"] == metadata["metadata-log"]:
        assert after == metadata


# Hostile input

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["", "main", "branch", "struct", "list", "identity", "sql", "-1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "fields", "snapshot-id", "id", "x"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a value where something else could stand."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        each = waiting.pop()
        inside = each.items() if isinstance(each, dict) else enumerate(each)
        for name, one in inside:
            found.append((each, name))
            if isinstance(one, (dict, list)):
                waiting.append(one)
    return found


def spoil(draw, value: Any) -> None:
    """Puts something else in a few places, or takes away what is there."""
    for _ in range(draw(st.integers(1, 3))):
        owner, name = draw(st.sampled_from(places(value) or [({}, "x")]))
        if isinstance(owner, dict) and draw(st.booleans()):
            owner.pop(name, None)
        elif isinstance(owner, dict) or name < len(owner):
            owner[name] = draw(JSON)


@given(st.data())
def test_spoiled_requests_get_a_sentence(data):
    metadata = data.draw(strategies.tables())
    for number in range(1, 4):
        after = attempt(metadata, strategies.draw_request(data.draw, metadata, number), number)
        metadata = after or metadata
    updates = copy.deepcopy(strategies.draw_request(data.draw, metadata, 5, ALL_MOVES))
    spoil(data.draw, updates)
    after = attempt(metadata, updates, 5)
    if after is not None:
        msgspec.json.encode(after)
        check_sound(after)
        assert attempt(after, [{"action": "set-location", "location": "elsewhere"}], 6) is not None


@given(st.data())
def test_spoiled_metadata_gets_a_sentence(data):
    metadata = data.draw(strategies.tables())
    for number in range(1, 4):
        after = attempt(metadata, strategies.draw_request(data.draw, metadata, number), number)
        metadata = after or metadata
    spoiled = copy.deepcopy(metadata)
    updates = strategies.draw_request(data.draw, metadata, 5, ALL_MOVES)
    spoil(data.draw, spoiled)
    attempt(spoiled, updates, 5)
    kinds = data.draw(st.sampled_from(sorted(REQUIREMENTS)))
    requirement = {"type": kinds, "uuid": UUID, "ref": "main", "snapshot-id": 1}
    for call in (
        lambda: check_requirements(spoiled, [requirement]),
        lambda: table_content(spoiled, "l", None),
    ):
        sentence_or_result(call)


def sentence_or_result(call) -> Any:
    try:
        return call()
    except (Invalid, Conflict):
        return None


VIEW_VERSION = {
    "version-id": 1,
    "timestamp-ms": NOW,
    "schema-id": -1,
    "summary": {},
    "default-namespace": ["a"],
    "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
}
VIEW: Json = build_view(
    uuid=UUID, location="l", schema=SCHEMA, version=VIEW_VERSION, properties={}, now_ms=NOW
)
VIEW_REQUEST: list[Json] = [
    {"action": "add-schema", "schema": SCHEMA},
    {"action": "add-view-version", "view-version": {**VIEW_VERSION, "summary": {"a": "b"}}},
    {"action": "set-current-view-version", "view-version-id": -1},
    {"action": "set-properties", "updates": {"version.history.num-entries": "1"}},
    {"action": "remove-properties", "removals": ["a"]},
    {"action": "set-location", "location": "m"},
]


@given(st.data())
def test_spoiled_views_get_a_sentence(data):
    metadata, updates = copy.deepcopy((VIEW, VIEW_REQUEST))
    spoil(data.draw, data.draw(st.sampled_from([metadata, updates])))
    kept = copy.deepcopy((metadata, updates))
    after = sentence_or_result(lambda: apply_view_updates(metadata, updates, now_ms=NOW))
    assert repr((metadata, updates)) == repr(kept)
    sentence_or_result(lambda: view_content(metadata, "l", None))
    if after is not None:
        msgspec.json.encode(after)
        assert view_content(after, "l", None).version_id == after["current-version-id"]


@given(JSON, JSON, st.sampled_from(sorted(UPDATES)))
def test_anything_at_all_gets_a_sentence(one, other, action):
    fields = other if isinstance(other, dict) else {"x": other}
    update = {**fields, "action": action}
    sentence_or_result(lambda: apply_updates(table(3), [update], now_ms=NOW))
    sentence_or_result(lambda: apply_updates(None, [update], now_ms=NOW))
    sentence_or_result(lambda: apply_updates(one, [update], now_ms=NOW))
    sentence_or_result(lambda: apply_updates(table(), one, now_ms=NOW))
    sentence_or_result(lambda: check_requirements(one, [other]))
    sentence_or_result(lambda: check_view_requirements(one, other))
    sentence_or_result(
        lambda: build_table(
            uuid=UUID,
            location="l",
            schema=one,
            spec=other,
            order=one,
            properties={},
            format_version=3,
            now_ms=NOW,
        )
    )


def test_every_update_and_requirement_of_the_specification_is_known():
    assert (len(UPDATES), len(REQUIREMENTS), len(VIEW_UPDATES)) == (23, 8, 8)
