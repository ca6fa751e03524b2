"""Tables: the metadata of a new table, and the metadata after the updates of a commit.

Updates are applied one after the other, in the order of the request, as in the reference catalog;
clients that apply them to their own copies get the same result. Nothing here reads a file or a
clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from lochan.base.errors import Invalid
from lochan.catalog.iceberg import (
    encryption_keys,
    orders,
    properties,
    references,
    schemas,
    snapshots,
    specs,
    statistics,
)
from lochan.catalog.iceberg.columns import renamed_id, with_fresh_ids
from lochan.catalog.iceberg.draft import (
    FORMATS,
    ORDERS,
    PARTITION_ID_FIRST,
    SCHEMAS,
    SPECS,
    TableDraft,
    choose,
    remove,
)
from lochan.catalog.iceberg.finalize import UNPARTITIONED, UNSORTED, finish_table
from lochan.catalog.iceberg.load import load_current, load_metadata
from lochan.catalog.iceberg.properties import RESERVED
from lochan.catalog.iceberg.values import (
    Json,
    as_object,
    as_requests,
    as_text_map,
    check_bounds,
    check_time,
    get_int,
    get_objects,
    get_text,
)
from lochan.model.contents import IcebergTable

Update = Callable[[TableDraft, Json, str], None]

UPDATES: Final[dict[str, Update]] = {
    "assign-uuid": partial(properties.assign_uuid, name="table-uuid"),
    "upgrade-format-version": properties.upgrade_format,
    "add-schema": schemas.add_schema,
    "set-current-schema": partial(choose, ids=SCHEMAS, field="schema-id"),
    "add-spec": specs.add_spec,
    "set-default-spec": partial(choose, ids=SPECS, field="spec-id"),
    "add-sort-order": orders.add_order,
    "set-default-sort-order": partial(choose, ids=ORDERS, field="sort-order-id"),
    "add-snapshot": snapshots.add_snapshot,
    "set-snapshot-ref": references.set_reference,
    "remove-snapshots": snapshots.remove_snapshots,
    "remove-snapshot-ref": references.remove_reference,
    "set-location": properties.set_location,
    "set-properties": properties.set_properties,
    "remove-properties": properties.remove_properties,
    "set-statistics": partial(statistics.set_file, name="statistics"),
    "remove-statistics": partial(statistics.remove_file, name="statistics"),
    "set-partition-statistics": partial(statistics.set_file, name="partition-statistics"),
    "remove-partition-statistics": partial(statistics.remove_file, name="partition-statistics"),
    "remove-partition-specs": partial(remove, ids=SPECS, field="spec-ids"),
    "remove-schemas": partial(remove, ids=SCHEMAS, field="schema-ids"),
    "add-encryption-key": encryption_keys.add_key,
    "remove-encryption-key": encryption_keys.remove_key,
}
"""The function that applies each update of a table, by its name in a request.

It gets the draft, the update, and the name for messages.
"""

_FORMAT_DEFAULT: Final = 2


def build_table(
    *,
    uuid: str,
    location: str,
    schema: Json,
    spec: Json | None,
    order: Json | None,
    properties: Mapping[str, str],
    format_version: int,
    now_ms: int,
) -> Json:
    """Returns the metadata of a new table; all ids are assigned anew."""
    label = "a new table"
    for each in (schema, spec, order):
        check_bounds(each, label)
    draft = _empty(format_version, now_ms)
    draft.metadata["table-uuid"] = get_text({"uuid": uuid}, "uuid", label)
    draft.metadata["location"] = get_text({"location": location}, "location", label)
    draft.metadata["properties"] = {
        name: value
        for name, value in as_text_map(properties, f"{label}: its properties").items()
        if name not in RESERVED
    }
    given = schemas.as_struct(as_object(schema, f"{label}: its schema"), label)
    fresh, renamed, _ = with_fresh_ids(given, label)
    if given.get("identifier-field-ids") is not None:
        numbers = schemas.identifiers_of(given, label)
        fresh["identifier-field-ids"] = [renamed_id(renamed, each, label) for each in numbers]
    schemas.place_schema(draft, fresh, label)
    fields = _renamed_fields(spec or UNPARTITIONED, renamed, f"{label}: its partition spec")
    for number, field in enumerate(fields, PARTITION_ID_FIRST):
        field["field-id"] = number
    specs.place_spec(draft, {**(spec or {}), "fields": fields}, label)
    fields = _renamed_fields(order or UNSORTED, renamed, f"{label}: its sort order")
    orders.place_order(draft, {**(order or {}), "fields": fields}, label)
    draft.metadata["default-sort-order-id"] = draft.last_added[ORDERS.name]
    return finish_table(draft, None)


def _renamed_fields(of: Json, renamed: dict[int, int | None], label: str) -> list[Json]:
    fields = []
    for each in get_objects(as_object(of, label), "fields", label):
        sources = [renamed_id(renamed, old, label) for old in specs.sources_of(each, label)]
        if each.get("source-id") is None:
            fields.append({**each, "source-ids": sources})
        else:
            fields.append({**each, "source-id": sources[0]})
    return fields


def apply_updates(
    metadata: Json | None,
    updates: Sequence[Json],
    *,
    now_ms: int,
    previous_location: str | None = None,
) -> Json:
    """Returns the metadata after the updates of one request; None is a table to be created.

    The input is not changed, but the result shares unchanged parts with it: neither may be changed
    afterwards. If no update changed anything, the result equals the input, without a new time or a
    new entry in its log: there is nothing to commit.
    """
    requests = as_requests(updates, "update", "action", UPDATES, "tables")
    if metadata is None:
        draft = _empty(_first_format(requests), now_ms)
    else:
        loaded = load_metadata(metadata)
        draft = TableDraft(loaded, max(check_time(now_ms), loaded["last-updated-ms"]), is_new=False)
    for action, update in requests:
        UPDATES[action](draft, update, action)
    if metadata is not None and not draft.changed:
        return dict(metadata)
    before = None if metadata is None else metadata.get("last-updated-ms")
    log = None if previous_location is None else (before or 0, previous_location)
    return finish_table(draft, log)


def _first_format(requests: list[tuple[str, Json]]) -> int:
    for action, update in requests:
        if action == "upgrade-format-version":
            return get_int(update, "format-version", action)
    return _FORMAT_DEFAULT


def _empty(format_version: int, now_ms: int) -> TableDraft:
    if type(format_version) is not int or format_version not in FORMATS:
        raise Invalid(f"Unsupported format version (supported: v{FORMATS[-1]})")
    metadata: Json = {
        "format-version": format_version,
        "table-uuid": None,
        "location": None,
        "last-sequence-number": 0,
        "last-updated-ms": check_time(now_ms),
        "last-column-id": 0,
        "current-schema-id": 0,
        "schemas": [],
        "default-spec-id": 0,
        "partition-specs": [],
        "last-partition-id": PARTITION_ID_FIRST - 1,
        "default-sort-order-id": orders.UNSORTED_ID,
        "sort-orders": [],
        "properties": {},
        "current-snapshot-id": None,
        "refs": {},
        "snapshots": [],
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [],
        "metadata-log": [],
    }
    draft = TableDraft(metadata, now_ms, is_new=True)
    snapshots.clear_current(draft)
    if format_version > 2:
        metadata["next-row-id"] = 0
    return draft


def table_content(metadata: Json, location: str, content_id: str | None) -> IcebergTable:
    """Returns the content of a key for a table with this metadata at a location."""
    current = load_current(metadata)
    snapshot = snapshots.current_snapshot(current)
    return IcebergTable(
        id=content_id,
        metadata_location=location,
        snapshot_id=-1 if snapshot is None else snapshot,
        schema_id=current["current-schema-id"],
        spec_id=current["default-spec-id"],
        sort_order_id=current["default-sort-order-id"],
    )
