"""Snapshots of a table: added in order, removed with everything that refers to them, and their log.

References are named snapshots; `main` is the current one. Each snapshot may have one file of
statistics of the table, and one of its partitions.

The log lists which snapshot was current at which time. A request may make several snapshots current
one after the other; readers see only the last one, so the others are dropped from the log.
"""

from __future__ import annotations

from typing import Final

from lochan.base.errors import Invalid, RequirementFailed
from lochan.base.limits.iceberg import ICEBERG_CLOCKS_APART_MS_MAX
from lochan.catalog.iceberg.draft import MAIN, TableDraft
from lochan.catalog.iceberg.values import (
    LONG_MAX,
    Json,
    find,
    get_int,
    get_long,
    get_numbers,
    get_object,
    get_text,
    get_text_map,
    get_texts,
    without_names,
)

_REFERENCE_UPDATE_NAMES: Final = frozenset({"action", "ref-name"})

_OPTIONAL: Final = frozenset(
    {
        "sequence-number",
        "parent-snapshot-id",
        "summary",
        "manifest-list",
        "manifests",
        "schema-id",
        "first-row-id",
        "added-rows",
        "key-id",
    }
)


def add_snapshot(draft: TableDraft, update: Json, label: str) -> None:
    """Applies `add-snapshot`.

    A snapshot that was built on an older state of the table is a conflict, not an invalid request:
    its writer reads the table again and assigns new numbers.
    """
    snapshot = get_object(update, "snapshot", label)
    number = get_long(snapshot, "snapshot-id", label, low=0)
    _check_form(draft, snapshot, label)
    if number in draft.snapshots:
        raise Invalid(f"Snapshot already exists for id: {number}")
    if draft.format_version > 1:
        _take_sequence_number(draft, snapshot, label)
    if draft.format_version > 2:
        _take_row_ids(draft, snapshot, label)
    # Readers expect a value in every field that is present.
    snapshot = {
        name: each for name, each in snapshot.items() if each is not None or name not in _OPTIONAL
    }
    draft.metadata["snapshots"].append(snapshot)
    draft.snapshots[number] = snapshot
    draft.added_snapshots.add(number)
    draft.changed = True


def _check_form(draft: TableDraft, snapshot: Json, label: str) -> None:
    get_long(snapshot, "timestamp-ms", label, low=0)
    find(get_long, snapshot, "parent-snapshot-id", label)
    for name in ("sequence-number", "first-row-id", "added-rows"):
        find(get_long, snapshot, name, label, low=0)
    find(get_int, snapshot, "schema-id", label)
    find(get_text, snapshot, "key-id", label)
    find(get_text_map, snapshot, "summary", label)
    if draft.format_version == 1 and snapshot.get("manifest-list") is None:
        get_texts(snapshot, "manifests", label)
    else:
        get_text(snapshot, "manifest-list", label)
    for name in ("schemas", "partition-specs", "sort-orders"):
        if not draft.metadata[name]:
            raise Invalid(f"Attempting to add a snapshot before {name} are added")


def _take_sequence_number(draft: TableDraft, snapshot: Json, label: str) -> None:
    number = get_long(snapshot, "sequence-number", label, low=0)
    last = draft.metadata["last-sequence-number"]
    if number <= last and snapshot.get("parent-snapshot-id") is not None:
        raise RequirementFailed(
            f"Validation failed, please retry: Cannot add snapshot with sequence number {number} "
            f"older than last sequence number {last}"
        )
    # The first snapshot of a replaced table has no parent and may be older; the table's own number
    # never decreases, or two snapshots would have the same number.
    draft.metadata["last-sequence-number"] = max(last, number)


def _take_row_ids(draft: TableDraft, snapshot: Json, label: str) -> None:
    if snapshot.get("first-row-id") is None:
        raise Invalid("Cannot add a snapshot: first-row-id is null")
    first = get_long(snapshot, "first-row-id", label, low=0)
    added = get_long(snapshot, "added-rows", label, low=0)
    expected = draft.metadata["next-row-id"]
    if first < expected:
        raise RequirementFailed(
            "Validation failed, please retry: Cannot add a snapshot, first-row-id is behind table "
            f"next-row-id: {first} < {expected}"
        )
    if first + added > LONG_MAX:
        raise Invalid(f"{label}: {added} more rows exceed the range of row ids")
    draft.metadata["next-row-id"] = first + added


def remove_snapshots(draft: TableDraft, update: Json, label: str) -> None:
    """Applies `remove-snapshots`: removes their references, statistics and log entries too."""
    removed = set(get_numbers(update, "snapshot-ids", label, LONG_MAX))
    metadata = draft.metadata
    removed &= {each.get("snapshot-id") for each in metadata["snapshots"]}
    if not removed:
        return
    for name in ("snapshots", "statistics", "partition-statistics"):
        metadata[name] = [each for each in metadata[name] if each.get("snapshot-id") not in removed]
    metadata["refs"] = {
        name: each
        for name, each in metadata["refs"].items()
        if each.get("snapshot-id") not in removed
    }
    if current_snapshot(metadata) in removed:
        clear_current(draft)
    for number in removed:
        draft.snapshots.pop(number, None)
    draft.removed_snapshots = draft.changed = True


def clear_current(draft: TableDraft) -> None:
    """Sets that no snapshot is current, in the form of the table's format."""
    draft.metadata["current-snapshot-id"] = None if draft.format_version > 2 else -1


def current_snapshot(metadata: Json) -> int | None:
    """Returns the id of the current snapshot, None if there is none."""
    number = find(get_long, metadata, "current-snapshot-id", "table metadata")
    return None if number is None or number < 0 else number


def log_current(draft: TableDraft, snapshot: Json, label: str) -> None:
    """Adds to the log that a snapshot is current from now on.

    Readers refuse a log whose times decrease, so a snapshot from a clock that is far off is
    refused.
    """
    number = snapshot["snapshot-id"]
    when = draft.now_ms
    if number in draft.added_snapshots:
        when = get_long(snapshot, "timestamp-ms", label, low=0)
    log = draft.metadata["snapshot-log"]
    before = get_long(log[-1], "timestamp-ms", "snapshot-log") if log else 0
    if when < before - ICEBERG_CLOCKS_APART_MS_MAX:
        raise Invalid(f"{label}: snapshot {number} is {before - when} ms older than the one before")
    if when > draft.now_ms + ICEBERG_CLOCKS_APART_MS_MAX:
        raise Invalid(f"{label}: snapshot {number} is {when - draft.now_ms} ms in the future")
    log.append({"timestamp-ms": when, "snapshot-id": number})


def finish_log(draft: TableDraft) -> None:
    """Drops from the log what was never current for readers, and everything before a gap.

    A removed snapshot leaves a gap: the entry before it would seem to have been current during the
    gap, so the log begins after the gap.
    """
    skipped = draft.added_snapshots - {current_snapshot(draft.metadata)}
    if not skipped and not draft.removed_snapshots:
        return
    known = draft.snapshots
    kept: list[Json] = []
    for entry in draft.metadata["snapshot-log"]:
        number = get_long(entry, "snapshot-id", "snapshot-log")
        if number not in known and draft.removed_snapshots:
            kept.clear()
        elif number not in skipped:
            kept.append(entry)
    draft.metadata["snapshot-log"] = kept


def set_reference(draft: TableDraft, update: Json, label: str) -> None:
    """Applies `set-snapshot-ref`."""
    name = get_text(update, "ref-name", label)
    reference = without_names(update, _REFERENCE_UPDATE_NAMES)
    number = get_long(reference, "snapshot-id", label)
    reference["type"] = get_text(reference, "type", label).lower()
    _check_retention(reference, label)
    refs = draft.metadata["refs"]
    if without_names(refs.get(name) or {}, frozenset()) == reference:
        return
    snapshot = draft.snapshots.get(number)
    if snapshot is None:
        raise Invalid(f"Cannot set {name} to unknown snapshot: {number}")
    if name == MAIN:
        if reference["type"] != "branch":
            raise Invalid("Cannot set main to a tag, it must be a branch")
        draft.metadata["current-snapshot-id"] = number
        log_current(draft, snapshot, label)
    refs[name] = reference
    draft.changed = True


def _check_retention(reference: Json, label: str) -> None:
    kind = reference["type"]
    if kind not in {"branch", "tag"}:
        raise Invalid(f"{label}: 'type' must be branch or tag")
    for name in ("min-snapshots-to-keep", "max-snapshot-age-ms"):
        if name in reference and kind == "tag":
            raise Invalid(f"{label}: Tags do not support setting {name}")
    find(get_int, reference, "min-snapshots-to-keep", label, low=1)
    for name in ("max-snapshot-age-ms", "max-ref-age-ms"):
        find(get_long, reference, name, label, low=1)


def remove_reference(draft: TableDraft, update: Json, label: str) -> None:
    """Applies `remove-snapshot-ref`; an unknown reference is no error."""
    name = get_text(update, "ref-name", label)
    if draft.metadata["refs"].pop(name, None) is None:
        return
    if name == MAIN:
        clear_current(draft)
    draft.changed = True


def set_statistics(draft: TableDraft, update: Json, label: str, *, name: str) -> None:
    """Applies `set-statistics` or `set-partition-statistics`; `name` is the list in metadata."""
    file = get_object(update, name, label)
    number = get_long(file, "snapshot-id", label)
    get_text(file, "statistics-path", label)
    get_long(file, "file-size-in-bytes", label, low=0)
    draft.metadata[name] = [*_others(draft, name, number), file]
    draft.changed = True


def remove_statistics(draft: TableDraft, update: Json, label: str, *, name: str) -> None:
    """Applies `remove-…`; a snapshot without statistics is no error."""
    others = _others(draft, name, get_long(update, "snapshot-id", label))
    if len(others) != len(draft.metadata[name]):
        draft.metadata[name] = others
        draft.changed = True


def _others(draft: TableDraft, name: str, number: int) -> list[Json]:
    return [each for each in draft.metadata[name] if each.get("snapshot-id") != number]
