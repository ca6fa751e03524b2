"""History as frames: what `lake.refs()`, `lake.log()` and their kin return.

A frame is pinned to commits when it is made, so that it shows the same rows however often it is
used, and two frames of one moment fit together; only references are read anew each time, because
they have no history of their own, and a stream moves on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from lochan.base.errors import Invalid
from lochan.spark.history import walks
from lochan.spark.history.options import EARLIEST, LATEST, read_options
from lochan.spark.history.source import LochanSource

if TYPE_CHECKING:
    from lochan.spark.lake import Lake

_known: Final[WeakSet[SparkSession]] = WeakSet()

FOLLOWS: Final = "lochan.follows"
"""The name in the metadata of a column under which the mark of its stream is found."""


def refs(lake: Lake, *, prefix: str = "", metadata: bool = False) -> DataFrame:
    """Returns branches and tags; `metadata` counts their commits and how far they went apart."""
    return _frame(lake, "refs", prefix=prefix or None, metadata=metadata)


def log(
    lake: Lake, ref: str, *, since: str | None = None, commits_per_partition: int | None = None
) -> DataFrame:
    """Returns the commits of a reference, those after `since` if that is given."""
    return _commits(lake, "log", ref, since, commits_per_partition)


def changes(
    lake: Lake,
    ref: str,
    *,
    since: str | None = None,
    commits_per_partition: int | None = None,
    follow: bool = False,
    commits_max: int | None = None,
    on_reassign: str = "fail",
) -> DataFrame:
    """Returns what the commits of a reference changed, a row for each key of each commit.

    `follow` returns a stream of a branch that goes on with what is committed later, with at most
    `commits_max` commits a batch; `on_reassign` is `fail` or `reset`. On Spark 4.1 a query with the
    trigger `availableNow` ends after one batch, the one that it owes or the next one, whatever is
    left: `catch_up` runs it until all is read.
    """
    if not follow:
        if commits_max is not None or on_reassign != "fail":
            raise Invalid("commits_max and on_reassign are for streams: add follow=True")
        return _commits(lake, "changes", ref, since, commits_per_partition)
    _ensure_known(lake.spark)
    given = _options(
        lake,
        "changes",
        ref=ref,
        since=since,
        maxCommits=commits_max,
        onReassign=on_reassign,
        commitsPerPartition=commits_per_partition,
    )
    read_options(given, follow=True)
    stream = lake.spark.readStream.format(LochanSource.name()).options(**given).load()
    # A mark that stays on columns however they are chosen and named, for sinks to see.
    mark = {FOLLOWS: source_mark(lake, ref)}
    return stream.select(*(F.col(name).alias(name, metadata=mark) for name in stream.columns))


def source_mark(lake: Lake, ref: str) -> str:
    """Returns what the columns of a stream that follows a branch are marked with."""
    return f"{lake.uri} {lake.repository} {ref}"


def entries(
    lake: Lake,
    ref: str,
    *,
    prefix: str = "",
    content: bool = True,
    keys_per_partition: int | None = None,
) -> DataFrame:
    """Returns what a reference holds; without `content` only keys, types and ids.

    `prefix` is a key, `shop` or `shop.orders`, and what lies below it; one with a dot inside an
    element is written with a dot before each element and `*.` for those inside: `.odd*.name`.
    """
    return _frame(
        lake,
        "entries",
        ref=walks.commit_of(lake.client, ref),
        prefix=prefix or None,
        content=content,
        keysPerPartition=keys_per_partition,
    )


def diff(lake: Lake, before: str, after: str, *, prefix: str = "") -> DataFrame:
    """Returns the keys that differ between two references; `prefix` as for entries."""
    given = {
        "from": walks.commit_of(lake.client, before),
        "to": walks.commit_of(lake.client, after),
    }
    return _frame(lake, "diff", prefix=prefix or None, **given)


def _commits(
    lake: Lake, kind: str, ref: str, since: str | None, commits_per_partition: int | None
) -> DataFrame:
    newest = walks.pin(lake.client, ref)
    if since is not None and since not in (EARLIEST, LATEST):
        since = walks.pin_on_line(lake.client, since, newest).commit
    return _frame(
        lake,
        kind,
        ref=newest.commit,
        seq=newest.seq,
        since=since,
        commitsPerPartition=commits_per_partition,
    )


def _frame(lake: Lake, kind: str, **more: str | float | None) -> DataFrame:
    _ensure_known(lake.spark)
    given = _options(lake, kind, **more)
    # Here already: in the processes where Spark reads options an error becomes a long trace.
    read_options(given, follow=False)
    return lake.spark.read.format(LochanSource.name()).options(**given).load()


def _options(lake: Lake, kind: str, **more: str | float | None) -> dict[str, str]:
    given = {"uri": lake.uri, "repository": lake.repository, "kind": kind}
    for name, value in more.items():
        if value is not None:
            given[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return given


def _ensure_known(spark: SparkSession) -> None:
    """Registers the source once for a session: the search for it may be spoilt by others."""
    if spark not in _known:
        spark.dataSource.register(LochanSource)
        _known.add(spark)
