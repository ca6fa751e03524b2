"""The data source `lochan`: references, history, entries, differences and changes as frames.

    spark.read.format("lochan").options(uri="http://…", kind="log", ref="main").load()

Nothing here runs in the user's interpreter: planning runs in a worker beside the driver, reading in
executors. All of them speak to the server for themselves. A plan is pinned to commits, so that all
tasks and all retries of it show one state.

No filters are taken from Spark, although they could narrow a read: Spark 4.1 keeps one plan for all
uses of a frame, so `frame.count()` after `frame.where(…)` counted only what the filter had left.
The options `since` and `prefix` narrow a read without that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

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
from lochan.base.limits import PAGE_ENTRIES_MAX
from lochan.client import Client
from lochan.model.commits import ContentKey
from lochan.model.results import Page
from lochan.spark.history import kinds, walks
from lochan.spark.history.options import EARLIEST, LATEST, Options, read_options
from lochan.spark.history.walks import Pin, Slice
from lochan.spark.session import is_session

Item = TypeVar("Item")


class Keys(msgspec.Struct, frozen=True):
    """A part of the keys of one commit, or of the difference of two."""

    commit: str
    other: str = ""
    start: ContentKey | None = None
    end: ContentKey | None = None
    prefix: ContentKey | None = None


class Names(msgspec.Struct, frozen=True):
    """The references whose names start so."""

    prefix: str


class LochanSource(DataSource):
    """What Spark knows as format `lochan`."""

    @classmethod
    def name(cls) -> str:
        """Returns the name of the format."""
        return "lochan"

    def schema(self) -> StructType:
        """Returns the columns of the kind."""
        return kinds.schema_of(self._wanted().kind)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns what reads a batch."""
        return Reader(self._wanted(follow=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Returns what follows a branch."""
        from lochan.spark.history.stream import stream_reader

        return stream_reader(self._wanted(follow=True), schema)

    def _wanted(self, *, follow: bool | None = None) -> Options:
        return read_options(dict(self.options), follow=follow)


class Reader(DataSourceReader):
    """Reads one kind: plans beside the driver, reads in executors."""

    def __init__(self, wanted: Options, schema: StructType) -> None:
        kinds.check_schema(wanted.kind, schema)
        self.wanted = wanted
        self.shape = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Returns the parts that tasks read, pinned to the commits of this moment."""
        return [InputPartition(part) for part in _plan(self.wanted.client(), self.wanted)]

    def read(self, partition: InputPartition | None) -> Iterator[Any]:
        """Yields the rows of a part, in batches."""
        if partition is None or partition.value is None:
            # That is how Spark 4.1 and later versions say that nothing was planned.
            return iter(())
        return read_part(self.wanted, self.shape, partition.value)


def read_part(wanted: Options, schema: StructType, part: Any) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a planned part, in batches."""
    for rows in part_rows(wanted, part):
        for some in kinds.portions(rows):
            yield kinds.arrow_batch(wanted.kind, schema, some)


def part_rows(wanted: Options, part: Any) -> Iterator[list[kinds.Row]]:
    """Yields the rows of a planned part, a page at a time."""
    client = wanted.client()
    if isinstance(part, Slice):
        yield from _commit_rows(client, wanted.kind, part)
    elif isinstance(part, Names):
        yield from _reference_rows(client, part, metadata=wanted.metadata)
    elif wanted.kind == "diff":
        yield from _diff_rows(client, part)
    else:
        yield from _entry_rows(client, wanted, part)


def all_rows(wanted: Options) -> Iterator[kinds.Row]:
    """Yields all rows of a read, one after the other, in this process."""
    for part in _plan(wanted.client(), wanted):
        for rows in part_rows(wanted, part):
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
    from lochan.spark import shipping
    from lochan.spark.history.functions import register_functions

    if ship:
        shipping.ship(spark)
    spark.dataSource.register(LochanSource)
    register_functions(spark)


def _plan(client: Client, wanted: Options) -> list[Any]:
    if wanted.kind == "refs":
        return [Names(wanted.prefix)]
    if wanted.kind in ("log", "changes"):
        newest = walks.pin(client, wanted.ref, wanted.seq)
        after = since(client, wanted.since, newest)
        return list(walks.slices(newest, after.seq, wanted.commits_per_partition))
    prefix = wanted.prefix_key()
    if wanted.kind == "diff":
        before, other = (walks.commit_of(client, each) for each in (wanted.before, wanted.after))
        return [Keys(before, other, prefix=prefix)]
    whole = Keys(walks.commit_of(client, wanted.ref), prefix=prefix)
    return list(_key_parts(client, wanted, whole)) if wanted.content else [whole]


def since(client: Client, spec: str, newest: Pin) -> Pin:
    """Returns the commit after which a read begins."""
    if spec == EARLIEST:
        return Pin(walks.EMPTY, 0)
    return newest if spec == LATEST else walks.pin_on_line(client, spec, newest)


def _key_parts(client: Client, wanted: Options, whole: Keys) -> list[Keys]:
    """Cuts the keys of a commit; names are a small part of what their contents cost."""
    fetch = partial(
        client.contents.entries, whole.commit, wanted.keys_per_partition, prefix=whole.prefix
    )
    return [
        Keys(whole.commit, start=items[0].key, end=items[-1].key)
        for items in _pages(fetch)
        if items
    ]


def _commit_rows(client: Client, kind: str, part: Slice) -> Iterator[list[kinds.Row]]:
    if kind == "log":
        for page in walks.walk(client, part):
            yield [kinds.log_row(seq, each) for seq, each in page]
        return
    for page in walks.walk(client, part, fetch_all=True):
        yield [row for seq, each in page for row in kinds.change_rows(seq, each)]


def _reference_rows(client: Client, part: Names, *, metadata: bool) -> Iterator[list[kinds.Row]]:
    references = client.references
    fetch = partial(references.list, PAGE_ENTRIES_MAX, fetch_all=metadata, prefix=part.prefix)
    for items in _pages(fetch):
        yield [kinds.reference_row(each) for each in items]


def _entry_rows(client: Client, wanted: Options, part: Keys) -> Iterator[list[kinds.Row]]:
    fetch = partial(
        client.contents.entries,
        part.commit,
        PAGE_ENTRIES_MAX,
        start=part.start,
        end=part.end,
        prefix=part.prefix,
        with_content=wanted.content,
    )
    for items in _pages(fetch):
        yield [kinds.entry_row(each) for each in items]


def _diff_rows(client: Client, part: Keys) -> Iterator[list[kinds.Row]]:
    fetch = partial(
        client.history.diff, part.commit, part.other, PAGE_ENTRIES_MAX, prefix=part.prefix
    )
    for items in _pages(fetch):
        yield [kinds.diff_row(each) for each in items]


def _pages(fetch: Callable[[str | None], Page[Item]]) -> Iterator[Sequence[Item]]:
    """Yields the items of all pages, a page at a time; `fetch` is given the token of a page."""
    token: str | None = None
    while True:
        page = fetch(token)
        yield page.items
        token = page.token
        if token is None:
            return
