"""A row of a newer format is reported as such and does not hide the others in a listing."""

from __future__ import annotations

import pytest

from lochan.base.errors import Corrupt, NewerFormat
from lochan.kernel.check import check_repository
from lochan.kernel.check_findings import Problem, RowKind, Severity
from lochan.kernel.reflog import UNREADABLE
from lochan.kv.store import Kind, partition
from lochan.model.commits import Put
from lochan.model.contents import OtherContent
from tests.kernel.check.newer import (
    make_content_newer,
    make_description_newer,
    make_listed_newer,
    make_reference_newer,
    rewrite,
)
from tests.kernel.check.small import TYPES, checked
from tests.service.workbench import CALL, Service, table
from tests.wire.harness import Wire


def with_branches(*names: str) -> Service:
    service = Service()
    service.put("a")
    service.put("b")
    for name in names:
        service.run(service.repository.references.create(CALL, new_branch(name)))
    return service


def new_branch(name: str):
    from lochan.model.requests import NewReference

    return NewReference(kind="BRANCH", name=name, source="main")


def test_a_reference_of_a_newer_format_does_not_hide_the_others():
    service = with_branches("newer", "other")
    head = service.repository.references.get("main").hash
    make_reference_newer(service.repository.context, "newer")
    references = service.again().repository.references
    listed = {one.name: (one.kind, one.hash) for one in references.list().items}
    assert listed == {
        "main": ("BRANCH", head),
        "newer": ("BRANCH", ""),
        "other": ("BRANCH", head),
    }
    assert [one.name for one in references.list(fetch_all=True).items] == ["main", "newer", "other"]
    page = references.list(1)
    names = [one.name for one in page.items]
    while page.token is not None:
        page = references.list(1, page.token)
        names += [one.name for one in page.items]
    assert names == ["main", "newer", "other"]
    assert references.get("other").hash == head
    with pytest.raises(NewerFormat, match="upgrade Lochan"):
        references.get("newer")
    with pytest.raises(NewerFormat, match="upgrade Lochan"):
        references.delete(CALL, "newer", head)


def test_a_damaged_reference_still_fails_the_listing():
    service = with_branches("bad")
    place = partition(service.repository.context.instance, Kind.REFERENCES)
    service.store.put_many([(place, b"bad", b"\x93damaged")])
    with pytest.raises(Corrupt):
        service.again().repository.references.list()


def test_a_move_of_a_newer_format_does_not_hide_the_others():
    service = with_branches("moving")
    references = service.repository.references
    for _ in range(20):
        references.assign(CALL, "moving", None, "main")
    context = service.repository.context
    place = partition(context.instance, Kind.LOG)
    entries = service.store.scan(place, b"", None, 100).entries
    assert len(entries) > 3
    rewrite(service.store, place, entries[2].key)
    log = references.log("moving", 100).items
    assert [one.version for one in log if one.version] == list(range(21, 0, -1))
    (unread,) = [one for one in log if one.kind == UNREADABLE]
    assert (unread.version, unread.new, unread.old) == (3, "", None)
    assert "upgrade Lochan" in unread.source
    pages, page = [], references.log("moving", 1)
    while page.token is not None:
        pages += page.items
        page = references.log("moving", 1, page.token)
    assert (*pages, *page.items) == log


def test_commits_beside_an_unreadable_move_are_left_out_and_others_shown():
    service = with_branches("moving")
    references = service.repository.references
    for number in range(20):
        service.commit(Put(key=(f"k{number}",), content=table(f"s3://{number}")), branch="moving")
        references.assign(CALL, "moving", None, "moving")
    place = partition(service.repository.context.instance, Kind.LOG)
    entries = service.store.scan(place, b"", None, 100).entries
    rewrite(service.store, place, entries[2].key)
    whole = references.log("moving", 100).items
    assert sum(one.kind == UNREADABLE for one in whole) == 1
    # Of twenty commits the one above and the one below it are not shown.
    assert sum(one.version == 0 for one in whole) == 20 - 2


def test_a_content_of_a_newer_format_does_not_hide_the_others():
    service = Service()
    service.put("a")
    service.commit(Put(key=("odd",), content=OtherContent("ODD", None, {"x": 1})))
    service.put("z")
    context = service.repository.context
    ids = {one.key: one.content_id for one in service.repository.contents.entries("main").items}
    make_content_newer(context, "main", "a")
    make_content_newer(service.again().repository.context, "main", "odd")
    contents = service.again().repository.contents
    entries = contents.entries("main", with_content=True).items
    assert [(one.key, one.type, one.content is None) for one in entries] == [
        (("a",), "ICEBERG_TABLE", True),
        (("odd",), "UNKNOWN", True),
        (("z",), "ICEBERG_TABLE", False),
    ]
    assert {one.key: one.content_id for one in entries} == ids
    assert [one.type for one in contents.entries("main").items] == [
        "ICEBERG_TABLE",
        "UNKNOWN",
        "ICEBERG_TABLE",
    ]
    assert contents.get("main", ("z",))[0] == entries[2].content
    with pytest.raises(NewerFormat):
        contents.get("main", ("a",))
    with pytest.raises(NewerFormat):
        # To leave it out would show the key as absent.
        contents.get_many("main", [("a",), ("z",)])


def test_a_repository_of_a_newer_format_does_not_hide_the_others():
    service = Service()
    for name in ("described", "listed"):
        service.repositories.create(CALL, name)
    make_description_newer(service.repositories.open("described").context)
    make_listed_newer(service.store, "listed")
    repositories = service.again().repositories
    assert repositories.names().items == ("described", "listed", "repo")
    for name in ("described", "listed"):
        with pytest.raises(NewerFormat, match="upgrade Lochan"):
            repositories.open(name)
        with pytest.raises(NewerFormat, match="upgrade Lochan"):
            repositories.open_or_create(name)
    assert repositories.open("repo").name == "repo"
    report = checked(service.store)
    assert (report.damaged, report.newer) == (True, True), "this store was never marked"
    newer = {one.kind for one in report.findings if one.severity is Severity.NEWER_FORMAT}
    assert newer == {RowKind.DESCRIPTION, RowKind.REPOSITORY}
    assert report.progress.commits > 0


def test_a_check_reports_newer_rows_as_such_and_goes_on():
    service = with_branches("newer", "other")
    make_reference_newer(service.repository.context, "newer")
    report = check_repository(service.again().repository.context, decode=TYPES.decode, history=True)
    (found,) = report.findings
    assert (found.kind, found.row, found.problem) == (
        RowKind.REFERENCE,
        "'newer'",
        Problem.NEWER_FORMAT,
    )
    assert "upgrade Lochan" in found.meaning
    assert (report.damaged, report.newer) == (False, True)
    assert report.progress.references == 4


def test_both_versions_of_the_api_list_a_newer_reference_without_its_hash():
    wire = Wire()
    head = wire.branch("newer")
    make_reference_newer(wire.repository.context, "newer")
    for answer in (wire.v2("GET", "/trees"), wire.v1("GET", "/trees")):
        listed = answer.json["references"]
        assert {one["name"]: one.get("hash") for one in listed} == {"main": head, "newer": None}
    for answer in (wire.v2("GET", "/trees/newer"), wire.v1("GET", "/trees/tree/newer")):
        assert answer.code == (501, "NEWER_FORMAT")
        assert "written by a newer Lochan: upgrade" in answer.message
