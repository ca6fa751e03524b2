"""Small tables and updates to try the metadata engine on."""

from __future__ import annotations

from typing import Any

from lochan.catalog.iceberg import apply_updates, build_table

Json = dict[str, Any]

UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
NOW = 1_700_000_000_000


def column(number, name, kind="long", *, required=False, **more) -> Json:
    return {"id": number, "name": name, "required": required, "type": kind, **more}


def schema(*columns: Json, **more) -> Json:
    return {"type": "struct", "fields": list(columns), **more}


SCHEMA = schema(
    column(1, "id", required=True),
    column(2, "at", "timestamptz"),
    column(3, "name", "string"),
)


def partition(source, name, transform="identity", **more) -> Json:
    return {"source-id": source, "name": name, "transform": transform, **more}


def sorting(source, **more) -> Json:
    return {
        "source-id": source,
        "transform": "identity",
        "direction": "asc",
        "null-order": "nulls-first",
        **more,
    }


def table(version: int = 2, **more) -> Json:
    given = {
        "uuid": UUID,
        "location": "s3://lake/t",
        "schema": SCHEMA,
        "spec": {"fields": [partition(2, "at_day", "day")]},
        "order": None,
        "properties": {"owner": "us"},
        "format_version": version,
        "now_ms": NOW,
    }
    return build_table(**(given | more))


def snapshot(number, sequence_number=None, **more) -> Json:
    return {
        "snapshot-id": number,
        "sequence-number": number if sequence_number is None else sequence_number,
        "timestamp-ms": NOW + number,
        "manifest-list": f"s3://lake/t/metadata/snap-{number}.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
        **more,
    }


def adding(number, **more) -> Json:
    return {"action": "add-snapshot", "snapshot": snapshot(number, **more)}


def pointing(number, name="main", kind="branch", **more) -> Json:
    return {
        "action": "set-snapshot-ref",
        "ref-name": name,
        "type": kind,
        "snapshot-id": number,
        **more,
    }


def changed(metadata, *updates, now_ms=NOW + 1_000, **more) -> Json:
    return apply_updates(metadata, list(updates), now_ms=now_ms, **more)


def grown(metadata: Json, *numbers: int) -> Json:
    """The table after one commit for each snapshot, one upon the other."""
    for number in numbers:
        parent = metadata.get("current-snapshot-id")
        more = {} if parent in (None, -1) else {"parent-snapshot-id": parent}
        if metadata["format-version"] == 3:
            more |= {"first-row-id": metadata["next-row-id"], "added-rows": 10}
        metadata = changed(metadata, adding(number, **more), pointing(number), now_ms=NOW + number)
    return metadata


def logged(metadata: Json) -> list[int]:
    return [each["snapshot-id"] for each in metadata["snapshot-log"]]


def ids(metadata: Json, among: str, name: str) -> list[int]:
    return [each[name] for each in metadata[among]]
