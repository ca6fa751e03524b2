"""Table metadata as it was stored, made ready for change: checked, completed, its own copy.

Format 1 has left out much over the years: lists of schemas and specs, sort orders, references.
What is missing is filled in as readers understand it.
"""

from __future__ import annotations

from typing import Final

from lochan.base.errors import Invalid
from lochan.catalog.iceberg.draft import FORMATS, MAIN, PARTITION_ID_FIRST, find_by_id
from lochan.catalog.iceberg.values import (
    Json,
    as_object,
    check_bounds,
    find_int,
    find_long,
    find_objects,
    find_text_map,
    get_int,
    get_long,
    get_object,
    get_objects,
    get_text,
)

_WHAT: Final = "table metadata"
_CURRENT: Final = (
    "current-schema-id",
    "default-spec-id",
    "default-sort-order-id",
    "last-column-id",
    "last-partition-id",
)
_LISTS: Final = (
    "snapshots",
    "statistics",
    "partition-statistics",
    "snapshot-log",
    "metadata-log",
)


def open_briefly(stored: Json) -> Json:
    """Returns what is current in stored metadata, without a look at every snapshot.

    A table may have thousands of them, and requirements and contents need only what is current.
    """
    version = _version(as_object(stored, _WHAT))
    if version == 1:
        return open_metadata(stored)
    brief = {name: get_int(stored, name, _WHAT) for name in _CURRENT}
    current = find_long(stored, "current-snapshot-id", _WHAT)
    return {
        **brief,
        "format-version": version,
        "table-uuid": get_text(stored, "table-uuid", _WHAT),
        "current-snapshot-id": current,
        "refs": _references(stored, current),
    }


def _version(stored: Json) -> int:
    version = get_int(stored, "format-version", _WHAT)
    if version not in FORMATS:
        raise Invalid(f"{_WHAT}: Cannot read unsupported version {version}")
    return version


def open_metadata(stored: Json) -> Json:
    """Returns a copy of stored metadata with all fields that updates touch, checked."""
    metadata = dict(as_object(stored, _WHAT))
    check_bounds(metadata, _WHAT)
    version = _version(metadata)
    get_text(metadata, "location", _WHAT)
    metadata["last-updated-ms"] = find_long(metadata, "last-updated-ms", _WHAT, low=0) or 0
    for name in _LISTS:
        metadata[name] = find_objects(metadata, name, _WHAT)
    for name in ("statistics", "partition-statistics", "snapshot-log"):
        for each in metadata[name]:
            get_long(each, "snapshot-id", f"{_WHAT}: {name!r}")
    _open_schemas(metadata, version)
    _open_specs(metadata, version)
    _open_orders(metadata, version)
    metadata["properties"] = find_text_map(metadata, "properties", _WHAT)
    _open_references(metadata)
    if version > 1:
        get_text(metadata, "table-uuid", _WHAT)
        get_long(metadata, "last-sequence-number", _WHAT, low=0)
    else:
        # Format 1 has no such numbers; what it is upgraded to begins after the highest one.
        metadata.pop("last-sequence-number", None)
    if version > 2:
        metadata["next-row-id"] = get_long(metadata, "next-row-id", _WHAT, low=0)
    return metadata


def _open_schemas(metadata: Json, version: int) -> None:
    if metadata.get("schemas") is None and version == 1:
        schema = {"schema-id": 0, **get_object(metadata, "schema", _WHAT)}
        metadata["schemas"] = [schema]
        metadata["current-schema-id"] = schema["schema-id"]
    metadata["schemas"] = get_objects(metadata, "schemas", _WHAT)
    _check_chosen(metadata, "schemas", "schema-id", "current-schema-id")
    get_int(metadata, "last-column-id", _WHAT)


def _open_specs(metadata: Json, version: int) -> None:
    if metadata.get("partition-specs") is None and version == 1:
        fields = find_objects(metadata, "partition-spec", _WHAT)
        metadata["partition-specs"] = [{"spec-id": 0, "fields": fields}]
        metadata["default-spec-id"] = 0
    specs = get_objects(metadata, "partition-specs", _WHAT)
    metadata["partition-specs"] = [_with_field_ids(each) for each in specs]
    _check_chosen(metadata, "partition-specs", "spec-id", "default-spec-id")
    if find_int(metadata, "last-partition-id", _WHAT) is None:
        if version > 1:
            raise Invalid(f"{_WHAT}: 'last-partition-id' is missing")
        ids = [
            get_int(field, "field-id", _WHAT)
            for spec in metadata["partition-specs"]
            for field in spec["fields"]
        ]
        metadata["last-partition-id"] = max(ids, default=PARTITION_ID_FIRST - 1)


def _with_field_ids(spec: Json) -> Json:
    fields = get_objects(spec, "fields", f"{_WHAT}: a partition spec")
    if all(each.get("field-id") is not None for each in fields):
        return spec
    numbered = enumerate(fields, PARTITION_ID_FIRST)
    return {**spec, "fields": [{"field-id": number, **each} for number, each in numbered]}


def _open_orders(metadata: Json, version: int) -> None:
    if metadata.get("sort-orders") is None and version == 1:
        metadata["sort-orders"] = [{"order-id": 0, "fields": []}]
        metadata["default-sort-order-id"] = 0
    metadata["sort-orders"] = get_objects(metadata, "sort-orders", _WHAT)
    _check_chosen(metadata, "sort-orders", "order-id", "default-sort-order-id")


def _check_chosen(metadata: Json, among: str, name: str, chosen: str) -> None:
    for each in metadata[among]:
        get_int(each, name, f"{_WHAT}: {among!r}")
    number = get_int(metadata, chosen, _WHAT)
    if find_by_id(metadata[among], name, number) is None:
        raise Invalid(f"{_WHAT}: Cannot find {chosen}={number} in {among}")


def _open_references(metadata: Json) -> None:
    current = find_long(metadata, "current-snapshot-id", _WHAT)
    known = {get_long(each, "snapshot-id", _WHAT) for each in metadata["snapshots"]}
    metadata["refs"] = _references(metadata, current)
    for name, each in metadata["refs"].items():
        if each["snapshot-id"] not in known:
            raise Invalid(f"{_WHAT}: {name[:100]!r} points at a snapshot that is not there")
    if current is not None and current >= 0 and current not in known:
        raise Invalid(f"{_WHAT}: Cannot find current version")


def _references(metadata: Json, current: int | None) -> Json:
    current = None if current is None or current < 0 else current
    if metadata.get("refs") is None:
        return {} if current is None else {MAIN: {"snapshot-id": current, "type": "branch"}}
    refs = dict(get_object(metadata, "refs", _WHAT))
    for name, each in refs.items():
        get_long(as_object(each, f"{_WHAT}: {name[:100]!r}"), "snapshot-id", _WHAT)
    main = refs.get(MAIN)
    if main is not None and main["snapshot-id"] != current:
        raise Invalid(f"{_WHAT}: Current snapshot ID does not match main branch")
    return refs
