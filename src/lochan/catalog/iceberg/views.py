"""Views: the metadata of a new view, its requirement, and its metadata after a commit.

Versions are added under an id that the catalog assigns, made current, and expired.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from lochan.base.errors import Invalid, RequirementFailed
from lochan.catalog.iceberg import properties
from lochan.catalog.iceberg.draft import (
    LAST_ADDED,
    SCHEMAS,
    VERSIONS,
    Draft,
    add,
    choose,
    find_by_id,
)
from lochan.catalog.iceberg.schemas import place_schema
from lochan.catalog.iceberg.values import (
    Json,
    as_object,
    as_requests,
    as_text_map,
    check_bounds,
    check_time,
    find,
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
from lochan.model.contents import IcebergView

_LABEL: Final = "view metadata"
_FORMAT: Final = 1
_REQUIREMENTS: Final = ("assert-view-uuid",)
_VERSION_ID_FIRST: Final = 1

_HISTORY_SIZE: Final = "version.history.num-entries"
_HISTORY_SIZE_DEFAULT: Final = 10
_DROP_ALLOWED: Final = "replace.drop-dialect.allowed"

# Two versions that differ only in these fields return the same rows.
_NOT_COMPARED: Final = frozenset({"version-id", "timestamp-ms"})


class _ViewDraft(Draft):
    """The metadata of one view under change."""

    def __init__(self, metadata: Json, now_ms: int, *, is_new: bool) -> None:
        super().__init__(metadata, now_ms, is_new=is_new)
        self.added_versions: set[int] = set()
        self.dialects_before: set[str] = set()
        # One log entry for a request: readers see only the last version that it makes current.
        self.entry: Json | None = None


Update = Callable[[_ViewDraft, Json, str], None]


def _upgrade_format(draft: _ViewDraft, update: Json, label: str) -> None:
    version = get_int(update, "format-version", label)
    present = draft.metadata["format-version"]
    if version < present:
        raise Invalid(f"Cannot downgrade v{present} view to v{version}")
    if version > present:
        raise Invalid(f"Unsupported format version: {version}")


def _add_version(draft: _ViewDraft, update: Json, label: str) -> None:
    """Applies `add-view-version`; a version that returns the same rows is not stored again."""
    version = get_object(update, "view-version", label)
    number = get_int(version, "version-id", label)
    get_long(version, "timestamp-ms", label, low=0)
    get_text_map(version, "summary", label)
    get_texts(version, "default-namespace", label)
    _dialects_of(version, label)
    schema_id = draft.resolve_id(SCHEMAS, get_int(version, "schema-id", label), label)
    version = {**version, "schema-id": schema_id}
    if draft.find(SCHEMAS, schema_id) is None:
        raise Invalid(f"Cannot add version with unknown schema: {schema_id}")

    def query(version: Json) -> Json:
        return without_names(version, _NOT_COMPARED)

    if not draft.find_equal(VERSIONS, query(version), query):
        first = max(number, _VERSION_ID_FIRST)
        draft.added_versions.add(draft.add(VERSIONS, version, first, label))


def _set_current_version(draft: _ViewDraft, update: Json, label: str) -> None:
    """Applies `set-current-view-version`."""
    before = draft.metadata["current-version-id"]
    choose(draft, update, label, ids=VERSIONS, field="view-version-id")
    number = draft.metadata["current-version-id"]
    if number == before:
        return
    # An older version becomes current now, not at the time when it was written.
    when = draft.now_ms
    if number in draft.added_versions:
        when = get_long(_current_version(draft.metadata), "timestamp-ms", label, low=0)
    draft.entry = {"timestamp-ms": when, "version-id": number}


VIEW_UPDATES: Final[dict[str, Update]] = {
    "assign-uuid": partial(properties.assign_uuid, name="view-uuid"),
    "upgrade-format-version": _upgrade_format,
    "add-schema": partial(add, field="schema", place=place_schema),
    "set-location": properties.set_location,
    "set-properties": properties.set_properties,
    "remove-properties": properties.remove_properties,
    "add-view-version": _add_version,
    "set-current-view-version": _set_current_version,
}
"""The function that applies each update of a view, by its name in a request."""


def build_view(
    *,
    uuid: str,
    location: str,
    schema: Json,
    version: Json,
    properties: Mapping[str, str],
    now_ms: int,
) -> Json:
    """Returns the metadata of a new view; the catalog assigns the ids of schema and version."""
    first = {**as_object(version, "a new view: its version"), "schema-id": LAST_ADDED}
    first["version-id"] = _VERSION_ID_FIRST
    first.setdefault("timestamp-ms", now_ms)
    first.setdefault("summary", {})
    updates: list[Json] = [
        {"action": "assign-uuid", "uuid": uuid},
        {"action": "set-location", "location": location},
        {"action": "set-properties", "updates": as_text_map(properties, "a new view")},
        {"action": "add-schema", "schema": schema},
        {"action": "add-view-version", "view-version": first},
        {"action": "set-current-view-version", "view-version-id": LAST_ADDED},
    ]
    return apply_view_updates(None, updates, now_ms=now_ms)


def check_view_requirements(metadata: Json | None, requirements: Sequence[Json]) -> None:
    """Raises RequirementFailed unless the view meets all requirements; None is no view."""
    requests = as_requests(requirements, "requirement", "type", _REQUIREMENTS, "views")
    for kind, requirement in requests:
        expected = get_text(requirement, "uuid", kind)
        if metadata is None:
            raise RequirementFailed("Requirement failed: view does not exist")
        present = get_text(as_object(metadata, _LABEL), "view-uuid", _LABEL)
        if present.lower() != expected.lower():
            raise RequirementFailed(
                f"Requirement failed: view UUID does not match: expected {present} != {expected}"
            )


def apply_view_updates(metadata: Json | None, updates: Sequence[Json], *, now_ms: int) -> Json:
    """Returns the metadata after the updates of one request; None is a view to be created.

    The input is not changed, and the result shares unchanged parts with it. If no update changed
    anything, the result equals the input.
    """
    requests = as_requests(updates, "update", "action", VIEW_UPDATES, "views")
    check_time(now_ms)
    if metadata is None:
        draft = _empty(now_ms)
    else:
        draft = _ViewDraft(_load_metadata(metadata), now_ms, is_new=False)
        draft.dialects_before = _dialects_of(_current_version(draft.metadata), _LABEL)
    for action, update in requests:
        VIEW_UPDATES[action](draft, update, action)
    if metadata is not None and not draft.changed:
        return dict(metadata)
    for name in ("view-uuid", "location"):
        get_text(draft.metadata, name, "a view")
    _check_current(draft.metadata)
    _check_dialects(draft)
    _finish_versions(draft)
    return draft.metadata


def _empty(now_ms: int) -> _ViewDraft:
    metadata: Json = {
        "view-uuid": None,
        "format-version": _FORMAT,
        "location": None,
        "schemas": [],
        "current-version-id": 0,
        "versions": [],
        "version-log": [],
        "properties": {},
    }
    return _ViewDraft(metadata, now_ms, is_new=True)


def _load_metadata(stored: Json) -> Json:
    metadata = dict(as_object(stored, _LABEL))
    check_bounds(metadata, _LABEL)
    if get_int(metadata, "format-version", _LABEL) != _FORMAT:
        raise Invalid(f"{_LABEL}: Unsupported format version")
    get_text(metadata, "view-uuid", _LABEL)
    get_text(metadata, "location", _LABEL)
    for name in ("schemas", "versions", "version-log"):
        metadata[name] = get_objects(metadata, name, _LABEL)
    metadata["properties"] = find(get_text_map, metadata, "properties", _LABEL) or {}
    _check_current(metadata)
    return metadata


def _check_current(metadata: Json) -> None:
    if not metadata["versions"]:
        raise Invalid("Invalid view: no versions were added")
    number = get_int(_current_version(metadata), "schema-id", _LABEL)
    if find_by_id(metadata, SCHEMAS, number) is None:
        raise Invalid(f"{_LABEL}: Cannot find current schema with id {number} in schemas")


def _dialects_of(version: Json, label: str) -> set[str]:
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


def _current_version(metadata: Json) -> Json:
    """Returns the current version; Invalid if it does not exist."""
    number = get_int(metadata, "current-version-id", "view metadata")
    version = find_by_id(metadata, VERSIONS, number)
    if version is None:
        raise Invalid(f"view metadata: Cannot find current version {number} in view versions")
    return version


def _check_dialects(draft: _ViewDraft) -> None:
    """Raises Invalid if a dialect was lost: engines with that dialect could not read the view."""
    if draft.metadata["properties"].get(_DROP_ALLOWED, "").lower() == "true":
        return
    present = _dialects_of(_current_version(draft.metadata), "view metadata")
    lost = draft.dialects_before - present
    if lost:
        raise Invalid(
            f"Cannot replace view due to loss of view dialects ({_DROP_ALLOWED}=false): "
            f"{', '.join(sorted(lost))}"
        )


def _finish_versions(draft: _ViewDraft) -> None:
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


def view_content(metadata: Json, location: str, content_id: str | None) -> IcebergView:
    """Returns the content of a key for a view with this metadata at a location."""
    loaded = _load_metadata(metadata)
    return IcebergView(
        id=content_id,
        metadata_location=location,
        version_id=loaded["current-version-id"],
        schema_id=_current_version(loaded)["schema-id"],
    )
