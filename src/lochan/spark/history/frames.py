"""History as frames: the methods `refs`, `log`, `changes`, `entries` and `diff` of a lake.

A frame is pinned to commits when it is made, so that it shows the same rows however often it is
used, and two frames of one moment fit together; only references are read anew each time, because
they have no history of their own, and a stream moves on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal
from weakref import WeakSet

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from lochan.base.errors import Invalid, StoreClosed
from lochan.client import Client
from lochan.spark.error_boundary import error_boundary
from lochan.spark.history import commit_ranges
from lochan.spark.history.options import EARLIEST, LATEST, read_options
from lochan.spark.history.source import LochanSource

_known: Final[WeakSet[SparkSession]] = WeakSet()

FOLLOWS: Final = "lochan.follows"
"""The name in the metadata of a column under which the mark of its stream is found."""


def source_mark(lake: HistoryFrames, ref: str) -> str:
    """Returns the mark of the columns of a stream that follows a branch."""
    return f"{lake.uri} {lake.repository} {ref}"


class HistoryFrames:
    """The part of a lake that returns the history of its repository as frames."""

    spark: SparkSession
    uri: str
    repository: str
    client: Client
    default_branch: str
    _is_closed: bool = False

    def _branch(self, given: str | None) -> str:
        """Returns a name; only None is the default branch, an empty text is a mistake."""
        self._check_open()
        return self.default_branch if given is None else given

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreClosed("this lake is closed; open another one")

    @error_boundary
    def refs(self, *, prefix: str = "", metadata: bool = False) -> DataFrame:
        """Returns the branches and tags whose names start with `prefix`.

        `metadata` adds the numbers of their commits: all, ahead, and behind.
        """
        return self._frame("refs", {"prefix": prefix or None, "metadata": metadata})

    @error_boundary
    def log(
        self,
        ref: str | None = None,
        *,
        since: str | None = None,
        commits_per_partition: int | None = None,
    ) -> DataFrame:
        """Returns the commits of a reference, those after `since` if that is given."""
        return self._commits("log", ref, since, commits_per_partition)

    @error_boundary
    def changes(
        self,
        ref: str | None = None,
        *,
        since: str | None = None,
        commits_per_partition: int | None = None,
        follow: bool = False,
        commits_max: int | None = None,
        on_reassign: Literal["fail", "reset"] = "fail",
    ) -> DataFrame:
        """Returns what the commits of a reference changed, a row for each key of each commit.

        `since` leaves out what that commit already had. `follow` returns a stream of a branch that
        goes on with what is committed later, with at most `commits_max` commits a batch;
        `on_reassign` is what it does when the branch is assigned to another line of commits. On
        Spark 4.1 a query with the trigger `availableNow` ends after one batch, the one that it owes
        or the next one, whatever is left: `catch_up` runs it until all is read.
        """
        if not follow:
            if commits_max is not None or on_reassign != "fail":
                raise Invalid("commits_max and on_reassign are for streams: add follow=True")
            return self._commits("changes", ref, since, commits_per_partition)
        branch = self._branch(ref)
        options = {
            "ref": branch,
            "since": since,
            "maxCommits": commits_max,
            "onReassign": on_reassign,
            "commitsPerPartition": commits_per_partition,
        }
        given = self._options("changes", options)
        read_options(given, follow=True)
        stream = self.spark.readStream.format(LochanSource.name()).options(**given).load()
        # A mark that stays on columns however they are chosen and named, for sinks to see.
        mark = {FOLLOWS: source_mark(self, branch)}
        return stream.select(*(F.col(name).alias(name, metadata=mark) for name in stream.columns))

    @error_boundary
    def entries(
        self,
        ref: str | None = None,
        *,
        prefix: str = "",
        content: bool = True,
        keys_per_partition: int | None = None,
    ) -> DataFrame:
        """Returns what a reference holds; without `content` only keys, types and ids.

        `prefix` is a key, `shop` or `shop.orders`, and what lies below it; one with a dot inside an
        element is written with a dot before each element and `*.` for those inside: `.odd*.name`.
        """
        options = {
            "ref": commit_ranges.commit_of(self.client, self._branch(ref)),
            "prefix": prefix or None,
            "content": content,
            "keysPerPartition": keys_per_partition,
        }
        return self._frame("entries", options)

    @error_boundary
    def diff(self, before: str, after: str, *, prefix: str = "") -> DataFrame:
        """Returns the keys that differ between two references; `prefix` as for entries."""
        given = {
            name: commit_ranges.commit_of(self.client, self._branch(ref))
            for name, ref in (("from", before), ("to", after))
        }
        return self._frame("diff", {"prefix": prefix or None, **given})

    def _commits(
        self, kind: str, ref: str | None, since: str | None, commits_per_partition: int | None
    ) -> DataFrame:
        newest = commit_ranges.position_of(self.client, self._branch(ref))
        if since is not None and since not in (EARLIEST, LATEST):
            since = commit_ranges.position_on_line(self.client, since, newest).commit
        options: dict[str, str | float | None] = {
            "ref": newest.commit,
            "seq": newest.seq,
            "since": since,
            "commitsPerPartition": commits_per_partition,
        }
        return self._frame(kind, options)

    def _frame(self, kind: str, options: Mapping[str, str | float | None]) -> DataFrame:
        given = self._options(kind, options)
        # Here already: in the processes where Spark reads options an error becomes a long trace.
        read_options(given, follow=False)
        return self.spark.read.format(LochanSource.name()).options(**given).load()

    def _options(self, kind: str, options: Mapping[str, str | float | None]) -> dict[str, str]:
        """Returns the options of the data source, which is registered with the session."""
        self._check_open()
        if self.spark not in _known:
            # By name Spark would search all installed packages, and one of them may be broken.
            self.spark.dataSource.register(LochanSource)
            _known.add(self.spark)
        given = {"uri": self.uri, "repository": self.repository, "kind": kind}
        for name, value in options.items():
            if value is not None:
                given[name] = str(value).lower() if isinstance(value, bool) else str(value)
        return given
