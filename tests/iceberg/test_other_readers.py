"""Other readers find the same rows, without any catalog."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType

from tests.iceberg.rows import SCHEMA, content, numbers, rows

duckdb = pytest.importorskip("duckdb", reason="duckdb 1.5.5 is missing: `make setup` installs it")


@pytest.fixture(scope="module")
def engine():
    """DuckDB that reads Iceberg."""
    extensions = pytest.importorskip(
        "duckdb_extensions", reason="duckdb's extensions are missing: `make setup` installs them"
    )
    for name in ("avro", "iceberg"):
        extensions.import_extension(name)
    connection = duckdb.connect()
    connection.load_extension("iceberg")
    yield connection
    connection.close()


def through_duckdb(engine, location: str) -> list[tuple]:
    return engine.execute(
        "select * from iceberg_scan(?) order by id", [location.removeprefix("file://")]
    ).fetchall()


@pytest.mark.parametrize("version", ["1", "2"])
def test_pyiceberg_and_duckdb_read_the_rows_that_were_written(catalog, engine, version):
    table = catalog.create_table(
        "shop.orders", schema=SCHEMA, properties={"format-version": version}
    )
    table.append(rows(1, 2, 3))
    with table.update_spec() as update:
        update.add_field("id", BucketTransform(4), "part")
    table.append(rows(4, 5))
    with table.update_schema() as update:
        update.add_column("price", LongType())
    table.append(rows(6).append_column("price", pa.array([60])))
    table.delete("id = 2")
    location = content(catalog, "shop", "orders").metadata_location
    assert numbers(StaticTable.from_metadata(location)) == [1, 3, 4, 5, 6]
    assert through_duckdb(engine, location) == [
        (1, "row 1", None),
        (3, "row 3", None),
        (4, "row 4", None),
        (5, "row 5", None),
        (6, "row 6", 60),
    ]


def test_duckdb_reads_each_branch_and_what_a_block_has_made(catalog, engine):
    catalog.create_table("shop.orders", schema=SCHEMA).append(rows(1))
    catalog.repository.references.create("etl")
    etl = catalog.at("etl")
    with etl.many("both") as many:
        many.load_table("shop.orders").append(rows(2))
        many.create_table("shop.lines", schema=SCHEMA).append(rows(3))
    found = {
        name: [row[0] for row in through_duckdb(engine, place.metadata_location)]
        for name, place in {
            "main": content(catalog, "shop", "orders"),
            "etl": content(etl, "shop", "orders"),
            "lines": content(etl, "shop", "lines"),
        }.items()
    }
    assert found == {"main": [1], "etl": [1, 2], "lines": [3]}


def test_duckdb_reads_packed_metadata(catalog, engine):
    table = catalog.create_table(
        "shop.orders", schema=SCHEMA, properties={"write.metadata.compression-codec": "gzip"}
    )
    table.append(rows(1))
    place = table.metadata_location.removeprefix("file://")
    found = engine.execute(
        "select id from iceberg_scan(?, metadata_compression_codec => 'gzip')", [place]
    ).fetchall()
    assert found == [(1,)]
