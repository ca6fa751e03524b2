"""Listings of branches: base and staged files as one, prefix, delimiter, pages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lochan.base.keys import file_key
from lochan.codec.elements import decode_file
from lochan.service.file_pages import PathSelection, fold_page
from lochan.staging.committer import CommitTexts
from tests.staging.workbench import MAIN, StagingBench, entry_of


def page_of(bench, selection, start, limit, branch=MAIN):
    """One page of a listing, folded as the service does."""
    listings = bench.staging.listings

    def look(row):
        effort = listings.effort(row.name)
        return fold_page(
            lambda at, end, step: listings.page(row, at, end, step, effort),
            None,
            selection,
            start,
            limit,
        )

    return bench.staging.reader.read(branch, look)


def listed(bench, limit=1_000, **wanted):
    """All pages of a listing: paths and contents, common prefixes without a content."""
    selection = PathSelection(**wanted)
    found: list[tuple[str, str | None]] = []
    at: bytes | None = selection.range().start
    while at is not None:
        page = page_of(bench, selection, at, limit)
        assert len(page.items) <= limit
        found += [
            (path, None if element is None else decode_file(element).address)
            for path, element in page.items
        ]
        at = page.next_start
    return found


def model(files, prefix="", delimiter="", after=""):
    found = []
    for path in sorted(files, key=str.encode):
        if not path.startswith(prefix):
            continue
        at = path.find(delimiter, len(prefix)) if delimiter else -1
        item = (path, files[path]) if at < 0 else (path[: at + len(delimiter)], None)
        if item not in found:
            found.append(item)
    return [item for item in found if not after or item[0].encode() > after.encode()]


PATHS = st.sampled_from(
    ["a", "a/", "a/b", "a/b/c", "a/bb", "a0", "b", "b/x", "b//y", "ä/ü", "z/1", "z/2", "z"]
)
STEPS = st.lists(
    st.tuples(PATHS, st.sampled_from(["put", "put", "delete"]))
    | st.sampled_from([("", "commit"), ("", "seal")]),
    max_size=25,
)


@given(
    STEPS,
    st.sampled_from(["", "a", "a/", "b/", "z/1", "q"]),
    st.sampled_from(["", "/", "b"]),
    st.integers(1, 5),
    st.sampled_from(["", "a", "a/", "a/b", "a/b/", "a/b/c", "b", "b//", "q/r", "z/", "z/1"]),
)
def test_a_listing_is_what_a_plain_model_has(steps, prefix, delimiter, limit, after):
    bench = StagingBench()
    files: dict[str, str] = {}
    for number, (path, step) in enumerate(steps):
        if step == "put":
            files[path] = f"{path}{number}"
            bench.put(path, files[path])
        elif step == "delete":
            assert bench.delete(path) == (path in files)
            files.pop(path, None)
        elif step == "commit":
            bench.commit_files(allow_empty=True)
        else:
            bench.staging.committer.prepare(MAIN, CommitTexts("never published"))
    assert listed(bench, prefix=prefix, delimiter=delimiter, limit=limit) == model(
        files, prefix, delimiter
    )
    shown = listed(bench, prefix=prefix, delimiter=delimiter, after=after)
    assert shown == model(files, prefix, delimiter, after)
    bench.commit_files(allow_empty=True)
    assert listed(bench, prefix=prefix, delimiter=delimiter, after=after) == shown
    changes = bench.staging.uncommitted.page(MAIN).changes
    assert changes == ()


def test_a_common_prefix_is_not_listed_after_a_path_below_it():
    bench = StagingBench()
    for path in ("a/1", "a/2", "a0", "b/1"):
        bench.put(path)
    for after in ("a/", "a/1", "a/1/x", "a/9"):
        assert listed(bench, delimiter="/", after=after) == [("a0", "a0"), ("b/", None)]
    assert listed(bench, delimiter="/", after="a") == [("a/", None), ("a0", "a0"), ("b/", None)]
    assert listed(bench, delimiter="/", after="a/1", prefix="a/") == [("a/2", "a/2")]
    assert listed(bench, after="a/1") == [("a/2", "a/2"), ("a0", "a0"), ("b/1", "b/1")]


def test_uncommitted_changes_are_what_differs_from_the_head():
    bench = StagingBench()
    for path in ("changed", "removed", "same", "back"):
        bench.put(path, "old")
    bench.commit_files()
    assert bench.staging.uncommitted.is_clean(MAIN)
    bench.put("changed", "new")
    bench.put("same", "old")
    bench.put("added", "new")
    bench.put("gone", "new")
    bench.delete("gone")
    bench.delete("back")
    bench.staging.committer.prepare(MAIN, CommitTexts("sealed"))
    bench.delete("removed")
    bench.put("back", "old")
    page = bench.staging.uncommitted.page(MAIN)
    assert [(one.path, one.kind) for one in page.changes] == [
        ("added", "added"),
        ("changed", "changed"),
        ("removed", "removed"),
    ]
    assert not bench.staging.uncommitted.is_clean(MAIN)
    first = bench.staging.uncommitted.page(MAIN, limit=1)
    assert [one.path for one in first.changes] == ["added"]
    rest = bench.staging.uncommitted.page(MAIN, after=first.next_after or "")
    assert [one.path for one in rest.changes] == ["changed", "removed"]
    assert [one.path for one in bench.staging.uncommitted.page(MAIN, "re").changes] == ["removed"]


def test_a_branch_with_many_equal_records_is_clean():
    bench = StagingBench()
    items = [(file_key(f"f{n:05}"), entry_of("x")) for n in range(12_000)]
    bench.staging.writer.put_many(MAIN, items)
    bench.commit_files()
    bench.staging.writer.put_many(MAIN, items)
    assert bench.staging.uncommitted.is_clean(MAIN)
    bench.delete("f11999")
    assert not bench.staging.uncommitted.is_clean(MAIN)
