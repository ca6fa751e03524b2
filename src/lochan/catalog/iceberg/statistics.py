"""Statistics files of snapshots, of the table and of its partitions: one of each a snapshot."""

from __future__ import annotations

from lochan.catalog.iceberg.draft import TableDraft
from lochan.catalog.iceberg.values import Json, get_long, get_object, get_text


def set_file(draft: TableDraft, update: Json, what: str, *, name: str) -> None:
    """Applies `set-statistics` or `set-partition-statistics`; `name` is the list in metadata."""
    file = get_object(update, name, what)
    number = get_long(file, "snapshot-id", what)
    get_text(file, "statistics-path", what)
    get_long(file, "file-size-in-bytes", what, low=0)
    draft.metadata[name] = [*_others(draft, name, number), file]
    draft.changed = True


def remove_file(draft: TableDraft, update: Json, what: str, *, name: str) -> None:
    """Applies `remove-…`; a snapshot without statistics is no error."""
    others = _others(draft, name, get_long(update, "snapshot-id", what))
    if len(others) != len(draft.metadata[name]):
        draft.metadata[name] = others
        draft.changed = True


def _others(draft: TableDraft, name: str, number: int) -> list[Json]:
    return [each for each in draft.metadata[name] if each.get("snapshot-id") != number]
