"""References of a table: named snapshots in its metadata; `main` is the current snapshot."""

from __future__ import annotations

from typing import Final

from lochan.base.errors import Invalid
from lochan.catalog.iceberg.draft import MAIN, TableDraft
from lochan.catalog.iceberg.snapshots import clear_current, log_current
from lochan.catalog.iceberg.values import Json, find, get_int, get_long, get_text, without_names

_UPDATE_NAMES: Final = frozenset({"action", "ref-name"})


def set_reference(draft: TableDraft, update: Json, label: str) -> None:
    """Applies `set-snapshot-ref`."""
    name = get_text(update, "ref-name", label)
    reference = without_names(update, _UPDATE_NAMES)
    number = get_long(reference, "snapshot-id", label)
    reference["type"] = get_text(reference, "type", label).lower()
    _check_retention(reference, label)
    refs = draft.metadata["refs"]
    if without_names(refs.get(name) or {}, frozenset()) == reference:
        return
    snapshot = draft.snapshots().get(number)
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
