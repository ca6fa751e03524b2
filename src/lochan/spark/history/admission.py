"""Following a branch with admission control, on Spark 4.2 and later.

Importing this needs Spark 4.2: `pyspark.sql.streaming.datasource` is not in 4.1.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.datasource import (  # type: ignore[import-not-found]
    ReadAllAvailable,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from lochan.spark.history.commit_ranges import CommitPosition
from lochan.spark.history.options import Options
from lochan.spark.history.stream import ChangeStream, Offset


class AdmittedChanges(ChangeStream, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Follows one branch; Spark passes the last offset and the limit of a batch."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema)
        self._until: CommitPosition | None = None

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 - Spark's
        """Returns the limit of commits in a batch, as one of rows: Spark has no other."""
        commits_max = self.options.commits_max
        return ReadAllAvailable() if commits_max is None else ReadMaxRows(commits_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's
        """Keeps the present head of the branch; the query ends there."""
        self._until = self.head()

    def latestOffset(  # type: ignore[override]  # noqa: N802
        self, start: Offset, limit: Any
    ) -> Offset:
        """Returns where the next batch ends."""
        commits_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self.next_offset(start, commits_max, self._until)
