"""Tables: metadata of a new one, and metadata after the updates of a commit.

Updates are applied one after the other, in the order of the request, as the reference catalog
does; the clients' own copies come to the same result. Nothing here reads a file or a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from lochan.base.errors import Invalid
from lochan.catalog.iceberg import (
    keys,
    orders,
    properties,
    references,
    schemas,
    snapshots,
    specs,
    statistics,
)
from lochan.catalog.iceberg.columns import renamed_id, with_fresh_ids
from lochan.catalog.iceberg.draft import FORMATS, PARTITION_ID_FIRST, Draft
from lochan.catalog.iceberg.finalize import UNPARTITIONED, UNSORTED, finish_table
from lochan.catalog.iceberg.load import open_briefly, open_metadata
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

Update = Callable[[Draft, Json], None]

UPDATES: Final[dict[str, Update]] = {
    "assign-uuid": properties.assign_uuid,
    "upgrade-format-version": properties.upgrade_format,
    "add-schema": schemas.add_schema,
    "set-current-schema": schemas.set_current_schema,
    "add-spec": specs.add_spec,
    "set-default-spec": specs.set_default_spec,
    "add-sort-order": orders.add_order,
    "set-default-sort-order": orders.set_default_order,
    "add-snapshot": snapshots.add_snapshot,
    "set-snapshot-ref": references.set_reference,
    "remove-snapshots": snapshots.remove_snapshots,
    "remove-snapshot-ref": references.remove_reference,
    "set-location": properties.set_location,
    "set-properties": properties.set_properties,
    "remove-properties": properties.remove_properties,
    "set-statistics": statistics.set_statistics,
    "remove-statistics": statistics.remove_statistics,
    "set-partition-statistics": statistics.set_partition_statistics,
    "remove-partition-statistics": statistics.remove_partition_statistics,
    "remove-partition-specs": specs.remove_specs,
    "remove-schemas": schemas.remove_schemas,
    "add-encryption-key": keys.add_key,
    "remove-encryption-key": keys.remove_key,
}
"""What each update of a table does, by the word that names it in a request."""

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
    """Returns the metadata of a new table; all ids are given anew, whatever the caller's were."""
    what = "a new table"
    for each in (schema, spec, order):
        check_bounds(each, what)
    draft = _empty(format_version, now_ms)
    draft.metadata["table-uuid"] = get_text({"uuid": uuid}, "uuid", what)
    draft.metadata["location"] = get_text({"location": location}, "location", what)
    draft.metadata["properties"] = _lasting(as_text_map(properties, f"{what}: its properties"))
    given = schemas.as_struct(as_object(schema, f"{what}: its schema"), what)
    fresh, renamed, _ = with_fresh_ids(given, what)
    if given.get("identifier-field-ids") is not None:
        numbers = schemas.identifiers_of(given, what)
        fresh["identifier-field-ids"] = [renamed_id(renamed, each, what) for each in numbers]
    schemas.place_schema(draft, fresh, what)
    fields = _renamed_fields(spec or UNPARTITIONED, renamed, f"{what}: its partition spec")
    for number, field in enumerate(fields, PARTITION_ID_FIRST):
        field["field-id"] = number
    specs.place_spec(draft, {**(spec or {}), "fields": fields}, what)
    fields = _renamed_fields(order or UNSORTED, renamed, f"{what}: its sort order")
    orders.place_order(draft, {**(order or {}), "fields": fields}, what)
    draft.metadata["default-sort-order-id"] = draft.last_order_id
    return finish_table(draft, None)


def _lasting(given: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in given.items() if name not in properties.RESERVED}


def _renamed_fields(of: Json, renamed: dict[int, int | None], what: str) -> list[Json]:
    fields = []
    for each in get_objects(as_object(of, what), "fields", what):
        sources = [renamed_id(renamed, old, what) for old in specs.sources_of(each, what)]
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
    """Returns metadata after the updates of one request; None is a table that is to be created.

    What came in stays as it was, but the result shares with it what did not change: neither may
    be changed afterwards. If no update changed anything, the result equals what came in, without
    a new time or a new entry in its log: there is nothing to commit.
    """
    requests = as_requests(updates, "update")
    actions = [_action(each, number) for number, each in enumerate(requests, 1)]
    if metadata is None:
        draft = _empty(_first_format(requests, actions), now_ms)
    else:
        opened = open_metadata(metadata)
        draft = Draft(opened, max(check_time(now_ms), opened["last-updated-ms"]), is_new=False)
    for action, update in zip(actions, requests, strict=True):
        UPDATES[action](draft, update)
    if metadata is not None and not draft.changed:
        return dict(metadata)
    before = None if metadata is None else metadata.get("last-updated-ms")
    log = None if previous_location is None else (before or 0, previous_location)
    return finish_table(draft, log)


def _action(update: Json, number: int) -> str:
    action = get_text(update, "action", f"update {number}").lower()
    if action not in UPDATES:
        raise Invalid(f"update {number}: there is no update {action[:100]!r} of tables")
    return action


def _first_format(requests: list[Json], actions: list[str]) -> int:
    for update, action in zip(requests, actions, strict=True):
        if action == "upgrade-format-version":
            return get_int(update, "format-version", action)
    return _FORMAT_DEFAULT


def _empty(format_version: int, now_ms: int) -> Draft:
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
    draft = Draft(metadata, now_ms, is_new=True)
    snapshots.clear_current(draft)
    if format_version > 2:
        metadata["next-row-id"] = 0
    return draft


def table_content(metadata: Json, location: str, content_id: str | None) -> IcebergTable:
    """Returns what a key holds for a table with this metadata at a location."""
    opened = open_briefly(metadata)
    current = snapshots.current_snapshot(opened)
    return IcebergTable(
        id=content_id,
        metadata_location=location,
        snapshot_id=-1 if current is None else current,
        schema_id=opened["current-schema-id"],
        spec_id=opened["default-spec-id"],
        sort_order_id=opened["default-sort-order-id"],
    )
