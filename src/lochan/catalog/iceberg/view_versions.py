"""Versions of a view: added under an id of ours, chosen as the current one, forgotten in time."""

from __future__ import annotations

from typing import Final

from lochan.base.errors import Invalid
from lochan.catalog.iceberg.draft import LAST_ADDED, chosen_id, find_by_id, next_id
from lochan.catalog.iceberg.schemas import as_struct, check_schema, find_same
from lochan.catalog.iceberg.values import (
    Json,
    get_int,
    get_long,
    get_object,
    get_objects,
    get_text,
    get_text_map,
    get_texts,
    without_names,
)

VERSION_ID_FIRST: Final = 1

_HISTORY_SIZE: Final = "version.history.num-entries"
_HISTORY_SIZE_DEFAULT: Final = 10
_DROP_ALLOWED: Final = "replace.drop-dialect.allowed"

# Two versions that differ in nothing else give the same rows.
_NOT_COMPARED: Final = frozenset({"version-id", "timestamp-ms"})


class ViewDraft:
    """One view under change, with a memory of what this request has added."""

    def __init__(self, metadata: Json, now_ms: int, *, is_new: bool) -> None:
        self.metadata = metadata
        self.is_new = is_new
        self.now_ms = now_ms
        self.changed = is_new
        self.last_schema_id: int | None = None
        self.last_version_id: int | None = None
        self.added_versions: set[int] = set()
        self.dialects_before: set[str] = set()
        # One entry a request: what was current in between was so for nobody.
        self.entry: Json | None = None


def add_view_schema(draft: ViewDraft, update: Json) -> None:
    """Applies `add-schema` to a view."""
    what = "add-schema"
    schema = as_struct(get_object(update, "schema", what), what)
    check_schema(schema, None, what)
    schemas = draft.metadata["schemas"]
    same = find_same(schemas, schema, what)
    if same is None:
        same = next_id(schemas, "schema-id", 0, what)
        schemas.append({**schema, "schema-id": same})
        draft.changed = True
    draft.last_schema_id = same


def add_version(draft: ViewDraft, update: Json) -> None:
    """Applies `add-view-version`; a version that gives the same rows is not stored again."""
    what = "add-view-version"
    version = get_object(update, "view-version", what)
    number = get_int(version, "version-id", what)
    get_long(version, "timestamp-ms", what, low=0)
    get_text_map(version, "summary", what)
    get_texts(version, "default-namespace", what)
    dialects_of(version, what)
    schema_id = get_int(version, "schema-id", what)
    if schema_id == LAST_ADDED:
        schema_id = chosen_id(schema_id, draft.last_schema_id, what)
        version = {**version, "schema-id": schema_id}
    if find_by_id(draft.metadata["schemas"], "schema-id", schema_id) is None:
        raise Invalid(f"Cannot add version with unknown schema: {schema_id}")
    versions = draft.metadata["versions"]
    wanted = without_names(version, _NOT_COMPARED)
    for each in versions:
        if without_names(each, _NOT_COMPARED) == wanted:
            draft.last_version_id = get_int(each, "version-id", what)
            return
    number = next_id(versions, "version-id", max(number, VERSION_ID_FIRST), what)
    versions.append({**version, "version-id": number})
    draft.last_version_id = number
    draft.added_versions.add(number)
    draft.changed = True


def set_current_version(draft: ViewDraft, update: Json) -> None:
    """Applies `set-current-view-version`."""
    what = "set-current-view-version"
    number = chosen_id(get_int(update, "view-version-id", what), draft.last_version_id, what)
    version = find_by_id(draft.metadata["versions"], "version-id", number)
    if version is None:
        raise Invalid(f"Cannot set current version to unknown version: {number}")
    if draft.metadata["current-version-id"] == number:
        return
    draft.metadata["current-version-id"] = number
    # A version that is taken up again becomes current now, not when it was written.
    when = draft.now_ms
    if number in draft.added_versions:
        when = get_long(version, "timestamp-ms", what, low=0)
    draft.entry = {"timestamp-ms": when, "version-id": number}
    draft.changed = True


def dialects_of(version: Json, what: str) -> set[str]:
    """Returns the dialects of SQL in which a version is written, each of them once."""
    found: set[str] = set()
    for each in get_objects(version, "representations", what):
        if get_text(each, "type", what).lower() != "sql":
            continue
        get_text(each, "sql", what)
        dialect = get_text(each, "dialect", what).lower()
        if dialect in found:
            raise Invalid(
                f"Invalid view version: Cannot add multiple queries for dialect {dialect}"
            )
        found.add(dialect)
    return found


def current_version(metadata: Json) -> Json:
    """Returns the version that is current."""
    number = get_int(metadata, "current-version-id", "view metadata")
    version = find_by_id(metadata["versions"], "version-id", number)
    if version is None:
        raise Invalid(f"view metadata: Cannot find current version {number} in view versions")
    return version


def check_dialects(draft: ViewDraft) -> None:
    """Raises Invalid if a dialect was lost: whoever reads the view in it could read no more."""
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
    """Writes the log, and forgets versions beyond the number that the view keeps.

    What was added in this request and what is current stays in any case. History before a version
    that is forgotten goes with it.
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
    text = properties.get(_HISTORY_SIZE)
    if text is None:
        return _HISTORY_SIZE_DEFAULT
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0):
        raise Invalid(f"{_HISTORY_SIZE} must be positive")
    return int(text)
