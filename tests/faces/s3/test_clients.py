"""Programs that know S3 and nothing of Lochan: s3fs, pyarrow, DuckDB, boto3's transfers."""

from __future__ import annotations

import hashlib
import io
import os
from threading import Barrier, Thread

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import s3fs
from boto3.s3.transfer import TransferConfig
from duckdb_extensions import import_extension
from pyarrow import fs

from tests.faces.s3.gateway import REPOSITORY, Gateway

ROOT = f"{REPOSITORY}/main"


@pytest.fixture
def by_s3fs(shared: Gateway) -> s3fs.S3FileSystem:
    s3fs.S3FileSystem.clear_instance_cache()
    return s3fs.S3FileSystem(
        key=shared.key, secret=shared.secret, endpoint_url=shared.url, use_listings_cache=False
    )


@pytest.fixture
def by_arrow(shared: Gateway) -> fs.S3FileSystem:
    return fs.S3FileSystem(
        access_key=shared.key,
        secret_key=shared.secret,
        endpoint_override=shared.host,
        scheme="http",
        region="us-east-1",
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=1),
    )


@pytest.fixture
def by_duckdb(shared: Gateway) -> duckdb.DuckDBPyConnection:
    import_extension("httpfs")
    connection = duckdb.connect()
    connection.execute("LOAD httpfs")
    connection.execute(
        f"CREATE SECRET (TYPE s3, KEY_ID '{shared.key}', SECRET '{shared.secret}', "
        f"ENDPOINT '{shared.host}', URL_STYLE 'path', USE_SSL false, REGION 'us-east-1')"
    )
    return connection


def table(rows: int = 1_000) -> pa.Table:
    return pa.table({"n": list(range(rows)), "text": [f"row {at}" for at in range(rows)]})


def test_s3fs_reads_writes_lists_and_removes(by_s3fs):
    base = f"{ROOT}/s3fs"
    by_s3fs.pipe_file(f"{base}/a", b"hello")
    assert by_s3fs.cat_file(f"{base}/a") == b"hello"
    assert by_s3fs.cat_file(f"{base}/a", start=1, end=3) == b"el"
    with by_s3fs.open(f"{base}/dir/large", "wb", block_size=5 * 2**20) as file:
        for at in range(12):
            file.write(bytes([at]) * 2**20)
    assert by_s3fs.info(f"{base}/dir/large")["size"] == 12 * 2**20
    with by_s3fs.open(f"{base}/dir/large", "rb") as file:
        file.seek(7 * 2**20)
        assert file.read(1) == b"\x07"
    assert sorted(by_s3fs.ls(base, detail=False)) == [f"{base}/a", f"{base}/dir"]
    assert by_s3fs.find(base) == [f"{base}/a", f"{base}/dir/large"]
    assert by_s3fs.glob(f"{base}/**/l*") == [f"{base}/dir/large"]
    assert by_s3fs.isdir(f"{base}/dir")
    assert by_s3fs.exists(f"{base}/a")
    assert not by_s3fs.exists(f"{base}/b")
    by_s3fs.copy(f"{base}/a", f"{base}/b")
    by_s3fs.mv(f"{base}/b", f"{base}/c")
    assert by_s3fs.cat(f"{base}/c") == b"hello"
    by_s3fs.rm(base, recursive=True)
    assert not by_s3fs.exists(base)
    assert ROOT in by_s3fs.ls(REPOSITORY, detail=False)


def test_s3fs_shows_the_errors_that_its_users_know(by_s3fs, shared):
    with pytest.raises(FileNotFoundError):
        by_s3fs.cat_file(f"{ROOT}/s3fs/none")
    with pytest.raises(FileNotFoundError):
        by_s3fs.pipe_file("absent-repository/main/x", b"x")
    with pytest.raises(FileNotFoundError):
        by_s3fs.pipe_file(f"{REPOSITORY}/absent-branch/x", b"x")
    wrong = s3fs.S3FileSystem(key=shared.key, secret="a" * 52, endpoint_url=shared.url)
    with pytest.raises(PermissionError):
        wrong.cat_file(f"{ROOT}/s3fs/none")


def test_pyarrow_writes_and_reads_datasets(by_arrow):
    base = f"{ROOT}/arrow/data"
    ds.write_dataset(table(), base, filesystem=by_arrow, format="parquet")
    assert ds.dataset(base, filesystem=by_arrow).to_table().num_rows == 1_000
    with by_arrow.open_output_stream(f"{ROOT}/arrow/large") as out:
        for at in range(12):
            out.write(bytes([at]) * 2**20)
    with by_arrow.open_input_file(f"{ROOT}/arrow/large") as file:
        assert file.size() == 12 * 2**20
        assert file.read_at(1, 7 * 2**20) == b"\x07"
    info = by_arrow.get_file_info(f"{ROOT}/arrow/large")
    assert (info.type, info.size) == (fs.FileType.File, 12 * 2**20)
    assert by_arrow.get_file_info(f"{ROOT}/arrow/none").type == fs.FileType.NotFound
    assert by_arrow.get_file_info(f"{ROOT}/arrow").type == fs.FileType.Directory
    found = by_arrow.get_file_info(fs.FileSelector(f"{ROOT}/arrow", recursive=True))
    assert f"{ROOT}/arrow/large" in {each.path for each in found}
    by_arrow.copy_file(f"{ROOT}/arrow/large", f"{ROOT}/arrow/copy")
    by_arrow.move(f"{ROOT}/arrow/copy", f"{ROOT}/arrow/moved")
    by_arrow.delete_file(f"{ROOT}/arrow/moved")
    by_arrow.delete_dir_contents(f"{ROOT}/arrow")
    left = by_arrow.get_file_info(fs.FileSelector(f"{ROOT}/arrow", recursive=True))
    assert [each.path for each in left if each.type == fs.FileType.File] == []


def test_pyarrow_shows_the_errors_that_its_users_know(by_arrow, shared):
    with pytest.raises(FileNotFoundError):
        by_arrow.open_input_file(f"{ROOT}/arrow/none")
    with pytest.raises(OSError, match=r"NO_SUCH_BUCKET|NoSuchBucket|does not exist|not found"):
        by_arrow.open_output_stream("absent-repository/main/x").close()
    wrong = fs.S3FileSystem(
        access_key=shared.key,
        secret_key="a" * 52,
        endpoint_override=shared.host,
        scheme="http",
        region="us-east-1",
    )
    with pytest.raises(OSError, match=r"ACCESS_DENIED|SignatureDoesNotMatch|403|signature"):
        wrong.open_input_file(f"{ROOT}/arrow/none").read()


def test_duckdb_reads_and_writes_parquet(by_duckdb, shared):
    sink = io.BytesIO()
    pq.write_table(table(), sink)
    for at in range(2):
        shared.put(f"main/duck/in/{at}.parquet", sink.getvalue())
    url = f"s3://{ROOT}/duck"
    (found,) = by_duckdb.execute(
        f"SELECT count(*), sum(n) FROM read_parquet('{url}/in/*.parquet')"
    ).fetchall()
    assert found == (2_000, 2 * sum(range(1_000)))
    by_duckdb.execute(
        f"COPY (SELECT range AS n, md5(range::text) AS h FROM range(400000)) "
        f"TO '{url}/out.parquet' (FORMAT parquet)"
    )
    (again,) = by_duckdb.execute(f"SELECT count(*) FROM '{url}/out.parquet'").fetchall()
    assert again == (400_000,)
    by_duckdb.execute(
        f"COPY (SELECT range AS n, range % 3 AS p FROM range(30)) TO '{url}/parts' "
        "(FORMAT csv, PARTITION_BY (p))"
    )
    assert len(shared.keys("main/duck/parts/")) == 3
    with pytest.raises(duckdb.Error, match=r"404|No files found"):
        by_duckdb.execute(f"SELECT * FROM '{url}/none.parquet'")


def test_boto3_transfers_files_in_parallel_parts(shared, tmp_path):
    path = tmp_path / "large"
    body = os.urandom(20 * 2**20)
    path.write_bytes(body)
    config = TransferConfig(
        multipart_threshold=5 * 2**20, multipart_chunksize=5 * 2**20, max_concurrency=8
    )
    shared.s3.upload_file(str(path), REPOSITORY, "main/transfer/large", Config=config)
    read = tmp_path / "read"
    shared.s3.download_file(REPOSITORY, "main/transfer/large", str(read), Config=config)
    assert hashlib.sha256(read.read_bytes()).digest() == hashlib.sha256(body).digest()
    source = {"Bucket": REPOSITORY, "Key": "main/transfer/large"}
    shared.s3.copy(source, REPOSITORY, "main/transfer/copy", Config=config)
    assert shared.get("main/transfer/copy") == body


def test_of_many_writers_of_one_absent_key_one_wins(shared):
    outcomes: list[int] = []
    barrier = Barrier(8)

    def write(at: int) -> None:
        client = shared.client()
        barrier.wait()
        try:
            client.put_object(Bucket=REPOSITORY, Key="main/race", Body=b"%d" % at, IfNoneMatch="*")
            outcomes.append(200)
        except client.exceptions.ClientError as error:
            outcomes.append(error.response["ResponseMetadata"]["HTTPStatusCode"])

    threads = [Thread(target=write, args=(at,)) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [200] + [412] * 7


def test_what_is_written_here_is_committed_there(shared, by_s3fs):
    by_s3fs.pipe_file(f"{ROOT}/story/a", b"1")
    with shared.admin() as client:
        first = client.files.commit("main", "by another face")
        client.files.put("main", "story/a", b"2")
    assert by_s3fs.cat_file(f"{ROOT}/story/a") == b"2"
    assert by_s3fs.cat_file(f"{REPOSITORY}/{first.hash}/story/a") == b"1"
