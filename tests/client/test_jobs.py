"""Records of jobs in all four forms of the catalog: written, found, listed and carried."""

from __future__ import annotations

from typing import Any

import pytest

from lochan.base.errors import ContentNotFound, Invalid, InvalidKey, TooLarge
from lochan.base.limits.contents import JOB_BYTES_MAX, JOB_FACTS_BYTES_MAX
from lochan.model.commits import ContentKey, Delete, JobRecord, Operation, Put, RecordJob
from lochan.model.contents import IcebergTable

KEY = ("orders",)


def content(number: int, content_id: str | None = None) -> IcebergTable:
    return IcebergTable(
        id=content_id,
        metadata_location=f"m{number}",
        snapshot_id=number,
        schema_id=0,
        spec_id=0,
        sort_order_id=0,
    )


def write(catalog: Any, branch: str, *jobs: str, key: ContentKey = KEY, number: int = 1) -> str:
    """Writes a table by jobs; returns the commit."""
    found, _ = catalog.contents.get_many(branch, [key])
    there = found[0][1].id if found else None
    operations: list[Operation] = [Put(key=key, content=content(number, there))]
    operations += [RecordJob(key=key, job=job, facts=(("rows", str(number)),)) for job in jobs]
    return catalog.commits.commit(branch, f"write {number}", operations).hash


def names(catalog: Any, spec: str, key: tuple[str, ...] = KEY, **more: Any) -> list[str]:
    return [record.job for record in catalog.contents.jobs(spec, key, **more).items]


def test_a_job_that_has_written_is_found_by_its_name_and_others_are_not(catalog):
    write(catalog, "main", "daily 1", number=7)
    write(catalog, "main", "daily 2", number=8)
    found = catalog.contents.find_jobs("main", KEY, ["daily 1", "daily 2", "daily 3"])
    assert found == (JobRecord("daily 1", (("rows", "7"),)), JobRecord("daily 2", (("rows", "8"),)))
    assert catalog.contents.find_jobs("main~1", KEY, ["daily 2"]) == ()
    assert catalog.contents.find_jobs("main", KEY, []) == ()


def test_jobs_are_listed_in_pages_from_a_name_on_and_by_what_they_begin_with(catalog):
    for number in range(7):
        write(catalog, "main", f"a/{number}", f"b/{number}", number=number)
    assert names(catalog, "main", prefix="a/") == [f"a/{number}" for number in range(7)]
    assert names(catalog, "main", start="b/5") == ["b/5", "b/6"]
    found, token = [], None
    while True:
        page = catalog.contents.jobs("main", KEY, 3, token, prefix="b/")
        found += [record.job for record in page.items]
        token = page.token
        if token is None:
            break
        assert len(page.items) == 3
    assert found == [f"b/{number}" for number in range(7)]


def test_a_job_recorded_again_has_its_last_facts(catalog):
    write(catalog, "main", "daily", number=1)
    write(catalog, "main", "daily", number=2)
    assert catalog.contents.find_jobs("main", KEY, ["daily"]) == (
        JobRecord("daily", (("rows", "2"),)),
    )


def test_records_are_not_among_entries_differences_and_operations(catalog):
    before = write(catalog, "main", number=1)
    write(catalog, "main", "daily", number=2)
    assert [entry.key for entry in catalog.contents.entries("main").items] == [KEY]
    assert [one.key for one in catalog.history.diff(before, "main").items] == [KEY]
    (last, _) = catalog.history.log("main", fetch_all=True).items
    assert [one.key for one in last.operations] == [KEY]


def test_records_follow_a_rename_and_end_with_the_content(catalog):
    write(catalog, "main", "daily", number=1)
    there = catalog.contents.get("main", KEY)[0]
    moved = [Delete(key=KEY), Put(key=("renamed",), content=there)]
    catalog.commits.commit("main", "rename", moved)
    assert names(catalog, "main", ("renamed",)) == ["daily"]
    with pytest.raises(ContentNotFound):
        names(catalog, "main")
    write(catalog, "main", number=3)
    assert names(catalog, "main") == []


@pytest.mark.parametrize("squash", [True, False])
def test_a_merge_brings_records_and_a_revert_takes_them_away(catalog, squash):
    write(catalog, "main", "first", number=1)
    catalog.references.create("etl", "main")
    write(catalog, "etl", "second", number=2)
    write(catalog, "main", "elsewhere", key=("other",), number=3)
    merged = catalog.merges.merge("main", "etl", squash=squash)
    assert names(catalog, "main") == ["first", "second"]
    catalog.merges.revert("main", [merged.hash])
    assert names(catalog, "main") == ["first"]


def test_a_branch_that_was_moved_back_has_no_record_of_what_came_after(catalog):
    first = write(catalog, "main", "first", number=1)
    write(catalog, "main", "second", number=2)
    catalog.references.assign("main", f"main@{first}")
    assert names(catalog, "main") == ["first"]


@pytest.mark.parametrize(
    ("job", "error"),
    [
        ("", InvalidKey),
        ("a\0b", InvalidKey),
        ("line\nline", InvalidKey),
        ("x" * (JOB_BYTES_MAX + 1), InvalidKey),
        ("é" * JOB_BYTES_MAX, InvalidKey),
    ],
    ids=["empty", "nul", "line", "long", "long in bytes"],
)
def test_names_that_no_job_can_have_are_refused_and_nothing_is_written(catalog, job, error):
    head = write(catalog, "main", number=1)
    with pytest.raises(Invalid) as refused:
        write(catalog, "main", job, number=2)
    assert isinstance(refused.value, error) or "name of a job" in refused.value.message
    assert catalog.references.get("main").hash == head


def test_facts_that_are_too_long_and_jobs_of_nothing_are_refused(catalog):
    head = write(catalog, "main", number=1)
    facts = (("note", "x" * JOB_FACTS_BYTES_MAX),)
    there = catalog.contents.get("main", KEY)[0]
    put = Put(key=KEY, content=content(2, there.id))
    with pytest.raises(Invalid) as refused:
        catalog.commits.commit("main", "m", [put, RecordJob(key=KEY, job="a", facts=facts)])
    assert isinstance(refused.value, TooLarge) or "facts of a job" in refused.value.message
    with pytest.raises(Invalid, match="nothing is put"):
        catalog.commits.commit("main", "m", [RecordJob(key=("none",), job="a")])
    with pytest.raises(Invalid, match="nothing is put"):
        catalog.commits.commit("main", "m", [Delete(key=KEY), RecordJob(key=KEY, job="a")])
    with pytest.raises(Invalid, match="records a job once"):
        catalog.commits.commit("main", "m", [put, *[RecordJob(key=KEY, job="a")] * 2])
    assert catalog.references.get("main").hash == head
