"""Following a branch: `changes` as a stream.

An offset names a commit: `{"ref": …, "commit": …, "seq": …}`. A batch is what lies between two of
them, which never changes, so a batch that is run again has the same rows.

Spark writes down where a batch ends, but not where the first one begins: it asks for that again
when it repeats it. By then `latest`, `main~2` or a tag may mean another commit, so the offset where
the first batch ends also has its beginning, `"from": {"commit": …, "seq": …}`, and the offset where
a query begins names no commit at all.

1. `latestOffset` looks where the branch is. If the commit of the last offset is not among the
   first parents of the new head, the branch was reassigned: the stream fails, or, with
   `onReassign=reset`, the next offset is the new head, marked with the commit that was lost. A new
   query looks now for the commit that `since` means.
2. Spark writes the offset into its checkpoint.
3. `partitions` cuts what lies between the two; for a marked offset it is one row, `reset`, which
   means that the reader must begin again from the state at that commit.
4. Spark runs the batch and marks it as done.

Without anything new Spark asks for the next offset many times a second. The feed then waits for the
event stream of the server (`branch_watch.py`) and asks for the head only if there may be a change.

A crash after 2 repeats 3 and 4 with the same two offsets. Sinks that know the batch's number make
that invisible: see `sink`.

On Spark 4.1 `latestOffset` is given neither the last offset nor a limit. They are
remembered here: Spark asks for the partitions of a batch before it asks for the next offset, and
after a restart for those of an empty one. With the trigger `availableNow` 4.1 runs one batch: the
one that it owes from before, or one with at most `maxCommits`; `catch_up` runs it until all is
read. From 4.2 on, `admission` gets both from Spark, and all is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from lochan.base.errors import HeadConflict, Invalid, ReferenceNotFound
from lochan.client import Client
from lochan.spark.history import commit_ranges, kinds
from lochan.spark.history.branch_watch import BranchWatch
from lochan.spark.history.commit_ranges import CommitPosition
from lochan.spark.history.options import Options
from lochan.spark.history.source import read_part, since

Offset = dict[str, Any]

_COMMIT: Final = "commit"
_FROM: Final = "from"
_LOST: Final = "reset"


class Reset(msgspec.Struct, frozen=True):
    """The only part of a batch that reports a reassigned branch."""

    seq: int
    commit: str
    lost: str


def stream_reader(options: Options, schema: StructType) -> DataSourceStreamReader:
    """Returns the reader of a stream, with admission control where Spark has it."""
    if options.kind != "changes":
        raise Invalid(f"only kind 'changes' can be followed as a stream, not {options.kind!r}")
    if not commit_ranges.is_name(options.ref):
        raise Invalid(
            f"a stream follows a branch: 'ref' must be the name of a branch, not {options.ref!r}"
        )
    kinds.check_schema(options.kind, schema)
    try:
        from lochan.spark.history.admission import AdmittedChanges
    except ModuleNotFoundError:
        return ChangeStream(options, schema)
    admitted: DataSourceStreamReader = AdmittedChanges(options, schema)
    return admitted


class ChangeStream(DataSourceStreamReader):
    """Follows one branch; one object lives beside the driver as long as the query runs."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self.options = options
        self.schema = schema
        self._seen: Offset | None = None
        self._watch: BranchWatch | None = None
        # The commit after which nothing was found: the feed waits there when Spark asks again.
        self._idle_at: CommitPosition | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's
        """Returns the first offset of a new query, which has no commit: the first batch has it."""
        return {"ref": self.options.ref}

    def latestOffset(self) -> Offset:  # noqa: N802 - Spark's
        """Returns where the next batch ends."""
        # Nothing was planned yet only where a query is new; old ones begin with an empty batch.
        start = self.initialOffset() if self._seen is None else self._seen
        return self.next_offset(start, self.options.commits_max)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Splits the commits between two offsets."""
        for each in (start, end):
            self.check_offset(each)
        self._seen = end
        if start == end:
            return []
        newest = _position(end)
        if _LOST in end:
            return [InputPartition(Reset(newest.seq, newest.commit, end[_LOST]))]
        older = _position(end.get(_FROM, start))
        if not commit_ranges.is_ancestor(self.client, older, newest):
            raise self.reassigned(older, newest)
        found = commit_ranges.split_range(newest, older.seq, self.options.commits_per_partition)
        return [InputPartition(part) for part in found]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yields the rows of a part, in batches."""
        part = partition.value
        if isinstance(part, Reset):
            row = kinds.reset_row(part.seq, part.commit, part.lost)
            return iter((kinds.arrow_batch(self.options.kind, self.schema, [row]),))
        return read_part(self.options, self.schema, part)

    def commit(self, end: Offset) -> None:
        """Does nothing: history stays whether it was read or not."""

    def stop(self) -> None:
        """Ends what waits for changes."""
        if self._watch is not None:
            self._watch.stop()

    @property
    def client(self) -> Client:
        """The connection of the planning side."""
        return self.options.client()

    def head(self, seen: CommitPosition | None = None) -> CommitPosition:
        """Returns the head of the branch, ReferenceNotFound if the branch is gone.

        Streams that wait ask this often, and to number a commit costs the server far more than to
        name it, so a commit that was `seen` is not numbered again.
        """
        try:
            if seen and commit_ranges.commit_of(self.client, self.options.ref) == seen.commit:
                return seen
            return commit_ranges.position_of(self.client, self.options.ref)
        except ReferenceNotFound as error:
            raise ReferenceNotFound(
                f"the branch {self.options.ref!r} that this stream follows does not exist: "
                f"{error.message}"
            ) from None

    def next_offset(
        self, start: Offset, commits_max: int | None, until: CommitPosition | None = None
    ) -> Offset:
        """Returns the end of the batch that begins at `start`, at `until` at the latest."""
        self.check_offset(start)
        if _COMMIT not in start:
            head = until or self.head()
            here = since(self.client, self.options.since, head)
            begun = {_FROM: {_COMMIT: here.commit, "seq": here.seq}}
            return {**self.offset(self.at_most(here, head, commits_max)), **begun}
        here = _position(start)
        if until is None and self._idle_at == here and not self._may_have_changed():
            return start
        head = until or self.head(here)
        if head == here:
            self._idle_at = here
            return start
        if not commit_ranges.is_ancestor(self.client, here, head):
            if not self.options.reset:
                raise self.reassigned(here, head)
            return {**self.offset(head), _LOST: here.commit}
        return self.offset(self.at_most(here, head, commits_max))

    def _may_have_changed(self) -> bool:
        """Waits for a change of the branch, but not for long; it may be there already."""
        if self._watch is None:
            self._watch = BranchWatch(self.client, self.options.ref)
        return self._watch.may_have_changed()

    def at_most(
        self, here: CommitPosition, head: CommitPosition, commits_max: int | None
    ) -> CommitPosition:
        """Returns the head, or the commit so many commits after a place on its line."""
        if commits_max is None or head.seq - here.seq <= commits_max:
            return head
        seq = here.seq + commits_max
        return CommitPosition(commit_ranges.ancestor(self.client, head, seq), seq)

    def offset(self, at: CommitPosition) -> Offset:
        """Returns the offset that names a commit."""
        return {"ref": self.options.ref, "commit": at.commit, "seq": at.seq}

    def check_offset(self, offset: Offset) -> None:
        """Refuses an offset of another stream, or of none."""
        if offset.get("ref") != self.options.ref:
            raise Invalid(
                f"the checkpoint belongs to a stream of {offset.get('ref')!r}, and this one "
                f"follows {self.options.ref!r}; give it a checkpoint of its own"
            )

    def reassigned(self, here: CommitPosition, head: CommitPosition) -> HeadConflict:
        """Returns the error for a branch that was reassigned."""
        return HeadConflict(
            f"the branch {self.options.ref!r} was reassigned: commit {here.commit}, where this "
            f"stream is, is not in the history of its head {head.commit}. Begin with a new "
            "checkpoint, or set onReassign=reset to get a row about it and go on from the head"
        )


def _position(offset: Offset) -> CommitPosition:
    """Returns the commit that an offset names."""
    if _COMMIT not in offset:
        raise Invalid(
            "the checkpoint lacks the beginning of its first batch, so another version wrote it; "
            "give the stream a new one"
        )
    return CommitPosition(offset[_COMMIT], offset["seq"])
