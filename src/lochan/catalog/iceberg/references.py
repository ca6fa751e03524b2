"""References of a table: named snapshots in its metadata; `main` is the current snapshot."""

from __future__ import annotations

from typing import Final

from lochan.base.errors import Invalid
from lochan.catalog.iceberg.draft import MAIN, TableDraft
from lochan.catalog.iceberg.snapshots import clear_current, log_current
from lochan.catalog.iceberg.values import Json, get_int, get_long, get_text, without_names

_UPDATE_NAMES: Final = frozenset({"action", "ref-name"})


def set_reference(draft: TableDraft, update: Json, what: str) -> None:
    """Applies `set-snapshot-ref`."""
    name = get_text(update, "ref-name", what)
    reference = without_names(update, _UPDATE_NAMES)
    number = get_long(reference, "snapshot-id", what)
    reference["type"] = get_text(reference, "type", what).lower()
    _check_retention(reference, what)
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
        log_current(draft, snapshot, what)
    refs[name] = reference
    draft.changed = True


def _check_retention(reference: Json, what: str) -> None:
    kind = reference["type"]
    if kind not in {"branch", "tag"}:
        raise Invalid(f"{what}: 'type' must be branch or tag")
    for name in ("min-snapshots-to-keep", "max-snapshot-age-ms"):
        if name in reference and kind == "tag":
            raise Invalid(f"{what}: Tags do not support setting {name}")
    if "min-snapshots-to-keep" in reference:
        get_int(reference, "min-snapshots-to-keep", what, low=1)
    for name in ("max-snapshot-age-ms", "max-ref-age-ms"):
        if name in reference:
            get_long(reference, name, what, low=1)


def remove_reference(draft: TableDraft, update: Json, what: str) -> None:
    """Applies `remove-snapshot-ref`; an unknown reference is no error."""
    name = get_text(update, "ref-name", what)
    if draft.metadata["refs"].pop(name, None) is None:
        return
    if name == MAIN:
        clear_current(draft)
    draft.changed = True
