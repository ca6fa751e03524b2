"""Files of the embedded library: the same group of methods as a client has."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from lochan.base.errors import Denied, Invalid, PathNotFound, TooLarge
from lochan.embedded import check_store, open_repository
from lochan.embedded import use_cases as embedded_use_cases
from lochan.model.commits import Put
from lochan.model.files import FileChange
from tests.service.bench import table

LARGE = os.urandom(100_000)


@pytest.mark.parametrize("store", ["memory:", "rocksdb:{}/store", "rocksdb:{}/deep/er/store"])
def test_files_are_used_in_one_process(tmp_path: Path, store: str) -> None:
    (tmp_path / "deep/er").mkdir(parents=True)
    with open_repository(store.format(tmp_path), who="me") as repository:
        files = repository.files
        files.put("main", "d/1", LARGE, metadata={"k": "v"}, content_type="x/y")
        files.put("main", "d/2", io.BytesIO(b"from a file"))
        files.put("main", "d/3", [b"from ", b"pieces"], if_absent=True)
        assert files.read("main", "d/1", start=5, end=9) == LARGE[5:9]
        assert files.read("main", "d/1", last=3) == LARGE[-3:]
        with files.open("main", "d/2") as stream:
            assert (stream.info.size, b"".join(stream)) == (11, b"from a file")
        made = files.commit("main", "table and files", [Put(key=("t",), content=table("t"))])
        listed = [one.path for one in files.iterate(f"main@{made.hash}", "d/")]
        assert listed == ["d/1", "d/2", "d/3"]
        repository.references.create("side")
        files.copy("side", "e", "d/1", source="main")
        files.update("side", "e", metadata={})
        files.delete("side", "d/2")
        files.delete_many("side", ["d/3"])
        assert [one.path for one in files.list("side").items] == ["d/1", "e"]
        assert len(list(files.iterate_uncommitted("side"))) == 3
        files.commit("side", "more")
        changes = [one for one in files.iterate_diff("main", "side") if isinstance(one, FileChange)]
        assert [(one.path, one.kind) for one in changes] == [
            ("d/2", "removed"),
            ("d/3", "removed"),
            ("e", "added"),
        ]
        assert repository.merges.merge("main", "side", paths={"d/2": "DROP"}).successful
        assert files.read("main", "d/2") == b"from a file"
        log = files.iterate_log("main", paths=["d/1"])
        assert [one.meta.message for one in log] == ["table and files"]
        files.put("main", "d/1", b"staged")
        files.reset("main", path="d/1")
        files.put("main", "x", b"staged")
        files.reset("main")
        files.hard_reset("main", made.hash)
        assert repository.references.get("main").hash == made.hash
        assert not repository.check(history=True).findings
        repository.sweep()
        with pytest.raises(PathNotFound):
            files.stat("main", "e")
        with pytest.raises(Invalid):
            files.reserve("main", "e")


def test_files_are_there_after_the_store_was_closed(tmp_path: Path) -> None:
    url = f"rocksdb:{tmp_path}/store"
    with open_repository(url) as repository:
        repository.files.put("main", "large", LARGE)
        repository.files.put("main", "small", b"small")
    with open_repository(url) as repository:
        assert repository.files.read("main", "large") == LARGE
        repository.files.commit("main", "m")
    with open_repository(url) as repository:
        assert repository.files.read("main", "small") == b"small"
    assert len(list((tmp_path / "objects").iterdir())) == 1
    assert not check_store(url, history=True).findings


def test_the_place_of_a_repository_is_chosen_when_it_is_created(tmp_path: Path) -> None:
    url, place = f"rocksdb:{tmp_path}/store", tmp_path / "elsewhere"
    with open_repository(url, storage=f"file:{place}") as repository:
        repository.files.put("main", "large", LARGE)
    assert not (tmp_path / "objects").exists()
    with (
        open_repository(url, data=tmp_path / "data") as repository,
        pytest.raises(Denied, match="below the data directory"),
    ):
        repository.files.read("main", "large")
    with open_repository(url, storage=f"file:{place}") as repository:
        assert repository.files.read("main", "large") == LARGE


def test_an_import_is_of_prefixes_that_are_allowed(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake/a").write_bytes(b"a")
    lake = f"file://{tmp_path}/lake"
    with open_repository(f"rocksdb:{tmp_path}/store", imports=[lake]) as repository:
        made = repository.files.import_files("main", [(f"{lake}/", "in/")], "import")
        assert (made.objects, repository.files.read("main", "in/a")) == (1, b"a")
        with pytest.raises(Denied):
            repository.files.import_files("main", [(f"file://{tmp_path}/", "in/")], "import")


def test_a_read_into_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_use_cases, "FILE_READ_BYTES_MAX", 10)
    with open_repository("memory:", data=tmp_path) as repository:
        repository.files.put("main", "a", b"x" * 11)
        with pytest.raises(TooLarge):
            repository.files.read("main", "a")
        assert repository.files.read("main", "a", start=1) == b"x" * 10
