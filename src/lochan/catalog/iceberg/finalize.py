"""The end of a change: what a table must be before anybody may see it, and its logs."""

from __future__ import annotations

from typing import Final

from lochan.base.errors import Invalid
from lochan.catalog.iceberg import orders, snapshots, specs
from lochan.catalog.iceberg.draft import Draft, find_by_id
from lochan.catalog.iceberg.values import Json, get_objects, get_text

UNPARTITIONED: Final[Json] = {"fields": []}
UNSORTED: Final[Json] = {"fields": []}

_PREVIOUS_VERSIONS: Final = "write.metadata.previous-versions-max"
_PREVIOUS_VERSIONS_DEFAULT: Final = 100


def finish_table(draft: Draft, previous: tuple[int, str] | None) -> Json:
    """Returns the metadata with its logs written, once it is known that clients can read it.

    `previous` is when the metadata before was written, and where it is.
    """
    metadata = draft.metadata
    if draft.is_new:
        _check_complete(draft)
    if draft.format_version > 1 and metadata.get("table-uuid") is None:
        raise Invalid(f"UUID is required in format v{draft.format_version}")
    schema = find_by_id(metadata["schemas"], "schema-id", metadata["current-schema-id"])
    spec = find_by_id(metadata["partition-specs"], "spec-id", metadata["default-spec-id"])
    if draft.relaid:
        _check_fit(draft, spec)
    snapshots.finish_log(draft)
    metadata["last-updated-ms"] = draft.now_ms
    if previous is not None:
        _log_previous(metadata, *previous)
    if draft.format_version == 1:
        # Readers that know no lists look for these.
        metadata["schema"] = schema
        metadata["partition-spec"] = [] if spec is None else spec["fields"]
        metadata.pop("last-sequence-number", None)
    return metadata


def _check_complete(draft: Draft) -> None:
    for name in ("table-uuid", "location"):
        get_text(draft.metadata, name, "a new table")
    if not draft.metadata["schemas"]:
        raise Invalid("a new table: no schema was added")
    if not draft.metadata["partition-specs"]:
        specs.place_spec(draft, UNPARTITIONED, "a new table")
    if not draft.metadata["sort-orders"]:
        orders.place_order(draft, UNSORTED, "a new table")


def _check_fit(draft: Draft, spec: Json | None) -> None:
    """Raises Invalid unless the default spec and order can be made of the current columns."""
    metadata = draft.metadata
    columns = draft.current_columns("the current schema")
    order = find_by_id(metadata["sort-orders"], "order-id", metadata["default-sort-order-id"])
    if spec is None or order is None:
        raise Invalid("the default partition spec or sort order was never added")
    for each in metadata["partition-specs"]:
        what = f"partition spec {each['spec-id']}"
        specs.check_names(get_objects(each, "fields", what), columns, what)
    specs.check_sources(get_objects(spec, "fields", "the default spec"), columns, "default spec")
    fields = get_objects(order, "fields", "the default sort order")
    orders.check_order(fields, columns, "the default sort order")


def _log_previous(metadata: Json, when_ms: int, location: str) -> None:
    entry = {"timestamp-ms": when_ms, "metadata-file": location}
    entries = [*metadata["metadata-log"], entry]
    metadata["metadata-log"] = entries[-_previous_versions(metadata["properties"]) :]


def _previous_versions(given: dict[str, str]) -> int:
    text = given.get(_PREVIOUS_VERSIONS, "")
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        return _PREVIOUS_VERSIONS_DEFAULT
    return max(1, int(text))
