"""The file system does what programs that know only files expect."""

from __future__ import annotations

import tomllib
from contextlib import suppress
from pathlib import Path

import fsspec
import pytest

from lochan.client import Client
from lochan.filesystem import LochanFileSystem
from lochan.model.commits import Put
from lochan.model.contents import IcebergTable
from tests.architecture.tree import ROOT

MAIN = "default@main"


def test_the_entry_point_names_the_class():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    place = project["entry-points"]["fsspec.specs"]["lochan"]
    assert place == f"{LochanFileSystem.__module__.rpartition('.')[0]}:LochanFileSystem"
    assert project["optional-dependencies"]["fsspec"]
    assert fsspec.get_filesystem_class("lochan") is LochanFileSystem


def test_a_url_alone_is_enough(server):
    url = "lochan://default@main/a/b.txt"
    with fsspec.open(url, "wb", server=server) as file:
        file.write(b"hello")
    with fsspec.open(url, "rt", server=server) as file:
        assert file.read() == "hello"
    found, path = fsspec.core.url_to_fs(url, server=server)
    assert (type(found), path) == (LochanFileSystem, "default@main/a/b.txt")


def test_the_server_is_found_in_the_environment(server, monkeypatch):
    monkeypatch.setenv("LOCHAN_URL", server)
    assert LochanFileSystem(skip_instance_cache=True).exists(MAIN)


def test_files_and_folders_are_listed(files):
    for name in ("a", "d/1", "d/2", "d/e/3"):
        files.pipe(f"{MAIN}/{name}", name.encode())
    assert files.ls(MAIN, detail=False) == [f"{MAIN}/a", f"{MAIN}/d"]
    assert files.ls(f"lochan://{MAIN}/d/", detail=False) == [
        f"{MAIN}/d/1",
        f"{MAIN}/d/2",
        f"{MAIN}/d/e",
    ]
    assert files.info(f"{MAIN}/d")["type"] == "directory"
    info = files.info(f"{MAIN}/d/1")
    assert (info["type"], info["size"], info["name"]) == ("file", 3, f"{MAIN}/d/1")
    assert files.find(MAIN) == [f"{MAIN}/{name}" for name in ("a", "d/1", "d/2", "d/e/3")]
    assert files.find(f"{MAIN}/d", maxdepth=1) == [f"{MAIN}/d/1", f"{MAIN}/d/2"]
    assert files.glob(f"{MAIN}/d/*") == [f"{MAIN}/d/1", f"{MAIN}/d/2", f"{MAIN}/d/e"]
    assert files.glob(f"{MAIN}/**/3") == [f"{MAIN}/d/e/3"]
    walked = [(top, folders, names) for top, folders, names in files.walk(MAIN)]
    assert walked[0] == (MAIN, ["d"], ["a"])
    assert files.du(MAIN) == 1 + 3 + 3 + 5
    for missing in (f"{MAIN}/x", f"{MAIN}/d/1/x", "default@nothing/a", "nothing@main/a"):
        assert not files.exists(missing)
        with pytest.raises(FileNotFoundError):
            files.ls(missing)
        with pytest.raises(FileNotFoundError):
            files.open(missing)


def test_an_empty_branch_is_an_empty_folder(files):
    assert files.ls(MAIN) == []
    assert files.isdir(MAIN)


def test_a_file_is_read_in_ranges_and_by_lines(files):
    body = b"".join(b"%06d\n" % number for number in range(20_000))
    files.pipe(f"{MAIN}/lines", body)
    with files.open(f"{MAIN}/lines", block_size=10_000) as file:
        assert file.readline() == b"000000\n"
        file.seek(-7, 2)
        assert file.read() == b"019999\n"
        file.seek(70_000)
        assert file.read(7) == b"010000\n"
    assert files.cat_file(f"{MAIN}/lines", 7, 14) == b"000001\n"
    assert files.cat_file(f"{MAIN}/lines", -7) == b"019999\n"
    assert files.cat_file(f"{MAIN}/lines", 10**9) == b""
    assert files.tail(f"{MAIN}/lines", 7) == b"019999\n"
    ranges = files.cat_ranges([f"{MAIN}/lines"] * 3, [0, 7, 14], [7, 14, 21])
    assert ranges == [b"000000\n", b"000001\n", b"000002\n"]
    (failed,) = files.cat_ranges([f"{MAIN}/nothing"], [0], [1])
    assert isinstance(failed, FileNotFoundError)


def test_a_file_that_is_replaced_while_it_is_read_is_never_mixed(files):
    files.pipe(f"{MAIN}/a", b"1" * 50_000)
    with files.open(f"{MAIN}/a", block_size=1_000) as file:
        assert file.read(10) == b"1" * 10
        files.pipe(f"{MAIN}/a", b"2" * 50_000)
        file.seek(40_000)
        with pytest.raises(OSError, match="replaced"):
            file.read(10)


def test_writes_are_whole_or_not_at_all(files):
    with suppress(RuntimeError), files.open(f"{MAIN}/broken", "wb") as file:
        file.write(b"half")
        raise RuntimeError
    assert not files.exists(f"{MAIN}/broken")
    with files.open(f"{MAIN}/new", "xb") as file:
        file.write(b"1")
    with pytest.raises(FileExistsError), files.open(f"{MAIN}/new", "xb") as file:
        file.write(b"2")
    assert files.cat(f"{MAIN}/new") == b"1"
    with pytest.raises(ValueError, match="nothing is appended"):
        files.open(f"{MAIN}/new", "ab")
    with files.open(f"{MAIN}/large", "wb") as file:
        for _ in range(10):
            file.write(bytes(1_000_000))
    assert files.size(f"{MAIN}/large") == 10_000_000


def test_a_transaction_of_fsspec_writes_all_or_nothing(files):
    with suppress(RuntimeError), files.transaction:
        with files.open(f"{MAIN}/t1", "wb") as file:
            file.write(b"1")
        raise RuntimeError
    assert not files.exists(f"{MAIN}/t1")
    with files.transaction:
        for name in ("t1", "t2"):
            with files.open(f"{MAIN}/{name}", "wb") as file:
                file.write(b"1")
        assert not files.exists(f"{MAIN}/t1")
    assert files.ls(MAIN, detail=False) == [f"{MAIN}/t1", f"{MAIN}/t2"]


def test_files_are_copied_moved_and_removed(files):
    files.pipe(f"{MAIN}/a", b"1")
    files.cp(f"{MAIN}/a", f"{MAIN}/b")
    files.cp_file(f"{MAIN}/a", "other@main/a")
    files.mv(f"{MAIN}/b", f"{MAIN}/c")
    assert files.ls(MAIN, detail=False) == [f"{MAIN}/a", f"{MAIN}/c"]
    assert files.cat("other@main/a") == b"1"
    files.rm(f"{MAIN}/c")
    with pytest.raises(FileNotFoundError):
        files.rm_file(f"{MAIN}/c")
    files.pipe({f"{MAIN}/d/{number}": b"x" for number in range(5)})
    files.rm(f"{MAIN}/d", recursive=True)
    assert files.find(MAIN) == [f"{MAIN}/a"]


def test_what_was_written_is_committed_by_the_user(files, server):
    files.pipe({f"{MAIN}/data/1": b"1", f"{MAIN}/data/2": b"2"})
    assert [each.path for each in files.uncommitted(MAIN)] == ["data/1", "data/2"]
    table = IcebergTable(
        metadata_location="s3://t", snapshot_id=1, schema_id=0, spec_id=0, sort_order_id=0
    )
    done = files.commit(MAIN, "two files and a table", [Put(key=("t",), content=table)])
    assert files.uncommitted(MAIN) == []
    files.pipe(f"{MAIN}/data/1", b"changed")
    assert files.cat(f"default@{done.hash}/data/1") == b"1"
    assert files.cat(f"{MAIN}/data/1") == b"changed"
    files.reset(f"{MAIN}/data/1")
    assert files.cat(f"{MAIN}/data/1") == b"1"
    with Client(server) as client:
        assert client.history.log("main").items[0].meta.message == "two files and a table"


def test_references_with_slashes_are_encoded(files, server):
    with Client(server) as client:
        client.references.create("feature/x")
    root = "default@feature%2Fx"
    files.pipe(f"{root}/a", b"1")
    assert files.ls(f"lochan://{root}", detail=False) == [f"{root}/a"]
    assert files.cat(f"{root}/a") == b"1"


def test_files_are_uploaded_and_downloaded(files, tmp_path):
    source = tmp_path / "source"
    (source / "d").mkdir(parents=True)
    (source / "a").write_bytes(b"1")
    (source / "d" / "b").write_bytes(b"2" * 100_000)
    files.put(f"{source}/", f"{MAIN}/up/", recursive=True)
    assert files.find(MAIN) == [f"{MAIN}/up/a", f"{MAIN}/up/d/b"]
    target = tmp_path / "target"
    files.get(f"{MAIN}/up/", str(target), recursive=True)
    assert (Path(target) / "d" / "b").read_bytes() == b"2" * 100_000
