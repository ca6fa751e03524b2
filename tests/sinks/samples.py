"""Events for tests of sinks."""

from __future__ import annotations

from typing import Any

from lochan.model.commits import CommitMeta
from lochan.model.contents import IcebergTable
from lochan.model.events import CommitMade, ContentStored, Event, EventReference, OperationSummary

TIME_US = 1_700_000_000_123_456
HASH = "aa" * 32


def _common(event_type: str, number: int, reference: str, repository: str) -> dict[str, Any]:
    return {
        "id": f"0e8f4d7c-1111-5222-8333-{number:012x}",
        "type": event_type,
        "time_us": TIME_US + number,
        "sent_by": "host/7",
        "initiator": "ada",
        "roles": ("etl",),
        "repository": repository,
        "reference": EventReference(reference, f"/refs/heads/{reference}", "BRANCH", 3),
        "version": 0,
        "operation": "0f" * 16,
    }


def stored_event(number: int = 1, *, reference: str = "main", repository: str = "default") -> Event:
    """An event of a table."""
    return ContentStored(
        **_common("CONTENT_STORED", number, reference, repository),
        hash=HASH,
        commit_time_us=TIME_US,
        content_type="ICEBERG_TABLE",
        key=("sales", "orders"),
        content=IcebergTable(
            id="i",
            metadata_location="s3://x",
            snapshot_id=1,
            schema_id=2,
            spec_id=3,
            sort_order_id=4,
        ),
    )


def commit_event(operations: int) -> Event:
    """An event of a commit with so many operations."""
    summaries = [
        OperationSummary("PUT", (f"a-long-name-of-a-table-{n}",)) for n in range(operations)
    ]
    return CommitMade(
        **_common("COMMIT", 2, "main", "default"),
        hash_before=HASH,
        hash_after=HASH,
        meta=CommitMeta(message="do"),
        operations=tuple(summaries),
    )
