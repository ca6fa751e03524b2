"""Statistics files of snapshots, of the table and of its partitions: one of each a snapshot."""

from __future__ import annotations

from lochan.catalog.iceberg.draft import Draft
from lochan.catalog.iceberg.values import Json, get_long, get_object, get_text


def set_statistics(draft: Draft, update: Json) -> None:
    """Applies `set-statistics`."""
    _set(draft, update, "set-statistics", "statistics")


def remove_statistics(draft: Draft, update: Json) -> None:
    """Applies `remove-statistics`; a snapshot that has none is no error."""
    _remove(draft, update, "remove-statistics", "statistics")


def set_partition_statistics(draft: Draft, update: Json) -> None:
    """Applies `set-partition-statistics`."""
    _set(draft, update, "set-partition-statistics", "partition-statistics")


def remove_partition_statistics(draft: Draft, update: Json) -> None:
    """Applies `remove-partition-statistics`; a snapshot that has none is no error."""
    _remove(draft, update, "remove-partition-statistics", "partition-statistics")


def _set(draft: Draft, update: Json, what: str, name: str) -> None:
    file = get_object(update, name, what)
    number = get_long(file, "snapshot-id", what)
    get_text(file, "statistics-path", what)
    get_long(file, "file-size-in-bytes", what, low=0)
    draft.metadata[name] = [*_others(draft, name, number), file]
    draft.changed = True


def _remove(draft: Draft, update: Json, what: str, name: str) -> None:
    others = _others(draft, name, get_long(update, "snapshot-id", what))
    if len(others) != len(draft.metadata[name]):
        draft.metadata[name] = others
        draft.changed = True


def _others(draft: Draft, name: str, number: int) -> list[Json]:
    return [each for each in draft.metadata[name] if each.get("snapshot-id") != number]
