"""Random filters on every type and partition, at its edges, against Spark's own on plain Parquet.

What a filter means is what it chooses in plain Parquet with the same rows; one job computes that
for hundreds of filters. Then, without Spark, for every table with the column: no file is left out
that has a row of it (a comparison). Real reads of some are compared with it too.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.table import Table
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from lochan.iceberg.manifests import entries_of
from lochan.spark.read.column_text import text_of
from lochan.spark.read.file_plan import FileFilter
from lochan.spark.read.filters import Node, Unread
from lochan.spark.read.sql_conditions import Columns, read_column_text, read_condition, whole_fields
from lochan.spark.write.statistics import build_layout, read_facts
from lochan.spark.write.upsert import _ranges
from tests.profile import counted
from tests.spark.edges import KINDS, Kind, column, make_table, schema_of
from tests.spark.random_filters import Filters

SEED = 20261116
FILTERS = counted(24, 260)
READS = counted(1, 6)
TOGETHER = 60
SETTINGS = {"UTC": "true", "America/St_Johns": "false"}


def values_of(kind: Kind) -> list[Any]:
    """The values of a column in all rows: each edge twice, NULL, in an order of chance."""
    values = [*kind.values, *kind.values, None, None, None]
    values += [None] * (ROWS - len(values))
    random.Random(f"{SEED} {kind.name}").shuffle(values)
    return values


ROWS = max(2 * len(kind.values) + 3 for kind in KINDS)
W = [None if number % 7 == 0 else number % 5 for number in range(ROWS)]


def rows_of(kind: Kind) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            kind.name: column(kind, values_of(kind)),
            "w": pa.array(W, pa.int32()),
        }
    )


class Files:
    """A table, and which rows each of its files has."""

    def __init__(self, table: Table, kind: Kind) -> None:
        self.table = table
        self.kind = kind
        self.name = ".".join(table.name())
        self.manifests: list[tuple[ManifestFile, list[tuple[DataFile, set[int]]]]] = []
        snapshot = table.current_snapshot()
        assert snapshot is not None
        for manifest in snapshot.manifests(table.io):
            files = [entry.data_file for entry in entries_of(manifest, table.io)]
            self.manifests.append((manifest, [(each, ids_of(each)) for each in files]))

    def kept(self, node: Node) -> tuple[set[int], int]:
        """The rows of files that can have a match, and how many files there are of these."""
        files = FileFilter(self.table, node)
        found: set[int] = set()
        count = 0
        for manifest, several in self.manifests:
            for file, ids in several if files.keeps_manifest(manifest) else ():
                if files.keeps(file):
                    found |= ids
                    count += 1
        return found, count


def ids_of(file: DataFile) -> set[int]:
    held = pq.ParquetFile(file.file_path.removeprefix("file://")).read(["id"])
    return set(held.column("id").to_pylist())


@pytest.fixture(scope="module")
def lake(spark, new_repository, tmp_path_factory):
    from lochan.spark.lake import Lake

    place = str(tmp_path_factory.mktemp("warehouse"))
    with Lake(spark, new_repository(), warehouse=place) as made:
        yield made


@pytest.fixture(scope="module")
def tables(lake) -> dict[str, list[Files]]:
    """Tables of every type: without partition, in an order, and by every transform."""
    found: dict[str, list[Files]] = {}
    for kind in KINDS:
        for number, words in enumerate([[], *([word] for word in kind.words())]):
            made = make_table(lake, f"{kind.name}.n{number}", kind, words, rows_of(kind))
            found.setdefault(kind.name, []).append(Files(made, kind))
    return found


@pytest.fixture(scope="module")
def plain(lake, tmp_path_factory) -> DataFrame:
    """The same rows as one plain Parquet file."""
    columns: dict[str, Any] = {
        "id": pa.array(range(ROWS), pa.int64()),
        "w": pa.array(W, pa.int32()),
    }
    for kind in KINDS:
        values = column(kind, values_of(kind))
        if kind.name == "uuid":
            values = pa.array([shown_uuid(each) for each in values.to_pylist()], pa.string())
        elif kind.name == "fixed":
            values = values.cast(pa.binary())
        columns[kind.name] = values
    path = tmp_path_factory.mktemp("plain") / "rows.parquet"
    pq.write_table(pa.table(columns), path)
    return lake.spark.read.parquet(str(path))


def shown_uuid(raw: bytes | None) -> str | None:
    import uuid

    return None if raw is None else str(uuid.UUID(bytes=raw))


@pytest.fixture(params=SETTINGS)
def zone(lake, request) -> Iterator[str]:
    """Sessions in another zone, without ANSI."""
    before = {
        name: lake.spark.conf.get(name)
        for name in ("spark.sql.session.timeZone", "spark.sql.ansi.enabled")
    }
    lake.spark.conf.set("spark.sql.session.timeZone", request.param)
    lake.spark.conf.set("spark.sql.ansi.enabled", SETTINGS[request.param])
    yield request.param
    for name, value in before.items():
        lake.spark.conf.set(name, value)


def matching(plain: DataFrame, conditions: list[str | Column]) -> list[set[int] | None]:
    """The rows that each condition chooses; None where Spark refuses it."""
    known: list[Column | None] = []
    for each in conditions:
        made = F.expr(f"({each})") if isinstance(each, str) else each
        try:
            known.append(made if plain.where(made).columns else None)
        except PySparkException:
            known.append(None)
    found: list[set[int] | None] = [None] * len(known)
    for first in range(0, len(known), TOGETHER):
        several = {n: known[n] for n in range(first, min(first + TOGETHER, len(known)))}
        for number, chosen in chosen_by(plain, {n: c for n, c in several.items() if c is not None}):
            found[number] = chosen
    return found


def chosen_by(plain: DataFrame, conditions: dict[int, Column]) -> Iterator[tuple[int, set[int]]]:
    """Asks one job for all; if a condition fails while it runs, two jobs for half of them each."""
    if not conditions:
        return
    marked = [F.coalesce(each, F.lit(False)).alias(str(n)) for n, each in conditions.items()]
    try:
        rows = plain.select("id", *marked).toArrow().to_pylist()
    except PySparkException:
        numbers = list(conditions)
        halves = (numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :])
        for half in halves if len(numbers) > 1 else ():
            yield from chosen_by(plain, {n: conditions[n] for n in half})
        return
    for number in conditions:
        yield number, {row["id"] for row in rows if row[str(number)]}


def node_of(condition: str | Column, kind: Kind, zone: str) -> Node:
    names = whole_fields(schema_of(kind))
    columns = Columns(names, case_sensitive=False, zone=lambda: zone)
    if isinstance(condition, str):
        return read_condition(condition, columns)
    shown = text_of(condition)
    assert shown is not None
    text, is_quoted = shown
    assert text != "?"
    return read_column_text(text, columns, is_quoted=is_quoted)


def test_no_filter_leaves_out_a_file_with_a_row_that_spark_chooses(lake, tables, plain, zone):
    compared = left_out = could_leave_out = unread = 0
    lost: list[Any] = []
    for kind in KINDS:
        conditions = list(Filters(f"{SEED} {kind.name} {zone}").several(kind.name, FILTERS))
        for condition, chosen in zip(conditions, matching(plain, conditions), strict=True):
            if chosen is None:
                continue
            node = node_of(condition, kind, zone)
            unread += isinstance(node, Unread)
            for files in tables[kind.name]:
                kept, count = files.kept(node)
                total = sum(len(several) for _, several in files.manifests)
                compared += 1
                left_out += total - count
                could_leave_out += total
                if not chosen <= kept:
                    lost.append((str(condition), files.name, sorted(chosen - kept)))
    print(
        f"{compared} comparisons, {left_out} of {could_leave_out} files left out, {unread} unread"
    )
    assert lost[:20] == []
    assert compared >= FILTERS * 40, compared
    # A filter that leaves out nothing would be sound, too.
    assert left_out > could_leave_out * 0.3
    assert unread < compared / 20


def test_reads_give_what_spark_gives_on_plain_parquet(lake, tables, plain):
    """By `where=` and by `.where()`, each a real read."""
    chance = random.Random(SEED)
    reads: list[tuple[str, DataFrame, set[int]]] = []
    for kind in KINDS:
        conditions = list(Filters(f"reads {kind.name}").several(kind.name, 2 * READS + 4))
        known = [
            (condition, chosen)
            for condition, chosen in zip(conditions, matching(plain, conditions), strict=True)
            if chosen is not None and isinstance(condition, str)
        ][:READS]
        for condition, chosen in known:
            files = chance.choice(tables[kind.name])
            by_read = lake.read(files.name, columns=["id"], where=condition)
            whole = lake.read(files.name)
            reads.append((f"where= {files.name} {condition}", by_read, chosen))
            reads.append((f".where() {files.name} {condition}", whole.where(condition), chosen))
    expected = {name: chosen for name, _, chosen in reads}
    found: dict[str, set[int]] = {name: set() for name, _, _ in reads}
    for first in range(0, len(reads), TOGETHER):
        marked = [
            frame.select(F.lit(name).alias("name"), F.col("id"))
            for name, frame, _ in reads[first : first + TOGETHER]
        ]
        for row in reduce(DataFrame.unionAll, marked).toArrow().to_pylist():
            found[row["name"]].add(row["id"])
    assert found == expected


def test_a_merge_looks_into_every_file_that_has_one_of_its_keys(lake, tables, tmp_path):
    """The keys of a merge are written as a file first, and its bounds choose the files."""
    chance = random.Random(SEED)
    compared = 0
    for kind in KINDS:
        (first, *_) = tables[kind.name]
        layout = build_layout(
            first.table.schema(), first.table.spec(), {}, {}, f"file://{tmp_path}"
        )
        values = [each for each in values_of(kind) if each is not None]
        for number in range(counted(6, 40)):
            keys = chance.sample(values, min(len(values), 1 + number % 3))
            several = pa.table(
                {
                    "id": pa.nulls(len(keys), pa.int64()),
                    kind.name: column(kind, keys),
                    "w": pa.nulls(len(keys), pa.int32()),
                }
            )
            path = tmp_path / f"{kind.name}-{number}.parquet"
            from pyiceberg.io.pyarrow import schema_to_pyarrow

            fields = [
                pa.field(each.name, several.schema.field(each.name).type, metadata=each.metadata)
                for each in schema_to_pyarrow(first.table.schema())
            ]
            pq.write_table(several.cast(pa.schema(fields)), path)
            facts = read_facts(layout, f"file://{path}")
            assert not facts.problem, facts.problem
            node = _ranges([first.table.schema().find_field(kind.name)], [facts])
            matching_rows = {
                n for n, each in enumerate(values_of(kind)) if repr(each) in map(repr, keys)
            }
            for files in tables[kind.name]:
                compared += 1
                kept, _ = files.kept(node)
                assert matching_rows <= kept, (files.name, keys)
    assert compared > 300
