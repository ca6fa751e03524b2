"""Statistics files of snapshots, of the table and of its partitions: one of each a snapshot."""

from __future__ import annotations

from lochan.catalog.iceberg.draft import TableDraft
from lochan.catalog.iceberg.values import Json, get_long, get_object, get_text


def set_file(draft: TableDraft, update: Json, label: str, *, name: str) -> None:
    """Applies `set-statistics` or `set-partition-statistics`; `name` is the list in metadata."""
    file = get_object(update, name, label)
    number = get_long(file, "snapshot-id", label)
    get_text(file, "statistics-path", label)
    get_long(file, "file-size-in-bytes", label, low=0)
    draft.metadata[name] = [*_others(draft, name, number), file]
    draft.changed = True


def remove_file(draft: TableDraft, update: Json, label: str, *, name: str) -> None:
    """Applies `remove-…`; a snapshot without statistics is no error."""
    others = _others(draft, name, get_long(update, "snapshot-id", label))
    if len(others) != len(draft.metadata[name]):
        draft.metadata[name] = others
        draft.changed = True


def _others(draft: TableDraft, name: str, number: int) -> list[Json]:
    return [each for each in draft.metadata[name] if each.get("snapshot-id") != number]
