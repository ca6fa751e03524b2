"""Views: the metadata of a new view, its requirement, and its metadata after a commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from lochan.base.errors import Invalid, RequirementFailed
from lochan.catalog.iceberg import properties
from lochan.catalog.iceberg.draft import LAST_ADDED, SCHEMAS, find_by_id
from lochan.catalog.iceberg.schemas import add_schema
from lochan.catalog.iceberg.values import (
    Json,
    as_object,
    as_requests,
    as_text_map,
    check_bounds,
    check_time,
    find,
    get_int,
    get_objects,
    get_text,
    get_text_map,
)
from lochan.catalog.iceberg.view_versions import (
    VERSION_ID_FIRST,
    ViewDraft,
    add_version,
    check_dialects,
    current_version,
    dialects_of,
    finish_versions,
    set_current_version,
)
from lochan.model.contents import IcebergView

_LABEL: Final = "view metadata"
_FORMAT: Final = 1
_REQUIREMENTS: Final = ("assert-view-uuid",)

Update = Callable[[ViewDraft, Json, str], None]


def _upgrade_format(draft: ViewDraft, update: Json, label: str) -> None:
    version = get_int(update, "format-version", label)
    present = draft.metadata["format-version"]
    if version < present:
        raise Invalid(f"Cannot downgrade v{present} view to v{version}")
    if version > present:
        raise Invalid(f"Unsupported format version: {version}")


VIEW_UPDATES: Final[dict[str, Update]] = {
    "assign-uuid": partial(properties.assign_uuid, name="view-uuid"),
    "upgrade-format-version": _upgrade_format,
    "add-schema": add_schema,
    "set-location": properties.set_location,
    "set-properties": properties.set_properties,
    "remove-properties": properties.remove_properties,
    "add-view-version": add_version,
    "set-current-view-version": set_current_version,
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
    first["version-id"] = VERSION_ID_FIRST
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
        draft = ViewDraft(_load_metadata(metadata), now_ms, is_new=False)
        draft.dialects_before = dialects_of(current_version(draft.metadata), _LABEL)
    for action, update in requests:
        VIEW_UPDATES[action](draft, update, action)
    if metadata is not None and not draft.changed:
        return dict(metadata)
    for name in ("view-uuid", "location"):
        get_text(draft.metadata, name, "a view")
    _check_current(draft.metadata)
    check_dialects(draft)
    finish_versions(draft)
    return draft.metadata


def _empty(now_ms: int) -> ViewDraft:
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
    return ViewDraft(metadata, now_ms, is_new=True)


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
    number = get_int(current_version(metadata), "schema-id", _LABEL)
    if find_by_id(metadata, SCHEMAS, number) is None:
        raise Invalid(f"{_LABEL}: Cannot find current schema with id {number} in schemas")


def view_content(metadata: Json, location: str, content_id: str | None) -> IcebergView:
    """Returns the content of a key for a view with this metadata at a location."""
    loaded = _load_metadata(metadata)
    return IcebergView(
        id=content_id,
        metadata_location=location,
        version_id=loaded["current-version-id"],
        schema_id=current_version(loaded)["schema-id"],
    )
