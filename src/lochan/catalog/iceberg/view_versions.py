"""Versions of a view: added under an id that the catalog assigns, made current, expired."""

from __future__ import annotations

from typing import Final

from lochan.base.errors import Invalid
from lochan.catalog.iceberg.draft import SCHEMAS, VERSIONS, Draft, choose, find_by_id
from lochan.catalog.iceberg.values import (
    Json,
    get_int,
    get_long,
    get_object,
    get_objects,
    get_text,
    get_text_map,
    get_texts,
    limit_of,
    without_names,
)

VERSION_ID_FIRST: Final = 1

_HISTORY_SIZE: Final = "version.history.num-entries"
_HISTORY_SIZE_DEFAULT: Final = 10
_DROP_ALLOWED: Final = "replace.drop-dialect.allowed"

# Two versions that differ only in these fields return the same rows.
_NOT_COMPARED: Final = frozenset({"version-id", "timestamp-ms"})


class ViewDraft(Draft):
    """The metadata of one view under change."""

    def __init__(self, metadata: Json, now_ms: int, *, is_new: bool) -> None:
        super().__init__(metadata, now_ms, is_new=is_new)
        self.added_versions: set[int] = set()
        self.dialects_before: set[str] = set()
        # One log entry for a request: readers see only the last version that it makes current.
        self.entry: Json | None = None


def add_version(draft: ViewDraft, update: Json, label: str) -> None:
    """Applies `add-view-version`; a version that returns the same rows is not stored again."""
    version = get_object(update, "view-version", label)
    number = get_int(version, "version-id", label)
    get_long(version, "timestamp-ms", label, low=0)
    get_text_map(version, "summary", label)
    get_texts(version, "default-namespace", label)
    dialects_of(version, label)
    schema_id = draft.resolve_id(SCHEMAS, get_int(version, "schema-id", label), label)
    version = {**version, "schema-id": schema_id}
    if draft.find(SCHEMAS, schema_id) is None:
        raise Invalid(f"Cannot add version with unknown schema: {schema_id}")

    def query(version: Json) -> Json:
        return without_names(version, _NOT_COMPARED)

    if not draft.find_equal(VERSIONS, query(version), query):
        first = max(number, VERSION_ID_FIRST)
        draft.added_versions.add(draft.add(VERSIONS, version, first, label))


def set_current_version(draft: ViewDraft, update: Json, label: str) -> None:
    """Applies `set-current-view-version`."""
    before = draft.metadata["current-version-id"]
    choose(draft, update, label, ids=VERSIONS, field="view-version-id")
    number = draft.metadata["current-version-id"]
    if number == before:
        return
    # An older version becomes current now, not at the time when it was written.
    when = draft.now_ms
    if number in draft.added_versions:
        when = get_long(current_version(draft.metadata), "timestamp-ms", label, low=0)
    draft.entry = {"timestamp-ms": when, "version-id": number}


def dialects_of(version: Json, label: str) -> set[str]:
    """Returns the SQL dialects of a version; Invalid if one occurs twice."""
    found: set[str] = set()
    for each in get_objects(version, "representations", label):
        if get_text(each, "type", label).lower() != "sql":
            continue
        get_text(each, "sql", label)
        dialect = get_text(each, "dialect", label).lower()
        if dialect in found:
            raise Invalid(
                f"Invalid view version: Cannot add multiple queries for dialect {dialect}"
            )
        found.add(dialect)
    return found


def current_version(metadata: Json) -> Json:
    """Returns the current version; Invalid if it does not exist."""
    number = get_int(metadata, "current-version-id", "view metadata")
    version = find_by_id(metadata, VERSIONS, number)
    if version is None:
        raise Invalid(f"view metadata: Cannot find current version {number} in view versions")
    return version


def check_dialects(draft: ViewDraft) -> None:
    """Raises Invalid if a dialect was lost: engines with that dialect could not read the view."""
    if draft.metadata["properties"].get(_DROP_ALLOWED, "").lower() == "true":
        return
    present = dialects_of(current_version(draft.metadata), "view metadata")
    lost = draft.dialects_before - present
    if lost:
        raise Invalid(
            f"Cannot replace view due to loss of view dialects ({_DROP_ALLOWED}=false): "
            f"{', '.join(sorted(lost))}"
        )


def finish_versions(draft: ViewDraft) -> None:
    """Writes the log, and removes versions beyond the number that the view keeps.

    The current version and the versions that this request added are always kept. The log keeps only
    what follows the last removed version.
    """
    metadata = draft.metadata
    if draft.entry is not None:
        metadata["version-log"].append(draft.entry)
    size = _history_size(metadata["properties"])
    current = metadata["current-version-id"]
    kept_max = max(size, len(draft.added_versions | {current}))
    if len(metadata["versions"]) <= kept_max:
        return
    numbers = [get_int(each, "version-id", "a version") for each in metadata["versions"]]
    newest = sorted((each for each in numbers if each != current), reverse=True)
    kept = {current, *newest[: kept_max - 1]}
    metadata["versions"] = [each for each in metadata["versions"] if each["version-id"] in kept]
    log: list[Json] = []
    for entry in metadata["version-log"]:
        if get_int(entry, "version-id", "version-log") in kept:
            log.append(entry)
        else:
            log.clear()
    metadata["version-log"] = log


def _history_size(properties: dict[str, str]) -> int:
    if _HISTORY_SIZE not in properties:
        return _HISTORY_SIZE_DEFAULT
    size = limit_of(properties, _HISTORY_SIZE)
    if not size:
        raise Invalid(f"{_HISTORY_SIZE} must be positive")
    return size
