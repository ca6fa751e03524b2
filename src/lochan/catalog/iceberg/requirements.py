"""Requirements: what a writer assumes of a table, checked before its updates are applied.

The messages are those of the reference catalog: clients and their test suites read them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from lochan.base.errors import RequirementFailed
from lochan.catalog.iceberg.load import load_current
from lochan.catalog.iceberg.values import (
    Json,
    as_requests,
    find,
    get_int,
    get_long,
    get_text,
)

Requirement = Callable[[Json | None, Json], None]


def check_requirements(metadata: Json | None, requirements: Sequence[Json]) -> None:
    """Raises RequirementFailed unless the table meets all requirements; None is no table."""
    requests = as_requests(requirements, "requirement", "type", REQUIREMENTS, "tables")
    if not requests:
        return
    current = None if metadata is None else load_current(metadata)
    for kind, requirement in requests:
        REQUIREMENTS[kind](current, requirement)


def _failed(why: str) -> RequirementFailed:
    return RequirementFailed(f"Requirement failed: {why}")


def _create(metadata: Json | None, _: Json) -> None:
    if metadata is not None:
        raise _failed("table already exists")


def _uuid(metadata: Json | None, requirement: Json) -> None:
    expected = get_text(requirement, "uuid", "assert-table-uuid")
    present = _existing(metadata).get("table-uuid")
    if present is None or str(present).lower() != expected.lower():
        raise _failed(f"UUID does not match: expected {present} != {expected}")


def _reference(metadata: Json | None, requirement: Json) -> None:
    label = "assert-ref-snapshot-id"
    name = get_text(requirement, "ref", label)
    expected = find(get_long, requirement, "snapshot-id", label)
    present = None if metadata is None else metadata["refs"].get(name)
    if present is None:
        if expected is not None:
            raise _failed(f"branch or tag {name} is missing, expected {expected}")
        return
    kind = "tag" if present.get("type") == "tag" else "branch"
    if expected is None:
        raise _failed(f"{kind} {name} was created concurrently")
    number = get_long(present, "snapshot-id", "table metadata")
    if number != expected:
        raise _failed(f"{kind} {name} has changed: expected id {expected} != {number}")


def _existing(metadata: Json | None) -> Json:
    if metadata is None:
        raise _failed("table does not exist")
    return metadata


def _number(name: str, field: str, words: str, *, allows_absent: bool = False) -> Requirement:
    """Returns the check of one number; some checks pass for a table that does not exist yet."""

    def check(metadata: Json | None, requirement: Json) -> None:
        expected = get_int(requirement, name, requirement["type"])
        if metadata is None and allows_absent:
            return
        present = get_int(_existing(metadata), field, "table metadata")
        if present != expected:
            raise _failed(f"{words} changed: expected id {expected} != {present}")

    return check


REQUIREMENTS: Final[dict[str, Requirement]] = {
    "assert-create": _create,
    "assert-table-uuid": _uuid,
    "assert-ref-snapshot-id": _reference,
    "assert-last-assigned-field-id": _number(
        "last-assigned-field-id", "last-column-id", "last assigned field id", allows_absent=True
    ),
    "assert-current-schema-id": _number("current-schema-id", "current-schema-id", "current schema"),
    "assert-last-assigned-partition-id": _number(
        "last-assigned-partition-id",
        "last-partition-id",
        "last assigned partition id",
        allows_absent=True,
    ),
    "assert-default-spec-id": _number(
        "default-spec-id", "default-spec-id", "default partition spec"
    ),
    "assert-default-sort-order-id": _number(
        "default-sort-order-id", "default-sort-order-id", "default sort order"
    ),
}
"""How each requirement of a table is checked, by the word that names it in a request."""
