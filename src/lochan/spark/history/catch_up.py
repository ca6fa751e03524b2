"""Reading everything that is there, on every version of Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.readwriter import DataStreamWriter

from lochan.base.errors import Invalid
from lochan.spark.error_boundary import error_boundary
from lochan.spark.history import commit_ranges

if TYPE_CHECKING:
    from lochan.spark.lake import Lake


@error_boundary
def catch_up(lake: Lake, ref: str, writer: DataStreamWriter) -> None:
    """Runs a query until it has read every commit that a branch has when this is called.

    `writer` starts a query on `lake.changes(ref, follow=True)` with a checkpoint and the trigger
    `availableNow`. Spark 4.1 ends such a query after one batch, even if that is one which it owed
    from before, or one of `commits_max` commits; so it is started until nothing is left.
    """
    goal = commit_ranges.position_of(lake.client, ref)
    while True:
        query = writer.start()
        query.awaitTermination()
        start, end = _offsets(query.lastProgress, ref)
        head = commit_ranges.position_of(lake.client, ref)
        reached = commit_ranges.CommitPosition(end["commit"], end["seq"])
        if not commit_ranges.is_ancestor(lake.client, goal, head):
            # The branch was reassigned, and what it had at the call it has no longer.
            goal = head
        # On the branch: a batch that was owed may end with what was taken away since.
        is_there = commit_ranges.is_ancestor(lake.client, reached, head)
        if start == end or (is_there and commit_ranges.is_ancestor(lake.client, goal, reached)):
            return


def all_offsets(progress: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yields the beginning and the end of the last batch of a query, by source of ours."""
    for source in json.loads(progress.json)["sources"] if progress is not None else ():
        start, end = _offset(source["startOffset"]), _offset(source["endOffset"])
        if isinstance(end, dict):
            yield start, end


def _offset(offset: Any) -> Any:
    """Returns an offset; through Connect it is JSON in a text, for other sources any text."""
    try:
        return json.loads(offset) if isinstance(offset, str) else offset
    except json.JSONDecodeError:
        return offset


def _offsets(progress: Any, ref: str) -> tuple[Any, Any]:
    """Returns where the last batch of a query began and ended on a branch."""
    for start, end in all_offsets(progress):
        if end.get("ref") == ref:
            return start, end
    raise Invalid(f"the query does not follow {ref!r}, or it ended before its first batch")
