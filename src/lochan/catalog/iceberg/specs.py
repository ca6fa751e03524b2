"""Partition specs: checked, and added under an id that the catalog assigns.

A spec that partitions in the same way is not stored again. Fields without an id get one: in format
1 ids count up from 1,000 in every spec; in later formats the same transform of the same column has
the same id in all specs, and new ids follow the highest one that was ever assigned.
"""

from __future__ import annotations

from lochan.base.errors import Invalid
from lochan.catalog.iceberg.columns import Column
from lochan.catalog.iceberg.draft import PARTITION_ID_FIRST, SPECS, TableDraft
from lochan.catalog.iceberg.transforms import VOID, check_transform, normal_transform
from lochan.catalog.iceberg.values import (
    INT_MAX,
    Json,
    find,
    get_int,
    get_numbers,
    get_object,
    get_objects,
    get_text,
)


def add_spec(draft: TableDraft, update: Json, label: str) -> None:
    """Applies `add-spec`."""
    place_spec(draft, get_object(update, "spec", label), label)


def place_spec(draft: TableDraft, spec: Json, label: str) -> None:
    """Adds a partition spec, or finds an equal one; in both cases it is the last added one."""

    def layout(spec: Json) -> list[tuple[object, ...]]:
        return [
            (*_partition_of(each, label), get_text(each, "name", label))
            for each in get_objects(spec, "fields", label)
        ]

    if draft.find_equal(SPECS, layout(spec), layout):
        return
    columns = draft.current_columns(label)
    fields = get_objects(spec, "fields", label)
    check_names(fields, columns, label)
    check_sources(fields, columns, label)
    fields = _with_ids(draft, fields, label)
    draft.add(SPECS, {**spec, "fields": fields}, 0, label)
    ids = [each["field-id"] for each in fields]
    draft.metadata["last-partition-id"] = max([draft.metadata["last-partition-id"], *ids])


def sources_of(field: Json, label: str) -> tuple[int, ...]:
    """Returns the source columns of a partition or sort field; several since format 3."""
    if field.get("source-id") is None and field.get("source-ids") is not None:
        several = tuple(get_numbers(field, "source-ids", label, INT_MAX))
        if not several:
            raise Invalid(f"{label}: 'source-ids' is empty")
        return several
    return (get_int(field, "source-id", label),)


def check_names(fields: list[Json], columns: dict[int, Column], label: str) -> None:
    """Raises Invalid if a partition field has the name of another field or of another column.

    Readers check this in all specs, not only in the default one.
    """
    by_path = {each.path: each.id for each in columns.values()}
    names: set[str] = set()
    for field in fields:
        name = get_text(field, "name", f"{label}: a partition field")
        sources = sources_of(field, f"{label}: {name!r}")
        if name in names:
            raise Invalid(f"{label}: Cannot use partition name more than once: {name}")
        names.add(name)
        named = by_path.get(name)
        if named is not None and named not in sources and columns.keys() & sources:
            raise Invalid(
                f"{label}: Cannot create identity partition sourced from different field in "
                f"schema: {name}"
            )


def check_sources(fields: list[Json], columns: dict[int, Column], label: str) -> None:
    """Raises Invalid unless every partition field can be computed from the columns."""
    for field in fields:
        transform = get_text(field, "transform", f"{label}: a partition field")
        if normal_transform(transform) == VOID:
            # Its source column may have been removed.
            continue
        for source in sources_of(field, label):
            _check_source(columns, source, transform, label)


def _check_source(columns: dict[int, Column], source: int, transform: str, label: str) -> None:
    column = columns.get(source)
    if column is None:
        raise Invalid(f"{label}: Cannot find source column for partition field: {source}")
    check_transform(transform, column, "partition")
    for parent in column.parents:
        kind = columns[parent].type
        if type(kind) is not dict or kind.get("type") != "struct":
            raise Invalid(f"{label}: Invalid partition field parent: {columns[parent].path}")


def _partition_of(field: Json, label: str) -> tuple[tuple[int, ...], str]:
    """Returns the columns and the transform of a partition field."""
    return sources_of(field, label), normal_transform(get_text(field, "transform", label))


def _with_ids(draft: TableDraft, fields: list[Json], label: str) -> list[Json]:
    given = [find(get_int, each, "field-id", label) for each in fields]
    if draft.format_version == 1:
        required = list(range(PARTITION_ID_FIRST, PARTITION_ID_FIRST + len(fields)))
        if any(number not in (None, other) for number, other in zip(given, required, strict=True)):
            raise Invalid(f"{label}: Spec does not use sequential IDs that are required in v1")
        return [{**each, "field-id": number} for each, number in zip(fields, required, strict=True)]
    used = {
        _partition_of(field, label): get_int(field, "field-id", label)
        for spec in draft.metadata["partition-specs"]
        for field in get_objects(spec, "fields", label)
    }
    taken = {number for number in given if number is not None}
    if len(taken) != sum(number is not None for number in given):
        raise Invalid(f"{label}: two partition fields have the same id")
    last = max([draft.metadata["last-partition-id"], *taken])
    placed = []
    for field, number in zip(fields, given, strict=True):
        if number is None:
            number = used.get(_partition_of(field, label))
            if number is None or number in taken:
                last = number = last + 1
            taken.add(number)
        if not 0 <= number <= INT_MAX:
            raise Invalid(f"{label}: {number} cannot be the id of a partition field")
        placed.append({**field, "field-id": number})
    return placed
