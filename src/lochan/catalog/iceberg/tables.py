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
from lochan.catalog.iceberg import layouts, properties, schemas, snapshots
from lochan.catalog.iceberg.columns import renamed_id, with_fresh_ids
from lochan.catalog.iceberg.draft import (
    FORMATS,
    ORDERS,
    PARTITION_ID_FIRST,
    SCHEMAS,
    SPECS,
    TableDraft,
    add,
    choose,
    remove,
)
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
    limit_of,
)
from lochan.model.contents import IcebergTable

Update = Callable[[TableDraft, Json, str], None]

UPDATES: Final[dict[str, Update]] = {
    "assign-uuid": partial(properties.assign_uuid, name="table-uuid"),
    "upgrade-format-version": properties.upgrade_format,
    "add-schema": partial(add, field="schema", place=schemas.place_schema),
    "set-current-schema": partial(choose, ids=SCHEMAS, field="schema-id"),
    "add-spec": partial(add, field="spec", place=layouts.place_spec),
    "set-default-spec": partial(choose, ids=SPECS, field="spec-id"),
    "add-sort-order": partial(add, field="sort-order", place=layouts.place_order),
    "set-default-sort-order": partial(choose, ids=ORDERS, field="sort-order-id"),
    "add-snapshot": snapshots.add_snapshot,
    "set-snapshot-ref": snapshots.set_reference,
    "remove-snapshots": snapshots.remove_snapshots,
    "remove-snapshot-ref": snapshots.remove_reference,
    "set-location": properties.set_location,
    "set-properties": properties.set_properties,
    "remove-properties": properties.remove_properties,
    "set-statistics": partial(snapshots.set_statistics, name="statistics"),
    "remove-statistics": partial(snapshots.remove_statistics, name="statistics"),
    "set-partition-statistics": partial(snapshots.set_statistics, name="partition-statistics"),
    "remove-partition-statistics": partial(
        snapshots.remove_statistics, name="partition-statistics"
    ),
    "remove-partition-specs": partial(remove, ids=SPECS, field="spec-ids"),
    "remove-schemas": partial(remove, ids=SCHEMAS, field="schema-ids"),
    "add-encryption-key": properties.add_key,
    "remove-encryption-key": properties.remove_key,
}
"""The function that applies each update of a table, by its name in a request.

It gets the draft, the update, and the name for messages.
"""

_FORMAT_DEFAULT: Final = 2
_NO_FIELDS: Final[Json] = {"fields": []}

_PREVIOUS_VERSIONS: Final = "write.metadata.previous-versions-max"
_PREVIOUS_VERSIONS_DEFAULT: Final = 100


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
    fields = _renamed_fields(spec or _NO_FIELDS, renamed, f"{label}: its partition spec")
    for number, field in enumerate(fields, PARTITION_ID_FIRST):
        field["field-id"] = number
    layouts.place_spec(draft, {**(spec or {}), "fields": fields}, label)
    fields = _renamed_fields(order or _NO_FIELDS, renamed, f"{label}: its sort order")
    layouts.place_order(draft, {**(order or {}), "fields": fields}, label)
    draft.metadata["default-sort-order-id"] = draft.last_added[ORDERS.name]
    return _finish(draft, None)


def _renamed_fields(of: Json, renamed: dict[int, int | None], label: str) -> list[Json]:
    fields = []
    for each in get_objects(as_object(of, label), "fields", label):
        sources = [renamed_id(renamed, old, label) for old in layouts.sources_of(each, label)]
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
    return _finish(draft, log)


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
        "default-sort-order-id": layouts.UNSORTED_ID,
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


def _finish(draft: TableDraft, previous: tuple[int, str] | None) -> Json:
    """Returns the metadata with its logs, after checks that clients can read it.

    `previous` is the time and the location of the metadata before.
    """
    metadata = draft.metadata
    if draft.is_new:
        _check_complete(draft)
    if draft.format_version > 1 and metadata.get("table-uuid") is None:
        raise Invalid(f"UUID is required in format v{draft.format_version}")
    schema = draft.find(SCHEMAS, metadata["current-schema-id"])
    spec = draft.find(SPECS, metadata["default-spec-id"])
    if draft.choice_changed:
        _check_layout(draft, spec)
    snapshots.finish_log(draft)
    metadata["last-updated-ms"] = draft.now_ms
    if previous is not None:
        _log_previous(metadata, *previous)
    if draft.format_version == 1:
        # Old readers of format 1 look for these instead of the lists.
        metadata["schema"] = schema
        metadata["partition-spec"] = [] if spec is None else spec["fields"]
        metadata.pop("last-sequence-number", None)
    return metadata


def _check_complete(draft: TableDraft) -> None:
    for name in ("table-uuid", "location"):
        get_text(draft.metadata, name, "a new table")
    if not draft.metadata["schemas"]:
        raise Invalid("a new table: no schema was added")
    if not draft.metadata["partition-specs"]:
        layouts.place_spec(draft, _NO_FIELDS, "a new table")
    if not draft.metadata["sort-orders"]:
        layouts.place_order(draft, _NO_FIELDS, "a new table")


def _check_layout(draft: TableDraft, spec: Json | None) -> None:
    """Raises Invalid unless the default spec and order fit the current columns."""
    metadata = draft.metadata
    columns = draft.current_columns("the current schema")
    order = draft.find(ORDERS, metadata["default-sort-order-id"])
    if spec is None or order is None:
        raise Invalid("the default partition spec or sort order was never added")
    for each in metadata["partition-specs"]:
        label = f"partition spec {each['spec-id']}"
        layouts.check_names(get_objects(each, "fields", label), columns, label)
    layouts.check_sources(get_objects(spec, "fields", "the default spec"), columns, "default spec")
    fields = get_objects(order, "fields", "the default sort order")
    layouts.check_order(fields, columns, "the default sort order")


def _log_previous(metadata: Json, when_ms: int, location: str) -> None:
    entry = {"timestamp-ms": when_ms, "metadata-file": location}
    entries = [*metadata["metadata-log"], entry]
    limit = limit_of(metadata["properties"], _PREVIOUS_VERSIONS)
    kept = _PREVIOUS_VERSIONS_DEFAULT if limit is None else max(1, limit)
    metadata["metadata-log"] = entries[-kept:]


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
