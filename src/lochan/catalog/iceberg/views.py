"""Views: metadata of a new one, its one requirement, and metadata after the updates of a commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from lochan.base.errors import Invalid, RequirementFailed
from lochan.catalog.iceberg import properties
from lochan.catalog.iceberg.draft import LAST_ADDED, find_by_id
from lochan.catalog.iceberg.values import (
    Json,
    as_object,
    as_requests,
    as_text_map,
    check_bounds,
    check_time,
    find_text_map,
    get_int,
    get_objects,
    get_text,
)
from lochan.catalog.iceberg.view_versions import (
    VERSION_ID_FIRST,
    ViewDraft,
    add_version,
    add_view_schema,
    check_dialects,
    current_version,
    dialects_of,
    finish_versions,
    set_current_version,
)
from lochan.model.contents import IcebergView

_WHAT: Final = "view metadata"
_FORMAT: Final = 1

Update = Callable[[ViewDraft, Json], None]


def _assign_uuid(draft: ViewDraft, update: Json) -> None:
    properties.assign_uuid(draft, update, "view-uuid")


def _upgrade_format(draft: ViewDraft, update: Json) -> None:
    wanted = get_int(update, "format-version", "upgrade-format-version")
    present = draft.metadata["format-version"]
    if wanted < present:
        raise Invalid(f"Cannot downgrade v{present} view to v{wanted}")
    if wanted > present:
        raise Invalid(f"Unsupported format version: {wanted}")


VIEW_UPDATES: Final[dict[str, Update]] = {
    "assign-uuid": _assign_uuid,
    "upgrade-format-version": _upgrade_format,
    "add-schema": add_view_schema,
    "set-location": properties.set_location,
    "set-properties": properties.set_properties,
    "remove-properties": properties.remove_properties,
    "add-view-version": add_version,
    "set-current-view-version": set_current_version,
}
"""What each update of a view does, by the word that names it in a request."""


def build_view(
    *,
    uuid: str,
    location: str,
    schema: Json,
    version: Json,
    properties: Mapping[str, str],
    now_ms: int,
) -> Json:
    """Returns the metadata of a new view; its schema and its version get our ids."""
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
    """Raises RequirementFailed unless the view is as all requirements say; None is no view."""
    for number, each in enumerate(as_requests(requirements, "requirement"), 1):
        kind = get_text(each, "type", f"requirement {number}").lower()
        if kind != "assert-view-uuid":
            raise Invalid(f"requirement {number}: there is no requirement {kind[:100]!r} of views")
        wanted = get_text(each, "uuid", kind)
        if metadata is None:
            raise RequirementFailed("Requirement failed: view does not exist")
        present = get_text(as_object(metadata, _WHAT), "view-uuid", _WHAT)
        if present.lower() != wanted.lower():
            raise RequirementFailed(
                f"Requirement failed: view UUID does not match: expected {present} != {wanted}"
            )


def apply_view_updates(metadata: Json | None, updates: Sequence[Json], *, now_ms: int) -> Json:
    """Returns metadata after the updates of one request; None is a view that is to be created.

    What came in stays as it was, and the result shares with it what did not change. If no update
    changed anything, the result equals what came in.
    """
    requests = as_requests(updates, "update")
    actions = [_action(each, number) for number, each in enumerate(requests, 1)]
    check_time(now_ms)
    draft = _empty(now_ms) if metadata is None else _opened(metadata, now_ms)
    for action, update in zip(actions, requests, strict=True):
        VIEW_UPDATES[action](draft, update)
    if metadata is not None and not draft.changed:
        return dict(metadata)
    for name in ("view-uuid", "location"):
        get_text(draft.metadata, name, "a view")
    _check_current(draft.metadata)
    check_dialects(draft)
    finish_versions(draft)
    return draft.metadata


def _action(update: Json, number: int) -> str:
    action = get_text(update, "action", f"update {number}").lower()
    if action not in VIEW_UPDATES:
        raise Invalid(f"update {number}: there is no update {action[:100]!r} of views")
    return action


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


def _opened(stored: Json, now_ms: int) -> ViewDraft:
    metadata = _open_metadata(stored)
    draft = ViewDraft(metadata, now_ms, is_new=False)
    draft.dialects_before = dialects_of(current_version(metadata), _WHAT)
    return draft


def _open_metadata(stored: Json) -> Json:
    metadata = dict(as_object(stored, _WHAT))
    check_bounds(metadata, _WHAT)
    if get_int(metadata, "format-version", _WHAT) != _FORMAT:
        raise Invalid(f"{_WHAT}: Unsupported format version")
    get_text(metadata, "view-uuid", _WHAT)
    get_text(metadata, "location", _WHAT)
    for name in ("schemas", "versions", "version-log"):
        metadata[name] = get_objects(metadata, name, _WHAT)
    metadata["properties"] = find_text_map(metadata, "properties", _WHAT)
    _check_current(metadata)
    return metadata


def _check_current(metadata: Json) -> None:
    if not metadata["versions"]:
        raise Invalid("Invalid view: no versions were added")
    number = get_int(current_version(metadata), "schema-id", _WHAT)
    if find_by_id(metadata["schemas"], "schema-id", number) is None:
        raise Invalid(f"{_WHAT}: Cannot find current schema with id {number} in schemas")


def view_content(metadata: Json, location: str, content_id: str | None) -> IcebergView:
    """Returns what a key holds for a view with this metadata at a location."""
    opened = _open_metadata(metadata)
    return IcebergView(
        id=content_id,
        metadata_location=location,
        version_id=opened["current-version-id"],
        schema_id=current_version(opened)["schema-id"],
    )
