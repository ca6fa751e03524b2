"""Loading of stored table metadata for a change: a checked and completed copy.

Older metadata of format 1 lacks lists of schemas and specs, sort orders and references. What is
missing is filled in as readers understand it.
"""

from __future__ import annotations

from typing import Final

from lochan.base.errors import Invalid
from lochan.catalog.iceberg.draft import (
    FORMATS,
    MAIN,
    ORDERS,
    PARTITION_ID_FIRST,
    SCHEMAS,
    SPECS,
    IdList,
    find_by_id,
)
from lochan.catalog.iceberg.values import (
    Json,
    as_object,
    check_bounds,
    find,
    get_int,
    get_long,
    get_object,
    get_objects,
    get_text,
    get_text_map,
)

_LABEL: Final = "table metadata"
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


def load_current(stored: Json) -> Json:
    """Returns the current part of stored metadata, without reading the list of snapshots.

    A table may have thousands of snapshots; requirements and contents need only the current part.
    """
    version = _version(as_object(stored, _LABEL))
    if version == 1:
        return load_metadata(stored)
    current = {name: get_int(stored, name, _LABEL) for name in _CURRENT}
    snapshot_id = find(get_long, stored, "current-snapshot-id", _LABEL)
    return {
        **current,
        "format-version": version,
        "table-uuid": get_text(stored, "table-uuid", _LABEL),
        "current-snapshot-id": snapshot_id,
        "refs": _references(stored, snapshot_id),
    }


def _version(stored: Json) -> int:
    version = get_int(stored, "format-version", _LABEL)
    if version not in FORMATS:
        raise Invalid(f"{_LABEL}: Cannot read unsupported version {version}")
    return version


def load_metadata(stored: Json) -> Json:
    """Returns a checked copy of stored metadata with all fields that updates change."""
    metadata = dict(as_object(stored, _LABEL))
    check_bounds(metadata, _LABEL)
    version = _version(metadata)
    get_text(metadata, "location", _LABEL)
    metadata["last-updated-ms"] = find(get_long, metadata, "last-updated-ms", _LABEL, low=0) or 0
    for name in _LISTS:
        metadata[name] = find(get_objects, metadata, name, _LABEL) or []
    for name in ("statistics", "partition-statistics", "snapshot-log"):
        for each in metadata[name]:
            get_long(each, "snapshot-id", f"{_LABEL}: {name!r}")
    _load_schemas(metadata, version)
    _load_specs(metadata, version)
    _load_orders(metadata, version)
    metadata["properties"] = find(get_text_map, metadata, "properties", _LABEL) or {}
    _load_references(metadata)
    if version > 1:
        get_text(metadata, "table-uuid", _LABEL)
        get_long(metadata, "last-sequence-number", _LABEL, low=0)
    else:
        # Format 1 has no such number; an upgrade computes it from the snapshots.
        metadata.pop("last-sequence-number", None)
    if version > 2:
        metadata["next-row-id"] = get_long(metadata, "next-row-id", _LABEL, low=0)
    return metadata


def _load_schemas(metadata: Json, version: int) -> None:
    if metadata.get("schemas") is None and version == 1:
        schema = {"schema-id": 0, **get_object(metadata, "schema", _LABEL)}
        metadata["schemas"] = [schema]
        metadata["current-schema-id"] = schema["schema-id"]
    metadata["schemas"] = get_objects(metadata, "schemas", _LABEL)
    _check_chosen(metadata, SCHEMAS)
    get_int(metadata, "last-column-id", _LABEL)


def _load_specs(metadata: Json, version: int) -> None:
    if metadata.get("partition-specs") is None and version == 1:
        fields = find(get_objects, metadata, "partition-spec", _LABEL) or []
        metadata["partition-specs"] = [{"spec-id": 0, "fields": fields}]
        metadata["default-spec-id"] = 0
    specs = get_objects(metadata, "partition-specs", _LABEL)
    metadata["partition-specs"] = [_with_field_ids(each) for each in specs]
    _check_chosen(metadata, SPECS)
    if find(get_int, metadata, "last-partition-id", _LABEL) is None:
        if version > 1:
            raise Invalid(f"{_LABEL}: 'last-partition-id' is missing")
        ids = [
            get_int(field, "field-id", _LABEL)
            for spec in metadata["partition-specs"]
            for field in spec["fields"]
        ]
        metadata["last-partition-id"] = max(ids, default=PARTITION_ID_FIRST - 1)


def _with_field_ids(spec: Json) -> Json:
    fields = get_objects(spec, "fields", f"{_LABEL}: a partition spec")
    if all(each.get("field-id") is not None for each in fields):
        return spec
    numbered = enumerate(fields, PARTITION_ID_FIRST)
    return {**spec, "fields": [{"field-id": number, **each} for number, each in numbered]}


def _load_orders(metadata: Json, version: int) -> None:
    if metadata.get("sort-orders") is None and version == 1:
        metadata["sort-orders"] = [{"order-id": 0, "fields": []}]
        metadata["default-sort-order-id"] = 0
    metadata["sort-orders"] = get_objects(metadata, "sort-orders", _LABEL)
    _check_chosen(metadata, ORDERS)


def _check_chosen(metadata: Json, ids: IdList) -> None:
    for each in metadata[ids.name]:
        get_int(each, ids.id_field, f"{_LABEL}: {ids.name!r}")
    number = get_int(metadata, ids.chosen_field, _LABEL)
    if find_by_id(metadata, ids, number) is None:
        raise Invalid(f"{_LABEL}: Cannot find {ids.chosen_field}={number} in {ids.name}")


def _load_references(metadata: Json) -> None:
    current = find(get_long, metadata, "current-snapshot-id", _LABEL)
    known = {get_long(each, "snapshot-id", _LABEL) for each in metadata["snapshots"]}
    metadata["refs"] = _references(metadata, current)
    for name, each in metadata["refs"].items():
        if each["snapshot-id"] not in known:
            raise Invalid(f"{_LABEL}: {name[:100]!r} points to a snapshot that does not exist")
    if current is not None and current >= 0 and current not in known:
        raise Invalid(f"{_LABEL}: Cannot find current version")


def _references(metadata: Json, current: int | None) -> Json:
    current = None if current is None or current < 0 else current
    if metadata.get("refs") is None:
        return {} if current is None else {MAIN: {"snapshot-id": current, "type": "branch"}}
    refs = dict(get_object(metadata, "refs", _LABEL))
    for name, each in refs.items():
        get_long(as_object(each, f"{_LABEL}: {name[:100]!r}"), "snapshot-id", _LABEL)
    main = refs.get(MAIN)
    if main is not None and main["snapshot-id"] != current:
        raise Invalid(f"{_LABEL}: Current snapshot ID does not match main branch")
    return refs
