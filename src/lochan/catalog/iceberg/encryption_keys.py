"""Encryption keys of a table: stored as they come; the wrapping key is not known here."""

from __future__ import annotations

from lochan.catalog.iceberg.draft import TableDraft
from lochan.catalog.iceberg.values import Json, find_objects, get_object, get_text


def add_key(draft: TableDraft, update: Json, what: str) -> None:
    """Applies `add-encryption-key`; an existing key stays as it is."""
    key = get_object(update, "encryption-key", what)
    number = get_text(key, "key-id", what)
    get_text(key, "encrypted-key-metadata", what)
    keys = find_objects(draft.metadata, "encryption-keys", "table metadata")
    if all(each.get("key-id") != number for each in keys):
        draft.metadata["encryption-keys"] = [*keys, key]
        draft.changed = True


def remove_key(draft: TableDraft, update: Json, what: str) -> None:
    """Applies `remove-encryption-key`; an unknown key is no error."""
    number = get_text(update, "key-id", what)
    keys = find_objects(draft.metadata, "encryption-keys", "table metadata")
    others = [each for each in keys if each.get("key-id") != number]
    if len(others) != len(keys):
        draft.metadata["encryption-keys"] = others
        draft.changed = True
