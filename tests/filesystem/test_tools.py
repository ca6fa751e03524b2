"""pandas, pyarrow and DuckDB read and write files of a repository by their addresses."""

from __future__ import annotations

import duckdb
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import FSSpecHandler, PyFileSystem

from lochan.filesystem import LochanFileSystem

MAIN = "lochan://default@main"


@pytest.fixture
def options(server: str) -> dict[str, str]:
    return {"server": server}


def frame(rows: int = 1_000) -> pd.DataFrame:
    return pd.DataFrame({"id": range(rows), "name": [f"n{number % 7}" for number in range(rows)]})


def test_pandas_writes_and_reads_csv_and_parquet(options, server):
    frame().to_csv(f"{MAIN}/t.csv", index=False, storage_options=options)
    assert pd.read_csv(f"{MAIN}/t.csv", storage_options=options).equals(frame())
    frame().to_parquet(f"{MAIN}/t.parquet", storage_options=options)
    assert pd.read_parquet(f"{MAIN}/t.parquet", storage_options=options).equals(frame())
    files = LochanFileSystem(server, skip_instance_cache=True)
    first = files.commit("default@main", "two forms of one table")
    frame(5).to_csv(f"{MAIN}/t.csv", index=False, storage_options=options)
    old = pd.read_csv(f"lochan://default@{first.hash}/t.csv", storage_options=options)
    assert len(old) == 1_000


def test_pyarrow_reads_parquet_and_partitioned_datasets(files):
    table = pa.Table.from_pandas(frame())
    with files.open("default@main/one.parquet", "wb") as file:
        pq.write_table(table, file)
    assert pq.read_table("default@main/one.parquet", filesystem=files).equals(table)
    arrow = PyFileSystem(FSSpecHandler(files))
    ds.write_dataset(
        table, "default@main/parts", format="parquet", partitioning=["name"], filesystem=arrow
    )
    files.commit("default@main", "a dataset")
    dataset = ds.dataset(
        "default@main/parts", format="parquet", partitioning=["name"], filesystem=arrow
    )
    assert dataset.count_rows() == 1_000
    assert dataset.to_table(filter=ds.field("name") == "n3").num_rows == 143


def test_duckdb_queries_files_by_their_addresses(files):
    with duckdb.connect() as database:
        database.register_filesystem(files)
        database.execute(
            f"COPY (SELECT range AS id, range % 3 AS kind FROM range(3000)) "
            f"TO '{MAIN}/numbers.parquet' (FORMAT parquet)"
        )
        files.commit("default@main", "numbers")
        query = f"SELECT kind, count(*) FROM read_parquet('{MAIN}/*.parquet') GROUP BY 1 ORDER BY 1"
        assert database.execute(query).fetchall() == [(0, 1000), (1, 1000), (2, 1000)]
        files.pipe("default@main/more.csv", b"id,kind\n1,9\n")
        rows = database.execute(f"SELECT * FROM read_csv('{MAIN}/more.csv')").fetchall()
        assert rows == [(1, 9)]
