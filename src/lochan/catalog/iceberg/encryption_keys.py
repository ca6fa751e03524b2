"""Encryption keys of a table: stored as they come; the wrapping key is not known here."""

from __future__ import annotations

from lochan.catalog.iceberg.draft import TableDraft
from lochan.catalog.iceberg.values import (
    Json,
    find,
    get_object,
    get_objects,
    get_text,
)


def add_key(draft: TableDraft, update: Json, label: str) -> None:
    """Applies `add-encryption-key`; an existing key stays as it is."""
    key = get_object(update, "encryption-key", label)
    number = get_text(key, "key-id", label)
    get_text(key, "encrypted-key-metadata", label)
    keys = find(get_objects, draft.metadata, "encryption-keys", "table metadata") or []
    if all(each.get("key-id") != number for each in keys):
        draft.metadata["encryption-keys"] = [*keys, key]
        draft.changed = True


def remove_key(draft: TableDraft, update: Json, label: str) -> None:
    """Applies `remove-encryption-key`; an unknown key is no error."""
    number = get_text(update, "key-id", label)
    keys = find(get_objects, draft.metadata, "encryption-keys", "table metadata") or []
    others = [each for each in keys if each.get("key-id") != number]
    if len(others) != len(keys):
        draft.metadata["encryption-keys"] = others
        draft.changed = True
