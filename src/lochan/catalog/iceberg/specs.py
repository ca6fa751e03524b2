"""Partition specs: added under an id of ours, chosen as the default, removed.

A spec that partitions in the same way is not stored again. Fields that come without an id get
one: in format 1 ids count up from 1,000 in every spec, later the same transform of the same
column keeps its id in all specs, and new ones come after the highest that was ever given.
"""

from __future__ import annotations

from lochan.base.errors import Invalid
from lochan.catalog.iceberg.columns import Column
from lochan.catalog.iceberg.draft import (
    PARTITION_ID_FIRST,
    Draft,
    chosen_id,
    find_by_id,
    next_id,
)
from lochan.catalog.iceberg.transforms import VOID, check_transform, normal_transform
from lochan.catalog.iceberg.values import (
    INT_MAX,
    Json,
    find_int,
    get_int,
    get_ints,
    get_object,
    get_objects,
    get_text,
)


def add_spec(draft: Draft, update: Json) -> None:
    """Applies `add-spec`."""
    what = "add-spec"
    place_spec(draft, get_object(update, "spec", what), what)


def place_spec(draft: Draft, spec: Json, what: str) -> None:
    """Adds a partition spec, or finds the same one; either is then the one added last."""
    specs = draft.metadata["partition-specs"]
    fields = get_objects(spec, "fields", what)
    wanted = _layout(fields, what)
    for each in specs:
        if _layout(get_objects(each, "fields", what), what) == wanted:
            draft.last_spec_id = get_int(each, "spec-id", what)
            return
    columns = draft.current_columns(what)
    check_names(fields, columns, what)
    check_sources(fields, columns, what)
    fields = _with_ids(draft, fields, what)
    number = next_id(specs, "spec-id", 0, what)
    specs.append({**spec, "spec-id": number, "fields": fields})
    ids = [each["field-id"] for each in fields]
    draft.metadata["last-partition-id"] = max([draft.metadata["last-partition-id"], *ids])
    draft.last_spec_id = number
    draft.changed = True


def set_default_spec(draft: Draft, update: Json) -> None:
    """Applies `set-default-spec`."""
    what = "set-default-spec"
    number = chosen_id(get_int(update, "spec-id", what), draft.last_spec_id, what)
    if find_by_id(draft.metadata["partition-specs"], "spec-id", number) is None:
        raise Invalid(f"Cannot set default partition spec to unknown spec: {number}")
    if draft.metadata["default-spec-id"] != number:
        draft.metadata["default-spec-id"] = number
        draft.changed = draft.relaid = True


def remove_specs(draft: Draft, update: Json) -> None:
    """Applies `remove-partition-specs`; ids that nobody has are no error."""
    gone = set(get_ints(update, "spec-ids", "remove-partition-specs"))
    if draft.metadata["default-spec-id"] in gone:
        raise Invalid("Cannot remove the default partition spec")
    if gone:
        draft.metadata["partition-specs"] = [
            each for each in draft.metadata["partition-specs"] if each.get("spec-id") not in gone
        ]
        draft.changed = True


def sources_of(field: Json, what: str) -> tuple[int, ...]:
    """Returns the columns that a partition or sort field is made of; since format 3 several."""
    if field.get("source-id") is None and field.get("source-ids") is not None:
        several = tuple(get_ints(field, "source-ids", what))
        if not several:
            raise Invalid(f"{what}: 'source-ids' is empty")
        return several
    return (get_int(field, "source-id", what),)


def check_names(fields: list[Json], columns: dict[int, Column], what: str) -> None:
    """Raises Invalid if a partition field is called like another one, or like another column.

    Readers check this of all specs, not only of the one in use.
    """
    by_path = {each.path: each.id for each in columns.values()}
    names: set[str] = set()
    for field in fields:
        name = get_text(field, "name", f"{what}: a partition field")
        sources = sources_of(field, f"{what}: {name!r}")
        if name in names:
            raise Invalid(f"{what}: Cannot use partition name more than once: {name}")
        names.add(name)
        named = by_path.get(name)
        if named is not None and named not in sources and columns.keys() & sources:
            raise Invalid(
                f"{what}: Cannot create identity partition sourced from different field in "
                f"schema: {name}"
            )


def check_sources(fields: list[Json], columns: dict[int, Column], what: str) -> None:
    """Raises Invalid unless the fields can be made of the columns."""
    for field in fields:
        transform = get_text(field, "transform", f"{what}: a partition field")
        if normal_transform(transform) == VOID:
            # It stands for a column that may be gone long since.
            continue
        for source in sources_of(field, what):
            _check_source(columns, source, transform, what)


def _check_source(columns: dict[int, Column], source: int, transform: str, what: str) -> None:
    column = columns.get(source)
    if column is None:
        raise Invalid(f"{what}: Cannot find source column for partition field: {source}")
    check_transform(transform, column, "partition")
    for parent in column.parents:
        kind = columns[parent].type
        if type(kind) is not dict or kind.get("type") != "struct":
            raise Invalid(f"{what}: Invalid partition field parent: {columns[parent].path}")


def _layout(fields: list[Json], what: str) -> list[tuple[object, ...]]:
    return [
        (
            sources_of(each, what),
            normal_transform(get_text(each, "transform", what)),
            get_text(each, "name", what),
        )
        for each in fields
    ]


def _with_ids(draft: Draft, fields: list[Json], what: str) -> list[Json]:
    given = [find_int(each, "field-id", what) for each in fields]
    if draft.format_version == 1:
        wanted = list(range(PARTITION_ID_FIRST, PARTITION_ID_FIRST + len(fields)))
        if any(one not in (None, other) for one, other in zip(given, wanted, strict=True)):
            raise Invalid(f"{what}: Spec does not use sequential IDs that are required in v1")
        return [{**each, "field-id": one} for each, one in zip(fields, wanted, strict=True)]
    known = _ids_in_use(draft, what)
    taken = {one for one in given if one is not None}
    if len(taken) != sum(one is not None for one in given):
        raise Invalid(f"{what}: two partition fields have the same id")
    last = max([draft.metadata["last-partition-id"], *taken])
    placed = []
    for field, one in zip(fields, given, strict=True):
        if one is None:
            one = known.get((sources_of(field, what), normal_transform(field["transform"])))
            if one is None or one in taken:
                last = one = last + 1
            taken.add(one)
        if not 0 <= one <= INT_MAX:
            raise Invalid(f"{what}: {one} is no id for a partition field")
        placed.append({**field, "field-id": one})
    return placed


def _ids_in_use(draft: Draft, what: str) -> dict[tuple[tuple[int, ...], str], int]:
    return {
        (
            sources_of(field, what),
            normal_transform(get_text(field, "transform", what)),
        ): get_int(field, "field-id", what)
        for spec in draft.metadata["partition-specs"]
        for field in get_objects(spec, "fields", what)
    }
