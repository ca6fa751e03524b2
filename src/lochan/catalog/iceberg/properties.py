"""What a table or view says of itself: its id, its format, its place, its properties."""

from __future__ import annotations

from typing import Final, Protocol

from lochan.base.errors import Invalid
from lochan.catalog.iceberg.draft import FORMATS, Draft
from lochan.catalog.iceberg.snapshots import clear_current, current_snapshot
from lochan.catalog.iceberg.values import (
    Json,
    find_long,
    get_int,
    get_text,
    get_text_map,
    get_texts,
)

# Words that clients show as properties and that are written elsewhere.
RESERVED: Final = frozenset(
    {
        "format-version",
        "uuid",
        "snapshot-count",
        "current-snapshot-id",
        "current-snapshot-summary",
        "current-snapshot-timestamp-ms",
        "current-schema",
        "default-partition-spec",
        "default-sort-order",
    }
)


_WHAT: Final = "table metadata"


class Changing(Protocol):
    """Metadata under change: that of a table or of a view."""

    metadata: Json
    changed: bool


def assign_uuid(draft: Changing, update: Json, name: str = "table-uuid") -> None:
    """Applies `assign-uuid`: once in the life of a table."""
    uuid = get_text(update, "uuid", "assign-uuid")
    present = draft.metadata.get(name)
    if present is None:
        draft.metadata[name] = uuid
        draft.changed = True
    elif get_text(draft.metadata, name, "metadata").lower() != uuid.lower():
        raise Invalid("Cannot reassign uuid")


def upgrade_format(draft: Draft, update: Json) -> None:
    """Applies `upgrade-format-version`: one at a time or several, never down."""
    wanted = get_int(update, "format-version", "upgrade-format-version")
    present = draft.format_version
    if wanted not in FORMATS:
        raise Invalid(
            f"Cannot upgrade table to unsupported format version: v{wanted} "
            f"(supported: v{FORMATS[-1]})"
        )
    if wanted < present:
        raise Invalid(f"Cannot downgrade v{present} table to v{wanted}")
    if wanted == present:
        return
    metadata = draft.metadata
    metadata["format-version"] = wanted
    if present == 1:
        # What older readers of format 1 look for is written elsewhere now.
        metadata.pop("schema", None)
        metadata.pop("partition-spec", None)
        numbers = [
            find_long(each, "sequence-number", _WHAT, low=0) for each in metadata["snapshots"]
        ]
        metadata["last-sequence-number"] = max((each or 0 for each in numbers), default=0)
    if wanted > 2:
        metadata.setdefault("next-row-id", 0)
    if current_snapshot(metadata) is None:
        clear_current(draft)
    draft.changed = True


def set_location(draft: Changing, update: Json) -> None:
    """Applies `set-location`."""
    location = get_text(update, "location", "set-location")
    if draft.metadata.get("location") != location:
        draft.metadata["location"] = location
        draft.changed = True


def set_properties(draft: Changing, update: Json) -> None:
    """Applies `set-properties`; older clients call the field by another name."""
    name = "updated" if "updated" in update and "updates" not in update else "updates"
    values = get_text_map(update, name, "set-properties")
    if values:
        draft.metadata["properties"].update(values)
        draft.changed = True


def remove_properties(draft: Changing, update: Json) -> None:
    """Applies `remove-properties`; a property that is not there is no error."""
    name = "removed" if "removed" in update and "removals" not in update else "removals"
    gone = get_texts(update, name, "remove-properties")
    for each in gone:
        draft.metadata["properties"].pop(each, None)
    draft.changed = draft.changed or bool(gone)
