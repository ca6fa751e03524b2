"""The data source `lochan`: references, history, entries, differences and changes as frames.

    spark.read.format("lochan").options(uri="http://…", kind="log", ref="main").load()

Nothing here runs in the user's interpreter: planning runs in a worker beside the driver, reading in
executors. Each of them connects to the server by itself. A plan is pinned to commits, so that all
tasks and all retries of it show one state.

No filters are taken from Spark, although they could narrow a read: Spark 4.1 keeps one plan for all
uses of a frame, so `frame.count()` after `frame.where(…)` counted only what the filter had left.
The options `since` and `prefix` narrow a read without that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from lochan.base.errors import Invalid
from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.client import Client
from lochan.model.commits import ContentKey
from lochan.model.results import Page
from lochan.spark.history import commit_ranges, kinds
from lochan.spark.history.commit_ranges import CommitPosition, CommitRange
from lochan.spark.history.options import EARLIEST, LATEST, Options, read_options
from lochan.spark.session import is_session


class KeySlice(msgspec.Struct, frozen=True):
    """A part of the keys of one commit, or of the difference of two."""

    commit: str
    other: str = ""
    start: ContentKey | None = None
    end: ContentKey | None = None
    prefix: ContentKey | None = None


class LochanSource(DataSource):
    """The data source of the format `lochan`."""

    @classmethod
    def name(cls) -> str:
        """Returns the name of the format."""
        return "lochan"

    def schema(self) -> StructType:
        """Returns the columns of the kind."""
        return kinds.schema_of(self._read_options().kind)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns the reader of a batch."""
        return Reader(self._read_options(follow=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Returns the reader of a stream."""
        from lochan.spark.history.stream import stream_reader

        return stream_reader(self._read_options(follow=True), schema)

    def _read_options(self, *, follow: bool | None = None) -> Options:
        return read_options(dict(self.options), follow=follow)


class Reader(DataSourceReader):
    """Reads one kind: plans beside the driver, reads in executors."""

    def __init__(self, options: Options, schema: StructType) -> None:
        kinds.check_schema(options.kind, schema)
        self.options = options
        self.schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Returns the parts that tasks read, pinned to the commits of this moment."""
        return [InputPartition(part) for part in _plan(self.options.client(), self.options)]

    def read(self, partition: InputPartition | None) -> Iterator[Any]:
        """Yields the rows of a part, in batches."""
        if partition is None or partition.value is None:
            # Spark 4.1 and later versions pass this if no partition was planned.
            return iter(())
        return read_part(self.options, self.schema, partition.value)


def read_part(options: Options, schema: StructType, part: Any) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a planned part, in batches."""
    for rows in part_rows(options, part):
        for some in kinds.portions(rows):
            yield kinds.arrow_batch(options.kind, schema, some)


def part_rows(options: Options, part: Any) -> Iterator[list[kinds.Row]]:
    """Yields the rows of a planned part, a page at a time."""
    client = options.client()
    if isinstance(part, CommitRange):
        yield from _commit_rows(client, options.kind, part)
        return
    row: Callable[[Any], kinds.Row]
    fetch: Callable[[str | None], Page[Any]]
    if options.kind == "refs":
        row = kinds.reference_row
        fetch = partial(
            client.references.list,
            PAGE_ENTRIES_MAX,
            fetch_all=options.metadata,
            prefix=options.prefix,
        )
    elif options.kind == "diff":
        row = kinds.diff_row
        fetch = partial(
            client.history.diff, part.commit, part.other, PAGE_ENTRIES_MAX, prefix=part.prefix
        )
    else:
        row = kinds.entry_row
        fetch = partial(
            client.contents.entries,
            part.commit,
            PAGE_ENTRIES_MAX,
            start=part.start,
            end=part.end,
            prefix=part.prefix,
            with_content=options.content,
        )
    for items in _pages(fetch):
        yield [row(each) for each in items]


def all_rows(options: Options) -> Iterator[kinds.Row]:
    """Yields all rows of a read, one after the other, in this process."""
    for part in _plan(options.client(), options):
        for rows in part_rows(options, part):
            yield from rows


def register(spark: SparkSession, *, ship: bool = False) -> None:
    """Registers the source and the table functions with a session.

    The source alone is found without it, where the package is installed for the workers. Where it
    is not, as on a server that is reached through Connect, `ship` sends our modules there, for
    batches and functions; streams need the package.
    """
    if not is_session(spark):
        raise Invalid(f"spark is a session of Spark, not a {type(spark).__name__}")
    if not isinstance(ship, bool):
        raise Invalid(f"ship is True or False, not a {type(ship).__name__}")
    from lochan.spark import worker_archive
    from lochan.spark.history.functions import register_functions

    if ship:
        worker_archive.ship(spark)
    spark.dataSource.register(LochanSource)
    register_functions(spark)


def _plan(client: Client, options: Options) -> list[Any]:
    if options.kind == "refs":
        return [options.prefix]
    if options.kind in ("log", "changes"):
        newest = commit_ranges.position_of(client, options.ref, options.seq)
        after = since(client, options.since, newest)
        return list(commit_ranges.split_range(newest, after.seq, options.commits_per_partition))
    prefix = options.prefix_key()
    if options.kind == "diff":
        before, other = (
            commit_ranges.commit_of(client, each) for each in (options.before, options.after)
        )
        return [KeySlice(before, other, prefix=prefix)]
    whole = KeySlice(commit_ranges.commit_of(client, options.ref), prefix=prefix)
    return list(_key_parts(client, options, whole)) if options.content else [whole]


def since(client: Client, spec: str, newest: CommitPosition) -> CommitPosition:
    """Returns the commit after which a read begins."""
    if spec == EARLIEST:
        return CommitPosition(commit_ranges.EMPTY, 0)
    return newest if spec == LATEST else commit_ranges.position_on_line(client, spec, newest)


def _key_parts(client: Client, options: Options, whole: KeySlice) -> list[KeySlice]:
    """Splits the keys of a commit; listing them costs little beside reading their contents."""
    fetch = partial(
        client.contents.entries, whole.commit, options.keys_per_partition, prefix=whole.prefix
    )
    return [
        KeySlice(whole.commit, start=items[0].key, end=items[-1].key)
        for items in _pages(fetch)
        if items
    ]


def _commit_rows(client: Client, kind: str, part: CommitRange) -> Iterator[list[kinds.Row]]:
    if kind == "log":
        for page in commit_ranges.pages_of(client, part):
            yield [kinds.log_row(seq, each) for seq, each in page]
        return
    for page in commit_ranges.pages_of(client, part, fetch_all=True):
        yield [row for seq, each in page for row in kinds.change_rows(seq, each)]


def _pages(fetch: Callable[[str | None], Page[Any]]) -> Iterator[Sequence[Any]]:
    """Yields the items of all pages, a page at a time; `fetch` is given the token of a page."""
    token: str | None = None
    while True:
        page = fetch(token)
        yield page.items
        token = page.token
        if token is None:
            return
