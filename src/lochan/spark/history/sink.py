"""Streams into tables, each micro-batch exactly once.

    stream.writeStream.foreachBatch(append_to(lake, "shop.orders", branch="main", query="orders"))

Spark repeats a batch whose end it did not write down. A batch is written as the job
`query/checkpoint/number`; a table remembers the jobs that have written into it, so a batch that
comes again does nothing.

The numbers belong to a checkpoint: with another one they begin again and mean other rows. Spark
keeps an id of the query in its checkpoint, which is the `checkpoint` of the job. A batch of another
checkpoint under the same name is refused: whether it was written before cannot be decided. Through
Connect on Spark 4.3 the id is not known; there a batch that was written before must at least have
as many rows as it had then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lochan.base.errors import Conflict, Invalid, NotFound
from lochan.spark.error_boundary import error_boundary
from lochan.spark.history.catch_up import all_offsets
from lochan.spark.history.frames import FOLLOWS, source_mark

if TYPE_CHECKING:
    from lochan.spark.lake import Lake
    from lochan.spark.write.bases import OnChange
    from lochan.spark.write.table_write import Mode

# The local property of a task that holds the id of its query.
_QUERY: Final = "sql.streaming.queryId"

# The checkpoint part of a job where Spark does not provide the id.
_UNKNOWN_QUERY: Final = "-"


@error_boundary
def append_to(
    lake: Lake,
    table: str,
    branch: str | None = None,
    *,
    query: str,
    mode: Mode = "append",
    keys: Sequence[str] = (),
    message: str | None = None,
    partition_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    required: Sequence[str] = (),
    create: bool = True,
    on_change: OnChange = "conflict",
) -> BatchWriter:
    """Returns the function for `foreachBatch` that writes a stream into a table.

    `query` names the stream and its checkpoint for ever. The same name with another checkpoint is
    a Conflict and nothing is written: go on with the old checkpoint, or choose another name for
    what is another stream. Through Connect, where several queries run in one session, Spark must
    know the query by that name too: `.queryName(query)`. The other options are those of
    `lake.write`, for example `mode="merge", keys=["id"]`.
    """
    if not query or "/" in query:
        raise Invalid(f"a stream has a name without slashes, not {query!r}")
    branch = lake.default_branch if branch is None else branch
    more = {
        "mode": mode,
        "keys": keys,
        "message": message,
        "partition_by": partition_by,
        "properties": properties,
        "required": required,
        "create": create,
        "on_change": on_change,
    }
    return BatchWriter(lake, table, branch, query, more)


class BatchWriter:
    """Writes the batches of one stream.

    Through Connect it runs beside the server of the session, so only
    addresses are pickled and the lake is opened again there.
    """

    def __init__(
        self, lake: Lake, table: str, branch: str, query: str, more: Mapping[str, Any]
    ) -> None:
        self._lake: Lake | None = lake
        self._place: dict[str, Any] = {
            "address": lake.uri,
            "warehouse": lake.warehouse,
            "repository": lake.repository,
            "files": lake.files,
            "author": lake.author or None,
        }
        self._table = table
        self._branch = branch
        self._query = query
        self._more = dict(more)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lake": None}

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Writes one batch, unless it was written before."""
        if self._lake is not None:
            self._write(self._lake, frame, batch)
            return
        from lochan.spark.lake import Lake

        with Lake(frame.sparkSession, **self._place) as lake:
            self._write(lake, frame, batch)

    def _write(self, lake: Lake, frame: DataFrame, batch: int) -> None:
        checkpoint = _checkpoint_of(frame, self._query)
        self._check_other_branch(lake, frame, checkpoint)
        ours = f"{self._query}/{checkpoint}/"
        self._check_alone(lake, ours)
        job = f"{ours}{batch}"
        lake.write(frame, self._table, branch=self._branch, job=job, **self._more)

    def _check_other_branch(self, lake: Lake, frame: DataFrame, checkpoint: str) -> None:
        """Refuses to write to the branch that the stream follows: each batch would bring the next.

        The columns of `lake.changes` are marked with the branch, so the first batch is refused. If
        the stream was made otherwise, or all columns are computed, the progress of the batch before
        shows the branch, so the second batch is refused.
        """
        mine = source_mark(lake, self._branch)
        marked = any(field.metadata.get(FOLLOWS) == mine for field in frame.schema.fields)
        if marked or self._is_followed_by(lake, checkpoint):
            raise Invalid(
                f"the stream {self._query!r} follows {self._branch!r} and would write to it, so "
                "each batch would bring the next one, without end; nothing is written: follow or "
                "write another branch"
            )

    def _is_followed_by(self, lake: Lake, checkpoint: str) -> bool:
        """Returns whether the query with this id follows the branch, according to its progress."""
        for query in lake.spark.streams.active:
            if str(query.id) != checkpoint:
                continue
            for _, end in all_offsets(query.lastProgress):
                commit = end.get("commit")
                if end.get("ref") == self._branch and isinstance(commit, str):
                    return _is_known(lake, commit)
        return False

    def _check_alone(self, lake: Lake, ours: str) -> None:
        """Refuses to write beside batches of another checkpoint."""
        from lochan.spark.write.existing_tables import find_table
        from lochan.spark.write.jobs import jobs_of_others

        head = lake.client.references.get(self._branch).hash
        if find_table(lake.catalog.at(head), self._table) is None:
            return
        unknown = f"{self._query}/{_UNKNOWN_QUERY}/"
        for job in jobs_of_others(lake, self._table, head, f"{self._query}/", ours):
            if unknown == ours or job.startswith(unknown):
                raise Conflict(
                    f"{self._table} on {self._branch} has batches of the stream {self._query!r}, "
                    "some from Connect on Spark 4.3, which does not show the checkpoint, and some "
                    "from elsewhere, so whether they are of one checkpoint is unknown. Let the "
                    "stream end where it ran before, with no batch left unfinished; then give "
                    "append_to another name as query"
                )
            raise Conflict(
                f"{self._table} on {self._branch} has batches of a stream {self._query!r} with "
                "another checkpoint, so which of its batches are written already is unknown. "
                "Go on with that checkpoint, or, if this is another stream, give append_to "
                "another name as query; a new checkpoint reads again from its beginning"
            )


def _is_known(lake: Lake, commit: str) -> bool:
    """Returns whether a commit is of this repository: others have branches of the same name."""
    try:
        return bool(lake.client.history.log(commit, 1).items)
    except NotFound:
        return False


def _checkpoint_of(frame: DataFrame, name: str) -> str:
    """Returns the id that Spark keeps in the checkpoint of the query whose batch this is."""
    from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

    spark = frame.sparkSession
    if not isinstance(frame, ClassicFrame):
        return _running(spark, name)
    # For every batch: its frame may be of a session that other queries work in as well.
    (row,) = spark.range(1).mapInArrow(_query_of_task, "id string").collect()
    if row.id is None:
        raise Invalid("the function of append_to must be called by foreachBatch, in a stream")
    return str(row.id)


def _running(spark: SparkSession, name: str) -> str:
    """Returns the id of the one query that runs in a session, or of the one with that name."""
    running = spark.streams.active
    if not running:
        # From 4.3 on a batch has a session of its own, which knows of no query.
        return _UNKNOWN_QUERY
    if len(running) > 1:
        running = [query for query in running if query.name == name]
    if len(running) != 1:
        raise Invalid(
            "several queries run in this session, and through Connect only the name shows which "
            f"of them this batch is of: start it with .queryName({name!r})"
        )
    return str(running[0].id)


def _query_of_task(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    """Yields the id of the query that this task works for."""
    from pyspark import TaskContext

    task = TaskContext.get()
    for _ in batches:
        found = None if task is None else task.getLocalProperty(_QUERY)
        yield pa.RecordBatch.from_pydict({"id": pa.array([found], pa.string())})
