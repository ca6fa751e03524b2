"""The UUID, format, location and properties of a table or view, and the encryption keys of a table.

Keys are stored as they come; the wrapping key is not known here.
"""

from __future__ import annotations

from typing import Final

from lochan.base.errors import Invalid
from lochan.catalog.iceberg.draft import FORMATS, Draft, TableDraft
from lochan.catalog.iceberg.snapshots import clear_current, current_snapshot
from lochan.catalog.iceberg.values import (
    Json,
    find,
    get_int,
    get_long,
    get_object,
    get_objects,
    get_text,
    get_text_map,
    get_texts,
)

# Names that clients show as properties but that other fields of the metadata hold.
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


_LABEL: Final = "table metadata"


def assign_uuid(draft: Draft, update: Json, label: str, *, name: str) -> None:
    """Applies `assign-uuid`: a table or view gets its UUID once, in the field `name`."""
    uuid = get_text(update, "uuid", label)
    present = draft.metadata.get(name)
    if present is None:
        draft.metadata[name] = uuid
        draft.changed = True
    elif get_text(draft.metadata, name, "metadata").lower() != uuid.lower():
        raise Invalid("Cannot reassign uuid")


def upgrade_format(draft: TableDraft, update: Json, label: str) -> None:
    """Applies `upgrade-format-version`: by one version or several, never to a lower one."""
    version = get_int(update, "format-version", label)
    present = draft.format_version
    if version not in FORMATS:
        raise Invalid(
            f"Cannot upgrade table to unsupported format version: v{version} "
            f"(supported: v{FORMATS[-1]})"
        )
    if version < present:
        raise Invalid(f"Cannot downgrade v{present} table to v{version}")
    if version == present:
        return
    metadata = draft.metadata
    metadata["format-version"] = version
    if present == 1:
        # Only readers of format 1 need these fields.
        metadata.pop("schema", None)
        metadata.pop("partition-spec", None)
        numbers = [
            find(get_long, each, "sequence-number", _LABEL, low=0) for each in metadata["snapshots"]
        ]
        metadata["last-sequence-number"] = max((each or 0 for each in numbers), default=0)
    if version > 2:
        metadata.setdefault("next-row-id", 0)
    if current_snapshot(metadata) is None:
        clear_current(draft)
    draft.changed = True


def set_location(draft: Draft, update: Json, label: str) -> None:
    """Applies `set-location`."""
    location = get_text(update, "location", label)
    if draft.metadata.get("location") != location:
        draft.metadata["location"] = location
        draft.changed = True


def set_properties(draft: Draft, update: Json, label: str) -> None:
    """Applies `set-properties`; older clients use another name for the field."""
    name = "updated" if "updated" in update and "updates" not in update else "updates"
    values = get_text_map(update, name, label)
    if values:
        draft.metadata["properties"].update(values)
        draft.changed = True


def remove_properties(draft: Draft, update: Json, label: str) -> None:
    """Applies `remove-properties`; an unknown property is no error."""
    name = "removed" if "removed" in update and "removals" not in update else "removals"
    removed = get_texts(update, name, label)
    for each in removed:
        draft.metadata["properties"].pop(each, None)
    draft.changed = draft.changed or bool(removed)


def add_key(draft: TableDraft, update: Json, label: str) -> None:
    """Applies `add-encryption-key`; an existing key stays as it is."""
    key = get_object(update, "encryption-key", label)
    number = get_text(key, "key-id", label)
    get_text(key, "encrypted-key-metadata", label)
    keys = find(get_objects, draft.metadata, "encryption-keys", _LABEL) or []
    if all(each.get("key-id") != number for each in keys):
        draft.metadata["encryption-keys"] = [*keys, key]
        draft.changed = True


def remove_key(draft: TableDraft, update: Json, label: str) -> None:
    """Applies `remove-encryption-key`; an unknown key is no error."""
    number = get_text(update, "key-id", label)
    keys = find(get_objects, draft.metadata, "encryption-keys", _LABEL) or []
    others = [each for each in keys if each.get("key-id") != number]
    if len(others) != len(keys):
        draft.metadata["encryption-keys"] = others
        draft.changed = True
