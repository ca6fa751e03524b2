"""The values of partitions are read as they were written: by us, after rewrites, and by others."""

from __future__ import annotations

import math
import struct
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Context, Decimal
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg import types as iceberg
from pyiceberg.avro import file as avro_file
from pyiceberg.avro.decoder import StreamingBinaryDecoder
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record

from lochan.base.errors import Invalid
from lochan.iceberg.manifests import entries_of
from tests.profile import PROFILE, counted
from tests.spark.edges import KINDS, Kind, column, make_table, numbers
from tests.spark.readers import plain

FIELDS = [iceberg.NestedField(n + 1, each.name, each.type) for n, each in enumerate(KINDS)]
SCHEMA = Schema(*[each.model_copy(update={"required": False}) for each in FIELDS])
SPEC = PartitionSpec(
    *[PartitionField(n + 1, 1000 + n, IdentityTransform(), k.name) for n, k in enumerate(KINDS)]
)
RANDOM: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32),
    "double": st.floats(),
    "decimal9": st.integers(1 - 10**9, 10**9 - 1).map(lambda n: Decimal(n).scaleb(-2)),
    "decimal18": st.integers(1 - 10**18, 10**18 - 1).map(lambda n: Decimal(n).scaleb(-3)),
    "decimal38": st.integers(1 - 10**38, 10**38 - 1).map(
        lambda n: Decimal(n).scaleb(-10, Context(prec=50))
    ),
    "date": st.integers(-(2**31), 2**31 - 1),
    "ts": st.integers(-(2**63), 2**63 - 1),
    "local": st.integers(-(2**63), 2**63 - 1),
    "text": st.text(st.characters(exclude_categories=["Cs"]), max_size=50),
    "binary": st.binary(max_size=50),
    "fixed": st.binary(min_size=4, max_size=4),
    "uuid": st.uuids(),
}


def same(one: Any, two: Any) -> bool:
    """Whether two values are the same bits; NaN is one value."""
    if isinstance(one, float) and isinstance(two, float):
        if math.isnan(one) or math.isnan(two):
            return math.isnan(one) and math.isnan(two)
        return struct.pack("<d", one) == struct.pack("<d", two)
    return type(one) is type(two) and one == two


def value(kind: Kind) -> st.SearchStrategy[Any]:
    several = (
        [uuid.UUID(bytes=each) for each in kind.values] if kind.name == "uuid" else kind.values
    )
    known = st.sampled_from([*several, None])
    return known if kind.name not in RANDOM else known | RANDOM[kind.name]


def written(place: str, records: list[Record]) -> ManifestFile:
    io = PyArrowFileIO()
    with write_manifest(2, SPEC, SCHEMA, io.new_output(place), 1, "null") as writer:
        for number, record in enumerate(records):
            file = DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=f"file:///{number}",
                file_format=FileFormat.PARQUET,
                partition=record,
                record_count=1,
                file_size_in_bytes=1,
            )
            entry = ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED, snapshot_id=1, data_file=file
            )
            writer.add_entry(entry)
    return writer.to_manifest_file()


def partitions(manifest: ManifestFile) -> list[Record]:
    return [entry.data_file.partition for entry in entries_of(manifest, PyArrowFileIO())]


def differing(before: Record, after: Record) -> list[tuple[str, Any, Any]]:
    pairs = [(kind.name, before[n], after[n]) for n, kind in enumerate(KINDS)]
    return [each for each in pairs if not same(each[2], each[1])]


@settings(
    max_examples=counted(50, 1000),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(records=st.lists(st.tuples(*[value(each) for each in KINDS]), min_size=1, max_size=4))
def test_values_survive_being_read_and_written_again(tmp_path, records):
    before = [Record(*each) for each in records]
    manifest = written(str(tmp_path / "0.avro"), before)
    for number in range(1, 3):
        after = partitions(manifest)
        for one, two in zip(before, after, strict=True):
            assert differing(one, two) == []
        manifest = written(str(tmp_path / f"{number}.avro"), after)


def test_the_compiled_decoder_is_still_wrong_about_doubles(tmp_path):
    """If this fails, PyIceberg has repaired it, and our own reader of doubles can go."""
    record = Record(*[1.1 if kind.name == "double" else None for kind in KINDS])
    manifest = written(str(tmp_path / "0.avro"), [record])
    (theirs,) = manifest.fetch_manifest_entry(PyArrowFileIO())
    number = [kind.name for kind in KINDS].index("double")
    assert theirs.data_file.partition[number] != 1.1
    (ours,) = partitions(manifest)
    assert ours[number] == 1.1


def test_partitions_that_are_nan_are_equal(tmp_path):
    records = [Record(*[math.nan if k.name in ("float", "double") else None for k in KINDS])]
    one, two = (partitions(written(str(tmp_path / f"{n}.avro"), records))[0] for n in range(2))
    assert one == two
    assert hash(one) == hash(two)


def rows_of(kind: Kind) -> pa.Table:
    values = [*kind.values, None, None, kind.values[0]]
    return pa.table(
        {
            "id": pa.array(range(len(values)), pa.int64()),
            kind.name: column(kind, values),
            "w": pa.array([each % 3 for each in range(len(values))], pa.int32()),
        }
    )


def held(lake: Any, name: str) -> list[str]:
    """The partition of every file, exactly."""
    table = lake.catalog.load_table(name)
    found = [
        entry.data_file.partition
        for manifest in table.current_snapshot().manifests(table.io)
        for entry in entries_of(manifest, table.io)
    ]
    return sorted(repr([each[at] for at in range(len(each))]) for each in found)


def test_every_engine_finds_the_rows_of_every_partition_after_rewrites(lake, monkeypatch):
    """One table for each type and transform, each read by every engine."""
    tables: dict[str, Kind] = {}
    for at, kind in enumerate(KINDS):
        # Every type in every run, with one of its transforms in turn.
        words = kind.words()
        for number, word in enumerate(words if PROFILE == "deep" else [words[at % len(words)]]):
            name = f"{kind.name}.n{number}"
            tables[name] = kind
            make_table(lake, name, kind, [word], rows_of(kind))
            before = held(lake, name)
            rewrite(lake, name)
            assert held(lake, name) == before, word
    ours = {name: rows(lake.read(name), kind) for name, kind in tables.items()}
    for name, kind in tables.items():
        assert [row[0] for row in ours[name]] == list(range(len(rows_of(kind)))), name
    # PyIceberg as it is reads doubles wrongly, and filters by them.
    monkeypatch.setattr(avro_file, "new_decoder", StreamingBinaryDecoder)
    with engine() as connection:
        for name, kind in tables.items():
            table = lake.catalog.load_table(name)
            assert rows(table.scan(), kind) == ours[name], f"PyIceberg: {name}"
            found = connection.execute("select * from iceberg_scan(?)", [table.metadata_location])
            assert rows(found.to_arrow_table(), kind) == ours[name], f"DuckDB: {name}"


def rows(found: Any, kind: Kind) -> list[tuple[int, Any]]:
    """The rows of a frame, a scan or an Arrow table, by their numbers."""
    if hasattr(found, "toArrow"):
        found = found.toArrow()
    elif hasattr(found, "to_arrow"):
        found = found.to_arrow()
    values = found.column(kind.name)
    if isinstance(kind.type, iceberg.DateType | iceberg.TimestampType | iceberg.TimestamptzType):
        shown = numbers(values)
    else:
        shown = [plain(each) for each in values.to_pylist()]
    return sorted(zip(found.column("id").to_pylist(), map(repr, shown), strict=True))


@contextmanager
def engine() -> Iterator[Any]:
    import duckdb
    from duckdb_extensions import import_extension

    with TemporaryDirectory() as folder, duckdb.connect() as connection:
        connection.execute(f"set extension_directory = '{folder}'")
        for name in ("avro", "iceberg"):
            import_extension(name, con=connection)
            connection.load_extension(name)
        connection.execute("set timezone = 'UTC'")
        yield connection


def rewrite(lake: Any, name: str) -> None:
    """Makes PyIceberg's producers, as we use them, write every manifest again."""
    from lochan.spark.write.snapshots import all_files, replace_files

    table = lake.catalog.load_table(name)
    with table.transaction() as change:
        change.set_properties(
            {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "1"}
        )
    one = all_files(table)[0]
    # By an append that merges all, and by the replacement of a file by itself.
    replace_files(lake.catalog.load_table(name), [], [], {"job": "merge"})
    replace_files(lake.catalog.load_table(name), [one], [one], {"job": "replace"})


@pytest.mark.parametrize("kind", ["double", "float"])
def test_overwritten_partitions_of_floats_keep_no_old_rows(lake, kind):
    (chosen,) = [each for each in KINDS if each.name == kind]
    frame = lake.spark.createDataFrame(rows_of(chosen))
    lake.write(frame, "t.floats", partition_by=[kind])
    lake.write(frame.where("id % 2 = 0"), "t.floats", mode="overwrite_partitions")
    before = rows_of(chosen).column(kind).to_pylist()
    replaced = {repr(plus_zero(each)) for each in before[::2]}
    expected = [
        number
        for number, each in enumerate(before)
        if number % 2 == 0 or repr(plus_zero(each)) not in replaced
    ]
    assert sorted(row["id"] for row in lake.read("t.floats").collect()) == expected
    assert held(lake, "t.floats") == sorted({repr([plus_zero(each)]) for each in before})


def plus_zero(value: float | None) -> float | None:
    """A value as its partition is written: without negative zero."""
    return None if value is None else value + 0.0


def test_a_decimal_whose_partition_has_too_many_digits_is_refused_in_words(lake):
    frame = lake.spark.sql("select cast(-9999999.99 as decimal(9, 2)) as m")
    with pytest.raises(Invalid, match=r"the frame does not fit: .*m_trunc_10.*-10000000.00"):
        lake.write(frame, "t.small", partition_by=["truncate(10, m)"])
