"""Files through every catalog, embedded or over HTTP, blocking or awaited: one list."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lochan.base.errors import (
    ConditionFailed,
    Invalid,
    KeysConflict,
    LochanError,
    NotABranch,
    NothingToCommit,
    PathNotFound,
    RangeNotSatisfiable,
    ReferenceNotFound,
    StagedWork,
)
from lochan.client import Client
from lochan.embedded import open_repository
from lochan.model.commits import CommitMeta, Put
from lochan.model.contents import IcebergTable
from lochan.model.files import FileChange, FilePrefix
from tests.client.serving import StepByStep, serving

LONG = bytes(range(256)) * 200


@pytest.fixture(params=["memory", "rocksdb", "client", "async client"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """An empty repository that may import from a folder."""
    source = tmp_path / "source"
    source.mkdir()
    imports = [f"file://{source}"]
    if request.param in ("memory", "rocksdb"):
        url = "memory:" if request.param == "memory" else f"rocksdb:{tmp_path / 'store'}"
        with open_repository(url, imports=imports) as repository:
            yield repository
        return
    with serving(imports=imports) as url:
        if request.param == "client":
            with Client(url) as client:
                yield client
            return
        step_by_step = StepByStep(url)
        try:
            yield step_by_step
        finally:
            step_by_step.close()


def table(number: int) -> IcebergTable:
    return IcebergTable(
        metadata_location=f"s3://{number}",
        snapshot_id=number,
        schema_id=0,
        spec_id=0,
        sort_order_id=0,
    )


def paths(items: Any) -> list[str]:
    return [item.path for item in items]


@pytest.mark.parametrize("body", [b"", b"short", LONG])
def test_a_file_is_read_as_it_was_written(catalog, body):
    info = catalog.files.put(
        "main", "a/b", body, content_type="text/x", metadata={"k": "é", "a": "1"}
    )
    assert (info.path, info.size, info.content_type) == ("a/b", len(body), "text/x")
    assert info.metadata == (("a", "1"), ("k", "é"))
    assert info.sha256 == hashlib.sha256(body).hexdigest()
    assert catalog.files.stat("main", "a/b") == info
    assert catalog.files.read("main", "a/b") == body


def test_ranges_are_read(catalog):
    catalog.files.put("main", "a", LONG)
    assert catalog.files.read("main", "a", start=5, end=10) == LONG[5:10]
    assert catalog.files.read("main", "a", start=51_190) == LONG[51_190:]
    assert catalog.files.read("main", "a", last=3) == LONG[-3:]
    assert catalog.files.read("main", "a", start=0, end=10**12) == LONG
    with pytest.raises(RangeNotSatisfiable) as refused:
        catalog.files.read("main", "a", start=len(LONG))
    assert refused.value.size == len(LONG)
    for wrong in ({"start": -1}, {"start": 5, "end": 5}, {"last": 0}, {"last": 1, "start": 1}):
        with pytest.raises(Invalid):
            catalog.files.read("main", "a", **wrong)


def test_bodies_come_from_bytes_paths_files_and_iterators(catalog, tmp_path):
    local = tmp_path / "local"
    local.write_bytes(LONG)
    bodies = [LONG, memoryview(LONG), local, io.BytesIO(LONG), iter([LONG[:9], LONG[9:]]), [LONG]]
    for number, body in enumerate(bodies):
        catalog.files.put("main", f"from/{number}", body)
        assert catalog.files.read("main", f"from/{number}") == LONG
    with local.open("rb") as file:
        catalog.files.put("main", "from/file", file)
    assert catalog.files.read("main", "from/file") == LONG
    with pytest.raises(Invalid):
        catalog.files.put("main", "from/text", "text")
    assert "from/text" not in paths(catalog.files.iterate("main"))


def test_a_wrong_size_or_checksum_stores_nothing(catalog):
    for body in (b"abc", LONG):
        for wrong in ({"size": len(body) + 1}, {"md5": "0" * 32}, {"sha256": "0" * 64}):
            with pytest.raises(Invalid):
                catalog.files.put("main", "x", body, **wrong)
            with pytest.raises(Invalid):
                catalog.files.put("main", "x", iter([body]), **wrong)
        digits = hashlib.sha256(body).hexdigest()
        assert paths(catalog.files.iterate("main")) == []
        catalog.files.put("main", "x", iter([body]), size=len(body), sha256=digits)
        catalog.files.delete("main", "x")


def test_writes_are_conditional(catalog):
    first = catalog.files.put("main", "a", b"1", if_absent=True)
    with pytest.raises(ConditionFailed):
        catalog.files.put("main", "a", b"2", if_absent=True)
    with pytest.raises(ConditionFailed):
        catalog.files.put("main", "a", b"2", if_match="other")
    with pytest.raises(ConditionFailed):
        catalog.files.delete("main", "a", if_sha256="0" * 64)
    second = catalog.files.put("main", "a", b"2", if_match=first.etag, if_sha256=first.sha256)
    assert catalog.files.delete("main", "a", if_match=second.etag) is True
    assert catalog.files.delete("main", "a") is False
    with pytest.raises(Invalid):
        catalog.files.put("main", "a", b"1", if_absent=True, if_match="*")


def test_files_are_copied_updated_and_deleted(catalog):
    first = catalog.files.put("main", "a", LONG, content_type="x/y", metadata={"k": "1"})
    copied = catalog.files.copy("main", "b", "a", metadata={"k": "2"})
    assert (copied.sha256, copied.content_type, copied.metadata) == (
        first.sha256,
        "x/y",
        (("k", "2"),),
    )
    updated = catalog.files.update("main", "a", content_type="z/z")
    assert (updated.content_type, updated.metadata) == ("z/z", (("k", "1"),))
    assert catalog.files.read("main", "b") == LONG
    catalog.files.delete_many("main", ["a", "b", "nothing"])
    assert paths(catalog.files.iterate("main")) == []
    for call in (
        lambda: catalog.files.stat("main", "a"),
        lambda: catalog.files.read("main", "a"),
        lambda: catalog.files.copy("main", "c", "a"),
        lambda: catalog.files.update("main", "a", content_type="x"),
    ):
        with pytest.raises(PathNotFound):
            call()


def test_listings_have_pages_and_folders(catalog):
    names = ["a", "d/1", "d/2", "d/e/3", "z"]
    for name in names:
        catalog.files.put("main", name, name.encode())
    assert paths(catalog.files.iterate("main")) == names
    assert paths(catalog.files.iterate("main", "d/")) == names[1:4]
    assert paths(catalog.files.iterate("main", after="d/1")) == names[2:]
    folded = list(catalog.files.iterate("main", delimiter="/"))
    assert folded[1] == FilePrefix("d/")
    assert paths(folded) == ["a", "d/", "z"]
    first = catalog.files.list("main", limit=2)
    assert paths(first.items) == names[:2]
    second = catalog.files.list("main", limit=10, token=first.token)
    assert paths(second.items) == names[2:]
    assert second.token is None
    with pytest.raises(Invalid):
        catalog.files.list("main", token="forged")


def test_staged_files_become_a_commit_together_with_tables(catalog):
    catalog.files.put("main", "a", b"1")
    catalog.files.put("main", "b", b"2")
    staged = list(catalog.files.iterate_uncommitted("main"))
    assert [(each.path, each.kind) for each in staged] == [("a", "added"), ("b", "added")]
    done = catalog.files.commit(
        "main", CommitMeta(message="both", authors=("Ada",)), [Put(key=("t",), content=table(1))]
    )
    assert [added.key for added in done.added] == [("t",)]
    assert list(catalog.files.iterate_uncommitted("main")) == []
    assert catalog.contents.get(done.hash, ("t",))[0].snapshot_id == 1
    assert catalog.files.read(done.hash, "a") == b"1"
    (entry,) = catalog.history.iterate("main")
    assert (entry.meta.hash, entry.meta.message) == (done.hash, "both")
    with pytest.raises(NothingToCommit):
        catalog.files.commit("main", "again")
    empty = catalog.files.commit("main", "again", allow_empty=True)
    assert empty.hash != done.hash


def test_one_merge_and_one_revert_cover_tables_and_files(catalog):
    catalog.files.put("main", "a", b"1")
    first = catalog.files.commit("main", "first")
    catalog.references.create("dev")
    for name in ("a", "b", "c"):
        catalog.files.put("dev", name, b"dev")
    changed = catalog.files.commit("dev", "changed", [Put(key=("t",), content=table(1))])
    merged = catalog.merges.merge("main", "dev")
    assert merged.applied
    assert sorted(each.path for each in merged.paths) == ["a", "b", "c"]
    assert catalog.files.read("main", "c") == b"dev"
    diff = list(catalog.files.iterate_diff(first.hash, "main"))
    assert [(each.path, each.kind) for each in diff] == [
        ("a", "changed"),
        ("b", "added"),
        ("c", "added"),
    ]
    assert list(catalog.files.iterate_diff("main", changed.hash)) == []
    log = [entry.meta.message for entry in catalog.files.iterate_log("dev", paths=["a"])]
    assert log == ["changed", "first"]
    assert [e.meta.message for e in catalog.files.iterate_log("dev", prefixes=["b"])] == ["changed"]
    catalog.merges.revert("main", [merged.hash])
    assert paths(catalog.files.iterate("main")) == ["a"]
    assert catalog.files.read("main", "a") == b"1"
    with pytest.raises(LochanError):
        catalog.contents.get("main", ("t",))


def test_conflicts_in_files_are_reported_and_chosen_by_path(catalog):
    catalog.files.put("main", "a", b"1")
    catalog.files.commit("main", "first")
    catalog.references.create("dev")
    catalog.files.put("dev", "a", b"dev")
    catalog.files.commit("dev", "dev")
    catalog.files.put("main", "a", b"main")
    catalog.files.commit("main", "main")
    with pytest.raises(KeysConflict) as refused:
        catalog.merges.merge("main", "dev")
    (conflict,) = refused.value.details
    assert getattr(conflict, "path", None) == "a"
    shown = catalog.merges.merge("main", "dev", conflicts_as_result=True)
    assert [each.path for each in shown.paths if each.conflict is not None] == ["a"]
    catalog.merges.merge("main", "dev", paths={"a": "FORCE"})
    assert catalog.files.read("main", "a") == b"dev"


def test_resets_drop_what_is_staged(catalog):
    for name in ("a", "d/1", "d/2"):
        catalog.files.put("main", name, b"1")
    first = catalog.files.commit("main", "first")
    for name in ("a", "d/1", "d/2"):
        catalog.files.put("main", name, b"2")
    catalog.files.reset("main", path="a")
    assert [each.path for each in catalog.files.iterate_uncommitted("main")] == ["d/1", "d/2"]
    catalog.files.reset("main", prefix="d/1")
    assert [each.path for each in catalog.files.iterate_uncommitted("main")] == ["d/2"]
    catalog.files.commit("main", "second")
    catalog.files.put("main", "z", b"3")
    with pytest.raises(StagedWork):
        catalog.files.hard_reset("main", first.hash)
    moved = catalog.files.hard_reset("main", first.hash, discard_staged=True)
    assert (moved.name, moved.hash) == ("main", first.hash)
    assert paths(catalog.files.iterate("main")) == ["a", "d/1", "d/2"]
    catalog.files.put("main", "z", b"3")
    catalog.files.reset("main")
    assert list(catalog.files.iterate_uncommitted("main")) == []
    with pytest.raises(Invalid):
        catalog.files.reset("main", path="a", prefix="b")


def test_objects_are_imported_without_a_copy(catalog, tmp_path):
    source = tmp_path / "source"
    (source / "d").mkdir()
    (source / "d/one").write_bytes(b"1")
    (source / "two").write_bytes(LONG)
    done = catalog.files.import_files("main", [(f"file://{source}", "in/")], "import")
    assert done.objects == 2
    assert paths(catalog.files.iterate("main")) == ["in/d/one", "in/two"]
    assert catalog.files.read("main", "in/two") == LONG
    assert catalog.files.stat("main", "in/two").sha256 == ""
    assert catalog.references.get("main").hash == done.hash
    with pytest.raises(LochanError):
        catalog.files.import_files("main", [("file:///etc", "in/")], "import")


def test_places_without_urls_say_so(catalog):
    catalog.files.put("main", "a", LONG)
    for call in (
        lambda: catalog.files.presign("main", "a"),
        lambda: catalog.files.reserve("main", "b"),
    ):
        with pytest.raises(Invalid):
            call()
    with pytest.raises(Invalid):
        catalog.files.link("main", "b", "forged")


def test_what_does_not_exist_and_what_is_no_branch_is_refused(catalog):
    catalog.files.put("main", "a", b"1")
    catalog.files.commit("main", "m")
    catalog.references.create("v1", "main", kind="TAG")
    assert catalog.files.read("v1", "a") == b"1"
    with pytest.raises((NotABranch, ReferenceNotFound)):
        catalog.files.put("v1", "a", b"2")
    with pytest.raises(ReferenceNotFound):
        catalog.files.put("nothing", "a", b"2")
    with pytest.raises(ReferenceNotFound):
        list(catalog.files.iterate("nothing"))
    for path in ("", "a\0", "x" * 1_025, "x\udc80"):
        for call in (
            lambda path=path: catalog.files.put("main", path, b"1"),
            lambda path=path: catalog.files.stat("main", path),
            lambda path=path: catalog.files.delete("main", path),
            lambda path=path: catalog.files.delete_many("main", [path]),
        ):
            with pytest.raises(Invalid):
                call()


def test_changes_are_values(catalog):
    catalog.files.put("main", "a", b"1")
    (change,) = catalog.files.iterate_uncommitted("main")
    assert change == FileChange(path="a", after=catalog.files.stat("main", "a"))
