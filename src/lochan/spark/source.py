"""The data source `lochan`: references, history, entries, differences and changes as frames.

    spark.read.format("lochan").options(uri="http://…", kind="log", ref="main").load()

Nothing here runs in the user's interpreter: planning runs in a worker beside the driver, reading in
executors. All of them speak to the server for themselves. A plan is pinned to commits, so that all
tasks and all retries of it show one state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.types import StructType

from lochan.base.limits import PAGE_ENTRIES_MAX
from lochan.client import Client
from lochan.model.commits import ContentKey
from lochan.spark import kinds, walks
from lochan.spark.options import EARLIEST, LATEST, Options, read_options
from lochan.spark.pushing import Bounds, bounds_of
from lochan.spark.walks import Pin, Slice


class Keys(msgspec.Struct, frozen=True):
    """A part of the keys of one commit, or of the difference of two."""

    commit: str
    other: str = ""
    keys: tuple[ContentKey, ...] = ()
    start: ContentKey | None = None
    end: ContentKey | None = None
    prefix: ContentKey | None = None


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
        """Returns what reads a batch; it takes filters only if it was told that it may."""
        wanted = self._wanted()
        # Spark refuses a reader that takes filters while the session does not allow it.
        make = FilteringReader if wanted.pushdown else Reader
        return make(wanted, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Returns what follows a branch."""
        from lochan.spark.stream import stream_reader

        return stream_reader(self._wanted(), schema)

    def _wanted(self) -> Options:
        return read_options(dict(self.options))


class Reader(DataSourceReader):
    """Reads one kind: plans beside the driver, reads in executors."""

    def __init__(self, wanted: Options, schema: StructType) -> None:
        kinds.check_schema(wanted.kind, schema)
        self.wanted = wanted
        self.shape = schema
        self.bounds = Bounds()

    def partitions(self) -> Sequence[InputPartition]:
        """Returns the parts that tasks read, pinned to the commits of this moment."""
        with self.wanted.client() as client:
            return [InputPartition(part) for part in _plan(client, self.wanted, self.bounds)]

    def read(self, partition: InputPartition | None) -> Iterator[Any]:
        """Yields the rows of a part, in batches."""
        if partition is None:
            # That is how Spark says that nothing was planned.
            return iter(())
        return read_part(self.wanted, self.shape, partition.value)


class FilteringReader(Reader):
    """The same, with filters that narrow what is asked."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's
        """Takes what bounds the read; hands everything back, because bounds are not exact."""
        self.bounds = bounds_of(filters)
        return filters


def read_part(wanted: Options, schema: StructType, part: Any) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a planned part, in batches."""
    for rows in part_rows(wanted, part):
        if rows:
            yield kinds.arrow_batch(wanted.kind, schema, rows)


def part_rows(wanted: Options, part: Any) -> Iterator[list[kinds.Row]]:
    """Yields the rows of a planned part, a page at a time."""
    with wanted.client() as client:
        if isinstance(part, Slice):
            yield from _commit_rows(client, wanted.kind, part)
        elif wanted.kind == "refs":
            yield from _reference_rows(client, wanted)
        elif wanted.kind == "diff":
            yield from _diff_rows(client, part)
        else:
            yield from _entry_rows(client, wanted, part)


def all_rows(wanted: Options) -> Iterator[kinds.Row]:
    """Yields all rows of a read, one after the other, in this process."""
    with wanted.client() as client:
        parts = _plan(client, wanted, Bounds())
    for part in parts:
        for rows in part_rows(wanted, part):
            yield from rows


def register(spark: SparkSession) -> None:
    """Registers the source and the table functions with a session.

    The source alone is found without it, where the package is installed for the workers.
    """
    from lochan.spark.functions import register_functions

    spark.dataSource.register(LochanSource)
    register_functions(spark)


def _plan(client: Client, wanted: Options, bounds: Bounds) -> list[Any]:
    if wanted.kind == "refs":
        return [None]
    if wanted.kind in ("log", "changes"):
        return list(_commit_parts(client, wanted, bounds))
    if bounds.keys == ():
        return []
    whole = Keys(
        walks.commit_of(client, wanted.before or wanted.ref),
        walks.commit_of(client, wanted.after) if wanted.after else "",
        bounds.keys or (),
        *_range(wanted, bounds),
    )
    if wanted.kind == "diff" or whole.keys or not wanted.content:
        return [whole]
    return _key_parts(client, wanted, whole)


def _commit_parts(client: Client, wanted: Options, bounds: Bounds) -> list[Slice]:
    newest = walks.pin(client, wanted.ref, wanted.seq)
    after = since(client, wanted.since, newest).seq
    if bounds.seq_max is not None and bounds.seq_max < newest.seq:
        seq = max(bounds.seq_max, 0)
        newest = Pin(walks.ancestor(client, newest, seq), seq)
    after = max(after, bounds.seq_min - 1)
    return walks.slices(newest, after, wanted.commits_per_partition)


def since(client: Client, spec: str, newest: Pin) -> Pin:
    """Returns the commit after which a read begins."""
    if spec == EARLIEST:
        return Pin(walks.EMPTY, 0)
    return newest if spec == LATEST else walks.pin_on_line(client, spec, newest)


def _range(
    wanted: Options, bounds: Bounds
) -> tuple[ContentKey | None, ContentKey | None, ContentKey | None]:
    """Returns first and last key, or a prefix; the API takes not both, and a prefix is exact."""
    if wanted.prefix:
        return None, None, tuple(wanted.prefix.split("."))
    return bounds.start, bounds.end, None


def _key_parts(client: Client, wanted: Options, whole: Keys) -> list[Keys]:
    """Cuts the keys of a commit; names are a small part of what their contents cost."""
    parts: list[Keys] = []
    token: str | None = None
    while True:
        page = client.contents.entries(
            whole.commit,
            wanted.keys_per_partition,
            token,
            start=whole.start,
            end=whole.end,
            prefix=whole.prefix,
        )
        if page.items:
            first, last = page.items[0].key, page.items[-1].key
            parts.append(Keys(whole.commit, start=first, end=last))
        token = page.token
        if token is None:
            return parts


def _commit_rows(client: Client, kind: str, part: Slice) -> Iterator[list[kinds.Row]]:
    if kind == "log":
        for page in walks.walk(client, part):
            yield [kinds.log_row(seq, each) for seq, each in page]
        return
    for page in walks.walk(client, part, fetch_all=True):
        yield [row for seq, each in page for row in kinds.change_rows(seq, each)]


def _reference_rows(client: Client, wanted: Options) -> Iterator[list[kinds.Row]]:
    token: str | None = None
    while True:
        page = client.references.list(
            PAGE_ENTRIES_MAX, token, fetch_all=wanted.metadata, prefix=wanted.prefix
        )
        yield [kinds.reference_row(each) for each in page.items]
        token = page.token
        if token is None:
            return


def _entry_rows(client: Client, wanted: Options, part: Keys) -> Iterator[list[kinds.Row]]:
    token: str | None = None
    while True:
        page = client.contents.entries(
            part.commit,
            PAGE_ENTRIES_MAX,
            token,
            keys=part.keys,
            start=part.start,
            end=part.end,
            prefix=part.prefix,
            with_content=wanted.content,
        )
        yield [kinds.entry_row(each) for each in page.items]
        token = page.token
        if token is None:
            return


def _diff_rows(client: Client, part: Keys) -> Iterator[list[kinds.Row]]:
    token: str | None = None
    while True:
        page = client.history.diff(
            part.commit,
            part.other,
            PAGE_ENTRIES_MAX,
            token,
            keys=part.keys,
            start=part.start,
            end=part.end,
            prefix=part.prefix,
        )
        yield [kinds.diff_row(each) for each in page.items]
        token = page.token
        if token is None:
            return
