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
   tells the reader to begin again from the state at that commit.
4. Spark runs the batch and marks it as done.

A crash after 2 repeats 3 and 4 with the same two offsets. Sinks that know the batch's number make
that invisible: see `sink`.

On Spark 4.1 `latestOffset` is told neither where the stream is nor how much is wanted. It is
remembered here: Spark asks for the partitions of a batch before it asks for the next offset, and
after a restart for those of an empty one. With the trigger `availableNow` 4.1 runs one batch: the
one that it owes from before, or one with at most `maxCommits`; `catch_up` runs it until all is
read. From 4.2 on, `admission` has what Spark tells, and all is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from lochan.base.errors import HeadConflict, Invalid, ReferenceNotFound
from lochan.client import Client
from lochan.spark.history import kinds, walks
from lochan.spark.history.options import Options
from lochan.spark.history.source import read_part, since
from lochan.spark.history.walks import Pin

Offset = dict[str, Any]

_COMMIT: Final = "commit"
_FROM: Final = "from"
_LOST: Final = "reset"


class Reset(msgspec.Struct, frozen=True):
    """The part of a batch that tells of a reassigned branch."""

    seq: int
    commit: str
    lost: str


def stream_reader(wanted: Options, schema: StructType) -> DataSourceStreamReader:
    """Returns what follows a branch, with admission control where Spark has it."""
    if wanted.kind != "changes":
        raise Invalid(f"only kind 'changes' can be followed as a stream, not {wanted.kind!r}")
    if not walks.is_name(wanted.ref):
        raise Invalid(
            f"a stream follows what moves, so 'ref' is the name of a branch, not {wanted.ref!r}"
        )
    kinds.check_schema(wanted.kind, schema)
    try:
        from lochan.spark.history.admission import AdmittedChanges
    except ModuleNotFoundError:
        return ChangeStream(wanted, schema)
    admitted: DataSourceStreamReader = AdmittedChanges(wanted, schema)
    return admitted


class ChangeStream(DataSourceStreamReader):
    """Follows one branch; one object lives beside the driver as long as the query runs."""

    def __init__(self, wanted: Options, schema: StructType) -> None:
        self.wanted = wanted
        self.shape = schema
        self._seen: Offset | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's
        """Returns where a new query begins, which names no commit: the first batch does."""
        return {"ref": self.wanted.ref}

    def latestOffset(self) -> Offset:  # noqa: N802 - Spark's
        """Returns where the next batch ends."""
        # Nothing was planned yet only where a query is new; old ones begin with an empty batch.
        start = self.initialOffset() if self._seen is None else self._seen
        return self.next_offset(start, self.wanted.commits_max)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Cuts what lies between two offsets."""
        for each in (start, end):
            self.check_offset(each)
        self._seen = end
        if start == end:
            return []
        newest = _pin(end)
        if _LOST in end:
            return [InputPartition(Reset(newest.seq, newest.commit, end[_LOST]))]
        older = _pin(end.get(_FROM, start))
        self.check_ancestor(older, newest)
        found = walks.slices(newest, older.seq, self.wanted.commits_per_partition)
        return [InputPartition(part) for part in found]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yields the rows of a part, in batches."""
        part = partition.value
        if isinstance(part, Reset):
            row = kinds.reset_row(part.seq, part.commit, part.lost)
            return iter((kinds.arrow_batch(self.wanted.kind, self.shape, [row]),))
        return read_part(self.wanted, self.shape, part)

    def commit(self, end: Offset) -> None:
        """Does nothing: history stays whether it was read or not."""

    @property
    def client(self) -> Client:
        """The connection of the planning side."""
        return self.wanted.client()

    def head(self, seen: Pin | None = None) -> Pin:
        """Returns where the branch is, ReferenceNotFound if it is gone.

        Streams that wait ask this all the time, and to number a commit costs the server far more
        than to name it, so a commit that was `seen` is not numbered again.
        """
        try:
            if seen and walks.commit_of(self.client, self.wanted.ref) == seen.commit:
                return seen
            return walks.pin(self.client, self.wanted.ref)
        except ReferenceNotFound as error:
            raise ReferenceNotFound(
                f"the branch {self.wanted.ref!r} that this stream follows is not there: "
                f"{error.message}"
            ) from None

    def next_offset(
        self, start: Offset, commits_max: int | None, until: Pin | None = None
    ) -> Offset:
        """Returns where the next batch ends that begins there, at `until` at the latest."""
        self.check_offset(start)
        if _COMMIT not in start:
            head = until or self.head()
            here = since(self.client, self.wanted.since, head)
            begun = {_FROM: {_COMMIT: here.commit, "seq": here.seq}}
            return {**self.offset(self.at_most(here, head, commits_max)), **begun}
        here = _pin(start)
        head = until or self.head(here)
        if head == here:
            return start
        if not walks.is_ancestor(self.client, here, head):
            if not self.wanted.reset:
                raise self.reassigned(here, head)
            return {**self.offset(head), _LOST: here.commit}
        return self.offset(self.at_most(here, head, commits_max))

    def at_most(self, here: Pin, head: Pin, commits_max: int | None) -> Pin:
        """Returns the head, or the commit so many commits after a place on its line."""
        if commits_max is None or head.seq - here.seq <= commits_max:
            return head
        seq = here.seq + commits_max
        return Pin(walks.ancestor(self.client, head, seq), seq)

    def offset(self, at: Pin) -> Offset:
        """Returns the offset that names a commit."""
        return {"ref": self.wanted.ref, "commit": at.commit, "seq": at.seq}

    def check_offset(self, offset: Offset) -> None:
        """Refuses an offset of another stream, or of none."""
        if offset.get("ref") != self.wanted.ref:
            raise Invalid(
                f"the checkpoint belongs to a stream of {offset.get('ref')!r}, and this one "
                f"follows {self.wanted.ref!r}; give it a checkpoint of its own"
            )

    def check_ancestor(self, older: Pin, newest: Pin) -> None:
        """Refuses a batch whose commits do not lie on one line."""
        if not walks.is_ancestor(self.client, older, newest):
            raise self.reassigned(older, newest)

    def reassigned(self, here: Pin, head: Pin) -> HeadConflict:
        """Returns the error for a branch that leads elsewhere."""
        return HeadConflict(
            f"the branch {self.wanted.ref!r} was reassigned: commit {here.commit}, where this "
            f"stream is, is not in the history of its head {head.commit}. Begin with a new "
            "checkpoint, or set onReassign=reset to be told by a row and go on from the head"
        )


def _pin(offset: Offset) -> Pin:
    """Returns the commit that an offset names."""
    if _COMMIT not in offset:
        raise Invalid(
            "the checkpoint does not say where its first batch began, so another version wrote it; "
            "give the stream a new one"
        )
    return Pin(offset[_COMMIT], offset["seq"])
