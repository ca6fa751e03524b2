"""Requirements: each of the eight holds or fails, with the sentences that clients read."""

from __future__ import annotations

import pytest

from lochan.base.errors import Conflict, Invalid, RequirementFailed
from lochan.catalog.iceberg import check_requirements
from tests.catalog.iceberg.builders import UUID, changed, grown, pointing, table

TABLE = changed(grown(table(), 5), pointing(5, "v1", "tag"))


def requirement(kind, **more):
    return {"type": kind, **{name.replace("_", "-"): value for name, value in more.items()}}


HOLDS = [
    requirement("assert-table-uuid", uuid=UUID),
    requirement("assert-table-uuid", uuid=UUID.upper()),
    requirement("assert-ref-snapshot-id", ref="main", snapshot_id=5),
    requirement("assert-ref-snapshot-id", ref="v1", snapshot_id=5),
    requirement("assert-ref-snapshot-id", ref="other", snapshot_id=None),
    requirement("assert-ref-snapshot-id", ref="other"),
    requirement("assert-last-assigned-field-id", last_assigned_field_id=3),
    requirement("assert-current-schema-id", current_schema_id=0),
    requirement("assert-last-assigned-partition-id", last_assigned_partition_id=1000),
    requirement("assert-default-spec-id", default_spec_id=0),
    requirement("assert-default-sort-order-id", default_sort_order_id=0),
]

FAILS = [
    (requirement("assert-create"), "table already exists"),
    (
        requirement("assert-table-uuid", uuid="other"),
        f"UUID does not match: expected {UUID} != other",
    ),
    (
        requirement("assert-ref-snapshot-id", ref="main", snapshot_id=4),
        "branch main has changed: expected id 4 != 5",
    ),
    (
        requirement("assert-ref-snapshot-id", ref="v1", snapshot_id=4),
        "tag v1 has changed: expected id 4 != 5",
    ),
    (
        requirement("assert-ref-snapshot-id", ref="main", snapshot_id=None),
        "branch main was created concurrently",
    ),
    (
        requirement("assert-ref-snapshot-id", ref="other", snapshot_id=5),
        "branch or tag other is missing, expected 5",
    ),
    (
        requirement("assert-last-assigned-field-id", last_assigned_field_id=2),
        "last assigned field id changed: expected id 2 != 3",
    ),
    (
        requirement("assert-current-schema-id", current_schema_id=1),
        "current schema changed: expected id 1 != 0",
    ),
    (
        requirement("assert-last-assigned-partition-id", last_assigned_partition_id=999),
        "last assigned partition id changed: expected id 999 != 1000",
    ),
    (
        requirement("assert-default-spec-id", default_spec_id=3),
        "default partition spec changed: expected id 3 != 0",
    ),
    (
        requirement("assert-default-sort-order-id", default_sort_order_id=3),
        "default sort order changed: expected id 3 != 0",
    ),
]


@pytest.mark.parametrize("given", HOLDS, ids=lambda each: str(list(each.values())))
def test_what_is_so_holds(given):
    check_requirements(TABLE, [given])


@pytest.mark.parametrize(("given", "sentence"), FAILS, ids=lambda each: str(each)[:60])
def test_what_is_not_so_fails_in_the_words_of_the_reference(given, sentence):
    with pytest.raises(RequirementFailed) as caught:
        check_requirements(TABLE, [*HOLDS, given])
    assert caught.value.message == f"Requirement failed: {sentence}"
    assert isinstance(caught.value, Conflict)


@pytest.mark.parametrize(
    "given",
    [
        requirement("assert-create"),
        requirement("assert-ref-snapshot-id", ref="main", snapshot_id=None),
        requirement("assert-last-assigned-field-id", last_assigned_field_id=9),
        requirement("assert-last-assigned-partition-id", last_assigned_partition_id=9),
    ],
)
def test_a_table_that_is_not_there_may_be_created(given):
    check_requirements(None, [given])


@pytest.mark.parametrize(
    "given",
    [
        requirement("assert-table-uuid", uuid=UUID),
        requirement("assert-ref-snapshot-id", ref="main", snapshot_id=5),
        requirement("assert-current-schema-id", current_schema_id=0),
        requirement("assert-default-spec-id", default_spec_id=0),
        requirement("assert-default-sort-order-id", default_sort_order_id=0),
    ],
)
def test_what_is_assumed_of_a_missing_table_fails(given):
    with pytest.raises(RequirementFailed):
        check_requirements(None, [requirement("assert-create"), given])


@pytest.mark.parametrize(
    "given",
    [
        requirement("assert-moon"),
        requirement("assert-view-uuid", uuid=UUID),
        {},
        {"type": 5},
        requirement("assert-table-uuid"),
        requirement("assert-table-uuid", uuid=5),
        requirement("assert-ref-snapshot-id", snapshot_id=5),
        requirement("assert-ref-snapshot-id", ref="main", snapshot_id="5"),
        requirement("assert-current-schema-id", current_schema_id=True),
        requirement("assert-default-spec-id", default_spec_id=2**40),
        "assert-create",
        None,
    ],
)
def test_a_requirement_that_nobody_knows_is_refused_before_any_is_checked(given):
    with pytest.raises(Invalid):
        check_requirements(TABLE, [given])
    with pytest.raises(Invalid):
        check_requirements(TABLE, given)


def test_an_unknown_requirement_is_refused_even_behind_one_that_fails():
    with pytest.raises(Invalid):
        check_requirements(TABLE, [requirement("assert-create"), requirement("assert-moon")])


def test_no_requirements_always_hold():
    check_requirements(TABLE, [])
    check_requirements(None, [])


def test_a_table_of_the_first_format_without_references_has_a_main_branch():
    old = grown(table(1), 5)
    del old["refs"]
    check_requirements(old, [requirement("assert-ref-snapshot-id", ref="main", snapshot_id=5)])
