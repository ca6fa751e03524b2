"""The end of a change of a table: the last checks, and the logs."""

from __future__ import annotations

from typing import Final

from lochan.base.errors import Invalid
from lochan.catalog.iceberg import orders, snapshots, specs
from lochan.catalog.iceberg.draft import ORDERS, SCHEMAS, SPECS, TableDraft
from lochan.catalog.iceberg.values import Json, get_objects, get_text, limit_of

UNPARTITIONED: Final[Json] = {"fields": []}
UNSORTED: Final[Json] = {"fields": []}

_PREVIOUS_VERSIONS: Final = "write.metadata.previous-versions-max"
_PREVIOUS_VERSIONS_DEFAULT: Final = 100


def finish_table(draft: TableDraft, previous: tuple[int, str] | None) -> Json:
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
        specs.place_spec(draft, UNPARTITIONED, "a new table")
    if not draft.metadata["sort-orders"]:
        orders.place_order(draft, UNSORTED, "a new table")


def _check_layout(draft: TableDraft, spec: Json | None) -> None:
    """Raises Invalid unless the default spec and order fit the current columns."""
    metadata = draft.metadata
    columns = draft.current_columns("the current schema")
    order = draft.find(ORDERS, metadata["default-sort-order-id"])
    if spec is None or order is None:
        raise Invalid("the default partition spec or sort order was never added")
    for each in metadata["partition-specs"]:
        label = f"partition spec {each['spec-id']}"
        specs.check_names(get_objects(each, "fields", label), columns, label)
    specs.check_sources(get_objects(spec, "fields", "the default spec"), columns, "default spec")
    fields = get_objects(order, "fields", "the default sort order")
    orders.check_order(fields, columns, "the default sort order")


def _log_previous(metadata: Json, when_ms: int, location: str) -> None:
    entry = {"timestamp-ms": when_ms, "metadata-file": location}
    entries = [*metadata["metadata-log"], entry]
    limit = limit_of(metadata["properties"], _PREVIOUS_VERSIONS)
    kept = _PREVIOUS_VERSIONS_DEFAULT if limit is None else max(1, limit)
    metadata["metadata-log"] = entries[-kept:]
