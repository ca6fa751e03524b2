"""Our Iceberg engine against PyIceberg's, in formats 1 and 2, request by request.

Where PyIceberg is known to differ from the reference it is not asked, and the difference has a
name in DIFFERENCES; each of them is shown to be still one, so that the list cannot outlive it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from pyiceberg.exceptions import CommitFailedException, ValidationError
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadataUtil, new_table_metadata
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata

from lochan.base.errors import Conflict, Invalid, RequirementFailed
from lochan.catalog.iceberg import apply_updates, check_requirements
from tests.catalog.iceberg import builders, strategies
from tests.catalog.iceberg.builders import Json, adding, grown, pointing, table

UPDATE: TypeAdapter[Any] = TypeAdapter(TableUpdate)
REQUIREMENT: TypeAdapter[Any] = TypeAdapter(TableRequirement)

REFUSED = "refused"
LOCATION = "s3://lake/t/metadata/before.json"


def ours(metadata: Json, updates: list[Json], now_ms: int) -> Json | str:
    try:
        return apply_updates(metadata, updates, now_ms=now_ms, previous_location=LOCATION)
    except (Invalid, Conflict):
        return REFUSED


def oracle(metadata: Json, updates: list[Json]) -> Json | str:
    parsed = tuple(UPDATE.validate_python(json.loads(json.dumps(each))) for each in updates)
    try:
        after = update_table_metadata(
            TableMetadataUtil.parse_obj(metadata), parsed, metadata_location=LOCATION
        )
    except (ValueError, KeyError, ValidationError):
        return REFUSED
    return told(after)


def told(metadata: Any) -> Json:
    """What PyIceberg writes, without what it takes from its own clock or does not keep."""
    written: Json = json.loads(metadata.model_dump_json())
    # PyIceberg: the time of the last change comes from the snapshot, or from a clock.
    del written["last-updated-ms"]
    # PyIceberg: what format 1 writes for old readers is not kept in step.
    for name in ("schema", "partition-spec"):
        written.pop(name, None)
    # PyIceberg: format 1 gets the counters of later ones.
    if written["format-version"] == 1:
        written.pop("last-sequence-number", None)
    # PyIceberg: the time of a rollback comes from a clock.
    written["snapshot-log"] = [each["snapshot-id"] for each in written["snapshot-log"]]
    return written


def as_the_oracle_reads(metadata: Json | str) -> Json | str:
    return metadata if isinstance(metadata, str) else told(TableMetadataUtil.parse_obj(metadata))


# Known differences: each tells whether a request meets it.

Meets = Callable[[Json, list[Json]], bool]


def acts(updates: list[Json], action: str) -> list[Json]:
    return [each for each in updates if each["action"] == action]


def columns(schema: Json) -> Any:
    return [sorted(each.items(), key=str) for each in schema["fields"]]


def same_schema_again(metadata: Json, updates: list[Json]) -> bool:
    known = [columns(each) for each in metadata["schemas"]]
    for each in acts(updates, "add-schema"):
        if columns(each["schema"]) in known:
            return True
        known.append(columns(each["schema"]))
    return False


def taken_schema_id(metadata: Json, updates: list[Json]) -> bool:
    known = [each["schema-id"] for each in metadata["schemas"]]
    for each in acts(updates, "add-schema"):
        if each["schema"]["schema-id"] in known:
            return True
        known.append(each["schema"]["schema-id"])
    return False


def layout(fields: list[Json]) -> Any:
    return [sorted((k, v) for k, v in each.items() if k != "field-id") for each in fields]


def same_spec_again(metadata: Json, updates: list[Json]) -> bool:
    known = [layout(each["fields"]) for each in metadata["partition-specs"]]
    for each in acts(updates, "add-spec"):
        if layout(each["spec"]["fields"]) in known:
            return True
        known.append(layout(each["spec"]["fields"]))
    return False


def taken_spec_id(metadata: Json, updates: list[Json]) -> bool:
    return len(acts(updates, "add-spec")) > 1


def same_order_again(metadata: Json, updates: list[Json]) -> bool:
    known = [layout(each["fields"]) for each in metadata["sort-orders"]]
    for each in acts(updates, "add-sort-order"):
        if layout(each["sort-order"]["fields"]) in known:
            return True
        known.append(layout(each["sort-order"]["fields"]))
    return False


def taken_order_id(metadata: Json, updates: list[Json]) -> bool:
    known = [each["order-id"] for each in metadata["sort-orders"]]
    for each in acts(updates, "add-sort-order"):
        if each["sort-order"]["order-id"] in known:
            return True
        known.append(each["sort-order"]["order-id"])
    return False


def missing_property(metadata: Json, updates: list[Json]) -> bool:
    present = set(metadata["properties"])
    for each in updates:
        if each["action"] == "set-properties":
            present |= set(each["updates"])
        if each["action"] == "remove-properties":
            if not set(each["removals"]) <= present:
                return True
            present -= set(each["removals"])
    return False


def other_uuid(metadata: Json, updates: list[Json]) -> bool:
    return any(each["uuid"] != metadata["table-uuid"] for each in acts(updates, "assign-uuid"))


def same_location(metadata: Json, updates: list[Json]) -> bool:
    return any(each["location"] == metadata["location"] for each in acts(updates, "set-location"))


def removed_snapshots(metadata: Json, updates: list[Json]) -> bool:
    return bool(acts(updates, "remove-snapshots"))


def missing_statistics(metadata: Json, updates: list[Json]) -> bool:
    for name in ("statistics", "partition-statistics"):
        known = {each["snapshot-id"] for each in metadata[name]}
        for each in acts(updates, f"remove-{name}"):
            if each["snapshot-id"] not in known:
                return True
            known.remove(each["snapshot-id"])
    return False


def missing_layout(metadata: Json, updates: list[Json]) -> bool:
    pairs = [("remove-schemas", "schema-ids", "schemas", "schema-id")]
    pairs += [("remove-partition-specs", "spec-ids", "partition-specs", "spec-id")]
    for action, field, among, name in pairs:
        known = {each[name] for each in metadata[among]}
        for each in acts(updates, action):
            if not set(each[field]) <= known or not each[field]:
                return True
            known -= set(each[field])
    return False


def passed_snapshots(metadata: Json, updates: list[Json]) -> bool:
    added = {each["snapshot"]["snapshot-id"] for each in acts(updates, "add-snapshot")}
    moves = [each for each in acts(updates, "set-snapshot-ref") if each["ref-name"] == "main"]
    seen = {each["snapshot-id"] for each in moves[:-1]}
    if any(each["ref-name"] == "main" for each in acts(updates, "remove-snapshot-ref")):
        seen |= {each["snapshot-id"] for each in moves}
    return bool(added & seen)


def old_sequence_number(metadata: Json, updates: list[Json]) -> bool:
    last = metadata.get("last-sequence-number", 0)
    for each in acts(updates, "add-snapshot"):
        if each["snapshot"]["sequence-number"] < last:
            return True
        last = each["snapshot"]["sequence-number"]
    return False


def main_as_a_tag(metadata: Json, updates: list[Json]) -> bool:
    return any(
        each["ref-name"] == "main" and each["type"] == "tag"
        for each in acts(updates, "set-snapshot-ref")
    )


def spec_without_its_columns(metadata: Json, updates: list[Json]) -> bool:
    known = {each["id"] for each in strategies.current_schema(metadata)["fields"]}
    fields = [one for each in acts(updates, "add-spec") for one in each["spec"]["fields"]]
    fields += [one for e in acts(updates, "add-sort-order") for one in e["sort-order"]["fields"]]
    return any(each["source-id"] not in known for each in fields) or (
        bool(fields) and bool(acts(updates, "set-current-schema"))
    )


def last_one_by_number(metadata: Json, updates: list[Json]) -> bool:
    highest = max(each["order-id"] for each in metadata["sort-orders"])
    for each in acts(updates, "add-sort-order"):
        if each["sort-order"]["order-id"] < highest:
            return True
        highest = each["sort-order"]["order-id"]
    return False


DIFFERENCES: dict[str, tuple[Meets, Json, list[Json]]] = {
    "a schema that is there is stored again": (
        same_schema_again,
        table(),
        [{"action": "add-schema", "schema": {**builders.SCHEMA, "schema-id": 1}}],
    ),
    "a schema with a taken id is stored under that id": (
        taken_schema_id,
        table(),
        [
            {
                "action": "add-schema",
                "schema": builders.schema(*builders.SCHEMA["fields"][:2], **{"schema-id": 0}),
            }
        ],
    ),
    "a partition spec that is there is stored again": (
        same_spec_again,
        table(),
        [{"action": "add-spec", "spec": {**table()["partition-specs"][0], "spec-id": 1}}],
    ),
    "a partition spec with a taken id is refused": (
        taken_spec_id,
        table(),
        [
            {"action": "add-spec", "spec": {"spec-id": 1, "fields": []}},
            {
                "action": "add-spec",
                "spec": {
                    "spec-id": 1,
                    "fields": [builders.partition(1, "i", **{"field-id": 1001})],
                },
            },
        ],
    ),
    "a sort order that is there is stored again": (
        same_order_again,
        table(),
        [{"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}}],
    ),
    "a sort order with a taken id is refused": (
        taken_order_id,
        table(),
        [
            {
                "action": "add-sort-order",
                "sort-order": {"order-id": 0, "fields": [builders.sorting(1)]},
            }
        ],
    ),
    "the one added last is the one with the highest id": (
        last_one_by_number,
        table(order={"fields": [builders.sorting(1)]}),
        [
            {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
            {"action": "set-default-sort-order", "sort-order-id": -1},
        ],
    ),
    "to remove a property that is not there is refused": (
        missing_property,
        table(),
        [{"action": "remove-properties", "removals": ["nobody"]}],
    ),
    "a table may get another id": (
        other_uuid,
        table(),
        [{"action": "assign-uuid", "uuid": "11111111-03fe-4693-9a96-a0705ddf69c1"}],
    ),
    "a location that is set again is a change": (
        same_location,
        table(),
        [{"action": "set-location", "location": "s3://lake/t"}],
    ),
    "children of removed snapshots forget their parents, and the log keeps gaps": (
        removed_snapshots,
        grown(table(), 1, 2, 3),
        [{"action": "remove-snapshots", "snapshot-ids": [2]}],
    ),
    "to remove statistics that are not there is refused": (
        missing_statistics,
        table(),
        [{"action": "remove-statistics", "snapshot-id": 5}],
    ),
    "to remove schemas and specs that are not there is refused": (
        missing_layout,
        table(),
        [{"action": "remove-schemas", "schema-ids": [5]}],
    ),
    "snapshots of one request that nobody saw stay in the log": (
        passed_snapshots,
        table(),
        [adding(1), pointing(1), adding(2), pointing(2)],
    ),
    "the last sequence number goes back": (
        old_sequence_number,
        grown(table(), 1, 2),
        [adding(3, sequence_number=1)],
    ),
    "main may be a tag": (main_as_a_tag, grown(table(), 1), [pointing(1, "main", "tag")]),
    "what is added is not held against the columns": (
        spec_without_its_columns,
        table(),
        [
            {
                "action": "add-spec",
                "spec": {
                    "spec-id": 1,
                    "fields": [builders.partition(99, "x", **{"field-id": 1001})],
                },
            }
        ],
    ),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_each_named_difference_is_still_one(name):
    meets, metadata, updates = DIFFERENCES[name]
    assert meets(metadata, updates)
    after = as_the_oracle_reads(ours(metadata, updates, builders.NOW + 1_000))
    assert after != oracle(metadata, updates)


def differs(metadata: Json, updates: list[Json]) -> bool:
    return any(meets(metadata, updates) for meets, _, _ in DIFFERENCES.values())


@given(st.data())
def test_requests_come_to_the_same_result(data):
    metadata = data.draw(strategies.tables(versions=(1, 2)))
    for number in range(1, 6):
        updates = strategies.draw_request(data.draw, metadata, number)
        after = ours(metadata, updates, strategies.time_of(number))
        if not differs(metadata, updates):
            assert as_the_oracle_reads(after) == oracle(metadata, updates)
        if isinstance(after, dict):
            metadata = after


def test_the_oracle_is_asked_often_enough():
    asked = {True: 0, False: 0}

    @given(st.data())
    def count(data):
        metadata = data.draw(strategies.tables(versions=(1, 2)))
        for number in range(1, 6):
            updates = strategies.draw_request(data.draw, metadata, number)
            asked[differs(metadata, updates)] += 1
            after = ours(metadata, updates, strategies.time_of(number))
            metadata = after if isinstance(after, dict) else metadata

    count()
    assert asked[False] > asked[True]


@given(st.data())
def test_new_tables_come_out_the_same(data):
    schema = data.draw(strategies.schemas())
    spec = data.draw(strategies.specs(schema))
    order = data.draw(strategies.orders(schema))
    version = data.draw(st.sampled_from([1, 2]))
    made = table(version, schema=schema, spec=spec, order=order, properties={"a": "b"})
    theirs = new_table_metadata(
        Schema.model_validate(schema),
        PartitionSpec.model_validate(spec),
        SortOrder.model_validate(order),
        "s3://lake/t",
        {"a": "b", "format-version": str(version)},
        table_uuid=builders.UUID,  # type: ignore[arg-type]
    )
    assert told(TableMetadataUtil.parse_obj(made)) == told(theirs)


def draw_requirement(draw, metadata: Json) -> Json:
    name = draw(st.sampled_from(["main", "b1", "t1"]))
    near = st.integers(-1, 3)
    return draw(
        st.sampled_from(
            [
                {"type": "assert-create"},
                {"type": "assert-table-uuid", "uuid": metadata["table-uuid"].upper()},
                {"type": "assert-table-uuid", "uuid": "11111111-03fe-4693-9a96-a0705ddf69c1"},
                {
                    "type": "assert-ref-snapshot-id",
                    "ref": name,
                    "snapshot-id": draw(
                        st.sampled_from(
                            [None, 1, *(each["snapshot-id"] for each in metadata["refs"].values())]
                        )
                    ),
                },
                {
                    "type": "assert-last-assigned-field-id",
                    "last-assigned-field-id": metadata["last-column-id"] + draw(near),
                },
                {"type": "assert-current-schema-id", "current-schema-id": draw(near)},
                {
                    "type": "assert-last-assigned-partition-id",
                    "last-assigned-partition-id": metadata["last-partition-id"] + draw(near),
                },
                {"type": "assert-default-spec-id", "default-spec-id": draw(near)},
                {"type": "assert-default-sort-order-id", "default-sort-order-id": draw(near)},
            ]
        )
    )


def holds_with_us(metadata: Json, requirement: Json) -> bool:
    try:
        check_requirements(metadata, [requirement])
    except RequirementFailed:
        return False
    return True


def holds_with_the_oracle(metadata: Json, requirement: Json) -> bool:
    try:
        REQUIREMENT.validate_python(requirement).validate(TableMetadataUtil.parse_obj(metadata))
    except CommitFailedException:
        return False
    return True


@given(st.data())
def test_requirements_hold_and_fail_alike(data):
    metadata = data.draw(strategies.tables(versions=(1, 2)))
    for number in range(1, 3):
        updates = strategies.draw_request(data.draw, metadata, number)
        after = ours(metadata, updates, strategies.time_of(number))
        metadata = after if isinstance(after, dict) else metadata
    for _ in range(4):
        each = draw_requirement(data.draw, metadata)
        if each.get("ref", "main") != "main" and not metadata["snapshots"]:
            # PyIceberg: a table without snapshots has no branch but main.
            continue
        assert holds_with_us(metadata, each) == holds_with_the_oracle(metadata, each)


def test_two_requirements_of_missing_tables_are_known_to_differ():
    for each in (
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 3},
        {"type": "assert-ref-snapshot-id", "ref": "b1", "snapshot-id": None},
    ):
        check_requirements(None, [each])
        with pytest.raises(CommitFailedException):
            REQUIREMENT.validate_python(each).validate(None)
    empty = table()
    check_requirements(empty, [each])
    with pytest.raises(CommitFailedException, match="has no snapshots"):
        REQUIREMENT.validate_python(each).validate(TableMetadataUtil.parse_obj(empty))
