"""Encryption keys of a table: kept as they come, wrapped by a key that nobody here knows."""

from __future__ import annotations

from lochan.catalog.iceberg.draft import Draft
from lochan.catalog.iceberg.values import Json, find_objects, get_object, get_text


def add_key(draft: Draft, update: Json) -> None:
    """Applies `add-encryption-key`; a key that is there stays as it is."""
    what = "add-encryption-key"
    key = get_object(update, "encryption-key", what)
    number = get_text(key, "key-id", what)
    get_text(key, "encrypted-key-metadata", what)
    keys = find_objects(draft.metadata, "encryption-keys", "table metadata")
    if all(each.get("key-id") != number for each in keys):
        draft.metadata["encryption-keys"] = [*keys, key]
        draft.changed = True


def remove_key(draft: Draft, update: Json) -> None:
    """Applies `remove-encryption-key`; a key that is not there is no error."""
    number = get_text(update, "key-id", "remove-encryption-key")
    keys = find_objects(draft.metadata, "encryption-keys", "table metadata")
    others = [each for each in keys if each.get("key-id") != number]
    if len(others) != len(keys):
        draft.metadata["encryption-keys"] = others
        draft.changed = True
