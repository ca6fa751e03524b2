"""Every attribute of the seed's table, for every type, caused by clients of every face.

A line of the table is one request in the words of one protocol, with the events that it must raise.
Spark has its own lines in `tests/spark/test_event_attributes.py`; both share `ATTRIBUTES`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from tests.events.faces import WHO, Clients, watched_server

pytestmark = pytest.mark.slow

Expected = list[tuple[str, dict[str, Any]]]

COMMON = {"id", "type", "time", "sentBy", "initiator", "repository", "reference"}
"""What the seed asks of every event; the reference has a short name, a full name and a kind."""

ATTRIBUTES = {
    "COMMIT": {"hashBefore", "hashAfter", "meta", "operations"},
    "MERGE": {"source", "sourceHash", "hashBefore", "hashAfter", "commonAncestor"},
    "TRANSPLANT": {"source", "hashBefore", "hashAfter"},
    "REFERENCE_CREATED": {"hashAfter"},
    "REFERENCE_UPDATED": {"hashBefore", "hashAfter"},
    "REFERENCE_DELETED": {"hashBefore"},
    "CONTENT_STORED": {"hash", "contentType", "key", "content"},
    "CONTENT_REMOVED": {"hash", "contentType", "key"},
    "FILE_STORED": {"hash", "path", "file"},
    "FILE_REMOVED": {"hash", "path"},
}
"""The attributes that each type has in the seed's table; those of files are ours."""


def check_attributes(event: dict[str, Any], who: str = WHO) -> None:
    """Checks that an event has every attribute, and those that all types have."""
    wanted = COMMON | ATTRIBUTES[event["type"]]
    if not who:
        # Without authentication the caller is not known.
        wanted -= {"initiator"}
    assert {name for name in wanted if event.get(name) in (None, "")} == set()
    assert UUID(event["id"]).version == 5
    assert datetime.fromisoformat(event["time"]).tzinfo is not None
    assert event["initiator"] == who
    reference = event["reference"]
    folder = {"BRANCH": "heads", "TAG": "tags"}[reference["type"]]
    assert reference["fullName"] == f"/refs/{folder}/{reference['name']}"
    if event["type"] == "COMMIT":
        meta = event["meta"]
        assert meta["hash"] == event["hashAfter"]
        assert meta["message"]
        assert meta["commitTime"]


def table(location: str, **more: Any) -> dict[str, Any]:
    numbers = {"snapshotId": 1, "schemaId": 2, "specId": 3, "sortOrderId": 4}
    return {"type": "ICEBERG_TABLE", "metadataLocation": location, **numbers, **more}


def key(name: str) -> dict[str, Any]:
    return {"elements": [name]}


def put(name: str) -> dict[str, Any]:
    return {"type": "PUT", "key": key(name), "content": table(name)}


def commit_body(*operations: dict[str, Any]) -> dict[str, Any]:
    return {"commitMeta": {"message": "do"}, "operations": list(operations)}


def prepare(one: Clients) -> None:
    """`main` with the table a; `side` with the table c and the file d/f besides; the tag t."""
    one.v2("POST", f"/trees/main@{one.head('main')}/history/commit", commit_body(put("a")))
    branch(one, "side")
    one.v2("POST", f"/trees/side@{one.head('side')}/history/commit", commit_body(put("c")))
    one.put("side", "d/f", b"bytes")
    one.files("POST", "/branches/side/commits", json={"message": "file"})
    one.files("POST", "/tags", json={"id": "t", "ref": "main"})


def branch(one: Clients, name: str) -> None:
    source = {"type": "BRANCH", "name": "main", "hash": one.head("main")}
    one.v2("POST", f"/trees?name={name}&type=BRANCH", source)


def heads(before: str, after: str) -> dict[str, Any]:
    return {"hashBefore": before, "hashAfter": after}


def committed(before: str, after: str, content: dict[str, Any]) -> Expected:
    """The events of a commit that puts the table n and deletes a."""
    listed = [{"type": "DELETE", "key": key("a")}, {"type": "PUT", "key": key("n")}]
    return [
        ("COMMIT", {**heads(before, after), "operations": listed}),
        ("CONTENT_REMOVED", {"hash": after, "key": key("a"), "contentType": "ICEBERG_TABLE"}),
        ("CONTENT_STORED", {"hash": after, "key": key("n"), "content": content}),
    ]


_CHANGES = commit_body(put("n"), {"type": "DELETE", "key": key("a")})


def commit_v2(one: Clients) -> Expected:
    before = one.head("main")
    one.v2("POST", f"/trees/main@{before}/history/commit", _CHANGES)
    found = one.v2("GET", "/trees/main/contents/n")
    return committed(before, one.head("main"), found["content"])


def commit_v1(one: Clients) -> Expected:
    before = one.head("main")
    one.v1("POST", f"/trees/branch/main/commit?expectedHash={before}", _CHANGES)
    found = one.v2("GET", "/trees/main/contents/n")
    return committed(before, one.head("main"), found["content"])


def merged(one: Clients, request: Callable[[Clients, str, str], None]) -> Expected:
    base = before = one.head("main")
    source = one.head("side")
    request(one, before, source)
    after = one.head("main")
    fields = {"source": "side", "sourceHash": source, "commonAncestor": base}
    return [
        ("MERGE", {**fields, **heads(before, after)}),
        ("FILE_STORED", {"hash": after, "path": "d/f"}),
        ("CONTENT_STORED", {"hash": after, "key": key("c"), "contentType": "ICEBERG_TABLE"}),
    ]


def merge_v2(one: Clients) -> Expected:
    def request(one: Clients, before: str, source: str) -> None:
        body = {"fromRefName": "side", "fromHash": source}
        one.v2("POST", f"/trees/main@{before}/history/merge", body)

    return merged(one, request)


def merge_v1(one: Clients) -> Expected:
    def request(one: Clients, before: str, source: str) -> None:
        body = {"fromRefName": "side", "fromHash": source}
        one.v1("POST", f"/trees/branch/main/merge?expectedHash={before}", body)

    return merged(one, request)


def merge_files(one: Clients) -> Expected:
    return merged(one, lambda one, *_: one.files("POST", "/refs/side/merge/main", json={}))


def picked(one: Clients, request: Callable[[Clients, str, str], None]) -> Expected:
    before, source = one.head("main"), one.head("side")
    request(one, before, source)
    after = one.head("main")
    return [
        ("TRANSPLANT", {"source": "side", "commitCount": 1, **heads(before, after)}),
        ("FILE_STORED", {"hash": after, "path": "d/f"}),
    ]


def transplant_v2(one: Clients) -> Expected:
    def request(one: Clients, before: str, source: str) -> None:
        body = {"fromRefName": "side", "hashesToTransplant": [source]}
        one.v2("POST", f"/trees/main@{before}/history/transplant", body)

    return picked(one, request)


def transplant_v1(one: Clients) -> Expected:
    def request(one: Clients, before: str, source: str) -> None:
        body = {"fromRefName": "side", "hashesToTransplant": [source]}
        one.v1("POST", f"/trees/branch/main/transplant?expectedHash={before}", body)

    return picked(one, request)


def cherry_pick_files(one: Clients) -> Expected:
    def request(one: Clients, before: str, source: str) -> None:
        one.files("POST", "/branches/main/cherry-pick", json={"ref": "side"})

    return picked(one, request)


def created(kind: str, request: Callable[[Clients, str], Any]) -> Callable[[Clients], Expected]:
    def run(one: Clients) -> Expected:
        at = one.head("main")
        request(one, at)
        return [("REFERENCE_CREATED", {"hashAfter": at, "kind": kind})]

    return run


def _source(at: str) -> dict[str, str]:
    return {"type": "BRANCH", "name": "main", "hash": at}


def moved(
    name: str, request: Callable[[Clients, str, str], Any], cause: str = "assign"
) -> Callable[[Clients], Expected]:
    def run(one: Clients) -> Expected:
        target = "side" if name == "t" else "main"
        before, after = one.head(name), one.head(target)
        request(one, before, after)
        return [("REFERENCE_UPDATED", {**heads(before, after), "cause": cause})]

    return run


def _assign_v1(kind: str, name: str) -> Callable[[Clients, str, str], Any]:
    source = "side" if name == "t" else "main"
    return lambda one, before, after: one.v1(
        "PUT",
        f"/trees/{kind}/{name}?expectedHash={before}",
        {"type": "BRANCH", "name": source, "hash": after},
    )


def _assign_v2(kind: str, name: str) -> Callable[[Clients, str, str], Any]:
    source = "side" if name == "t" else "main"
    return lambda one, before, after: one.v2(
        "PUT",
        f"/trees/{name}@{before}?type={kind}",
        {"type": "BRANCH", "name": source, "hash": after},
    )


def deleted(name: str, request: Callable[[Clients, str], Any]) -> Callable[[Clients], Expected]:
    def run(one: Clients) -> Expected:
        before = one.head(name)
        request(one, before)
        return [("REFERENCE_DELETED", {"hashBefore": before})]

    return run


def changed_files(one: Clients, write: Callable[[], None], remove: Callable[[], None]) -> Expected:
    before = one.head("side")
    write()
    remove()
    one.files("POST", "/branches/side/commits", json={"message": "files"})
    after = one.head("side")
    listed = [{"type": "DELETE", "path": "d/f"}, {"type": "PUT", "path": "d/g"}]
    return [
        ("COMMIT", {**heads(before, after), "operations": listed}),
        ("FILE_REMOVED", {"hash": after, "path": "d/f"}),
        ("FILE_STORED", {"hash": after, "path": "d/g", "size": 2, "contentType": "x/y"}),
    ]


def commit_lakefs(one: Clients) -> Expected:
    return changed_files(
        one,
        lambda: one.upload("side", "d/g", b"12"),
        lambda: one.files("DELETE", "/branches/side/objects?path=d%2Ff"),
    )


def commit_s3(one: Clients) -> Expected:
    return changed_files(
        one,
        lambda: one.put("side", "d/g", b"12"),
        lambda: one.s3.delete_object(Bucket="default", Key="side/d/f"),
    )


def copy_s3(one: Clients) -> Expected:
    def copy() -> None:
        one.put("side", "d/other", b"12")
        one.s3.copy_object(Bucket="default", Key="side/d/g", CopySource="default/side/d/other")
        one.s3.delete_object(Bucket="default", Key="side/d/other")

    return changed_files(one, copy, lambda: one.s3.delete_object(Bucket="default", Key="side/d/f"))


def revert_files(one: Clients) -> Expected:
    before = one.head("side")
    one.files("POST", "/branches/side/revert", json={"ref": "side", "parent_number": 0})
    after = one.head("side")
    return [
        ("COMMIT", heads(before, after)),
        ("FILE_REMOVED", {"hash": after, "path": "d/f"}),
    ]


COMMIT = ("COMMIT", "CONTENT_REMOVED", "CONTENT_STORED")
MERGE = ("MERGE", "FILE_STORED", "CONTENT_STORED")
TRANSPLANT = ("TRANSPLANT", "FILE_STORED")
FILES = ("COMMIT", "FILE_REMOVED", "FILE_STORED")
CREATED, UPDATED, DELETED = (f"REFERENCE_{name}" for name in ("CREATED", "UPDATED", "DELETED"))

_TABLE: dict[str, Callable[[Clients], Expected]] = {
    "nessie v2 commit": commit_v2,
    "nessie v2 merge": merge_v2,
    "nessie v2 transplant": transplant_v2,
    "nessie v2 create branch": created(
        "BRANCH", lambda one, at: one.v2("POST", "/trees?name=n&type=BRANCH", _source(at))
    ),
    "nessie v2 create tag": created(
        "TAG", lambda one, at: one.v2("POST", "/trees?name=n&type=TAG", _source(at))
    ),
    "nessie v2 assign branch": moved("side", _assign_v2("BRANCH", "side")),
    "nessie v2 assign tag": moved("t", _assign_v2("TAG", "t")),
    "nessie v2 delete branch": deleted(
        "side", lambda one, at: one.v2("DELETE", f"/trees/side@{at}")
    ),
    "nessie v2 delete tag": deleted("t", lambda one, at: one.v2("DELETE", f"/trees/t@{at}")),
    "nessie v1 commit": commit_v1,
    "nessie v1 merge": merge_v1,
    "nessie v1 transplant": transplant_v1,
    "nessie v1 create branch": created(
        "BRANCH",
        lambda one, at: one.v1(
            "POST",
            "/trees/tree?sourceRefName=main",
            {"type": "BRANCH", "name": "n", "hash": at},
        ),
    ),
    "nessie v1 create tag": created(
        "TAG",
        lambda one, at: one.v1(
            "POST", "/trees/tree?sourceRefName=main", {"type": "TAG", "name": "n", "hash": at}
        ),
    ),
    "nessie v1 assign branch": moved("side", _assign_v1("branch", "side")),
    "nessie v1 assign tag": moved("t", _assign_v1("tag", "t")),
    "nessie v1 delete branch": deleted(
        "side", lambda one, at: one.v1("DELETE", f"/trees/branch/side?expectedHash={at}")
    ),
    "nessie v1 delete tag": deleted(
        "t", lambda one, at: one.v1("DELETE", f"/trees/tag/t?expectedHash={at}")
    ),
    "lakefs commit": commit_lakefs,
    "lakefs merge": merge_files,
    "lakefs cherry-pick": cherry_pick_files,
    "lakefs revert": revert_files,
    "lakefs create branch": created(
        "BRANCH",
        lambda one, _: one.files("POST", "/branches", json={"name": "n", "source": "main"}),
    ),
    "lakefs create tag": created(
        "TAG", lambda one, _: one.files("POST", "/tags", json={"id": "n", "ref": "main"})
    ),
    "lakefs hard reset": moved(
        "side",
        lambda one, *_: one.files("PUT", "/branches/side/hard_reset?ref=main"),
        cause="reset",
    ),
    "lakefs delete branch": deleted("side", lambda one, _: one.files("DELETE", "/branches/side")),
    "lakefs delete tag": deleted("t", lambda one, _: one.files("DELETE", "/tags/t")),
    "s3 put and delete": commit_s3,
    "s3 copy": copy_s3,
}


_RAISED = {
    "commit": COMMIT,
    "merge": MERGE,
    "transplant": TRANSPLANT,
    "cherry-pick": TRANSPLANT,
    "create": (CREATED,),
    "assign": (UPDATED,),
    "hard": (UPDATED,),
    "delete": (DELETED,),
    "revert": ("COMMIT", "FILE_REMOVED"),
    "put": FILES,
    "copy": FILES,
}


def _types(name: str) -> tuple[str, ...]:
    face, *words = name.removeprefix("nessie ").split()
    return FILES if (face, words[0]) == ("lakefs", "commit") else _RAISED[words[0]]


TABLE = {name: (_types(name), act) for name, act in _TABLE.items()}


@pytest.mark.parametrize("name", TABLE)
def test_every_request_of_every_face_raises_its_events_with_every_attribute(name: str):
    with watched_server() as server:
        prepare(server.clients)
        server.watch()
        types, act = TABLE[name]
        expected = act(server.clients)
        found = server.events()
    assert tuple([event["type"] for event in found]) == types
    assert tuple([type_name for type_name, _ in expected]) == types
    for event, (_, fields) in zip(found, expected, strict=True):
        check_attributes(event)
        flat = {"kind": event["reference"]["type"], **event.get("file", {}), **event}
        assert {one: flat[one] for one in fields} == fields


def test_faces_of_tables_and_of_files_cause_all_types_that_their_protocols_can():
    caused = {"nessie": set(ATTRIBUTES) - {"FILE_REMOVED"}}
    caused["lakefs"] = set(ATTRIBUTES) - {"CONTENT_REMOVED"}
    for family, types in caused.items():
        lines = [raised for name, (raised, _) in TABLE.items() if name.startswith(family)]
        assert {type_name for raised in lines for type_name in raised} == types
