"""A caller without the right gets 401, 403 or 404 from every operation, and nothing is written.

The requests are those of the recordings, which use every operation with success. Each is sent by
every caller without rights first, in the state in which the administrator's succeeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import md5
from typing import Any

import pytest

from lochan.access.policy import Action
from lochan.faces.lakefs.face import LakefsFace
from lochan.transport.routes import Face
from lochan.wire.operations import ApiOperation
from lochan.wire.operations_access import OPERATIONS_ACCESS
from lochan.wire.operations_events import OPERATIONS_EVENTS
from lochan.wire.operations_files import OPERATIONS_FILES
from lochan.wire.operations_lakefs import OPERATIONS_LAKEFS
from lochan.wire.operations_store import OPERATIONS_STORE
from lochan.wire.operations_v1 import OPERATIONS_V1
from lochan.wire.operations_v2 import OPERATIONS_V2
from tests.security.guarded_wire import ADMIN, GuardedWire, allow, principal
from tests.wire.harness import EMPTY, NO_BODY, Answer
from tests.wire.recording import record_v1, record_v2

WITHOUT_POLICIES = "bob"
ELSEWHERE = "cleo"
VIEWER = "dan"

CALLERS = (
    principal(WITHOUT_POLICIES, []),
    principal(ELSEWHERE, [allow("*", repositories=("elsewhere",))]),
    # May see names of references and nothing else.
    principal(VIEWER, [allow("view_reference")]),
)

Send = Callable[..., Any]

UNAUTHENTICATED = (None, "unknown", "")


class Denying(GuardedWire):
    """Sends every request by those who may not, before the administrator sends it."""

    def __init__(self, operations: Mapping[str, ApiOperation]) -> None:
        super().__init__(CALLERS)
        self._operations = operations
        self.tried: set[str] = set()
        self.faults: list[str] = []

    def send(
        self,
        method: str,
        target: str,
        body: Any = NO_BODY,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        for name in (*UNAUTHENTICATED, *(each.name for each in CALLERS)):
            before = self.writes()
            answer = self.send_as(name, method, target, body, headers)
            if self.writes() != before:
                self.faults.append(f"{name} wrote by {method} {target}")
            is_shown = b"default" in answer.body and not self._is_of_the_server(method, target)
            if name == ELSEWHERE and is_shown and answer.status == 200:
                self.faults.append(f"{name} was shown {answer.body!r}")
            if answer.status not in self._expected(name, method, target):
                self.faults.append(f"{name} got {answer.status} from {method} {target}")
        answer = super().send(method, target, body, headers)
        if answer.status < 400:
            self.tried.add(self.served[-1])
        return answer

    def _expected(self, name: str | None, method: str, target: str) -> tuple[int, ...]:
        if name in UNAUTHENTICATED:
            return (401,)
        route = self.route_of(method, target)
        if name == ELSEWHERE and route.endswith("listRepositories"):
            # Its own, of which there are none.
            return (200,)
        if self._is_of_the_server(method, target):
            return 200, 204
        if route == "getIdentity" or (name == VIEWER and self._needs_a_view_only(method, target)):
            return 200, 204
        return 403, 404

    def _is_of_the_server(self, method: str, target: str) -> bool:
        """Returns whether a request is about the server itself, to which valid credentials do."""
        operation = self._operations.get(self.route_of(method, target))
        return operation is not None and operation.needs == "credentials"

    def _needs_a_view_only(self, method: str, target: str) -> bool:
        """Returns whether the right to see references is enough for a request."""
        operation = self._operations[self.route_of(method, target)]
        return operation.needs == "repository" or operation.action is Action.VIEW_REFERENCE


class DenyingLakefs(Denying):
    """The same on the port for files, where other faces have the paths of Nessie's."""

    def faces(self) -> Sequence[Face]:
        return [LakefsFace(self.repositories, self.control(), "default", self.authentication())]


def record_lakefs(wire: GuardedWire) -> None:
    """Uses every operation of the lakeFS API with success."""

    def send(method: str, target: str, body: Any = NO_BODY) -> Any:
        answer = wire.send(method, f"/api/v1{target}", body)
        assert answer.status < 300, (method, target, answer.body)
        return answer

    made = wire.send_as(None, "POST", "/api/v1/setup_lakefs", {"username": ADMIN})
    assert made.status < 300, made.body
    for path in ("/user", "/config", "/config/version", "/config/storage"):
        send("GET", path)
    send("GET", "/config/garbage-collection")
    send("POST", "/statistics", {"events": []})
    _record_lakefs_users(send)
    place = {"name": "other-one", "storage_namespace": "local://place"}
    send("POST", "/repositories", place)
    send("GET", "/repositories")
    send("DELETE", "/repositories/other-one")
    in_repository: Send = lambda method, target, *body: send(  # noqa: E731 - the same, shorter
        method, f"/repositories/default{target}", *body
    )
    in_repository("GET", "")
    _record_lakefs_settings(in_repository)
    _record_lakefs_objects(in_repository)
    _record_lakefs_parts(in_repository)
    (wire.imported / "one").write_bytes(b"1")
    staged = {"physical_address": f"file://{wire.imported}/one", "checksum": "", "size_bytes": 1}
    in_repository("PUT", "/branches/main/objects?path=staged", staged)
    _record_lakefs_commits(in_repository)
    paths = [
        {"type": "common_prefix", "path": f"file://{wire.imported}/", "destination": "imported/"}
    ]
    started = in_repository(
        "POST", "/branches/main/import", {"paths": paths, "commit": {"message": "m"}}
    )
    in_repository("GET", f"/branches/main/import?id={started.json['id']}")
    # Only one that is running can be canceled; those without the right are refused before that.
    target = f"/api/v1/repositories/default/branches/main/import?id={started.json['id']}"
    assert wire.send("DELETE", target).status in (204, 409)


def _record_lakefs_users(send: Send) -> None:
    send("POST", "/auth/users", {"id": "eve"})
    send("GET", "/auth/users")
    send("GET", "/auth/users/eve")
    key = send("POST", "/auth/users/eve/credentials").json["access_key_id"]
    send("GET", "/auth/users/eve/credentials")
    send("GET", f"/auth/users/eve/credentials/{key}")
    send("DELETE", f"/auth/users/eve/credentials/{key}")
    send("DELETE", "/auth/users/eve")


def _record_lakefs_settings(send: Send) -> None:
    send("POST", "/metadata", {"metadata": {"a": "b"}})
    send("GET", "/metadata")
    send("DELETE", "/metadata", {"keys": ["a"]})
    send("PUT", "/settings/branch_protection", [{"pattern": "nothing"}])
    send("GET", "/settings/branch_protection")
    send("PUT", "/settings/gc_rules", {"default_retention_days": 3, "branches": []})
    send("GET", "/settings/gc_rules")
    send("DELETE", "/settings/gc_rules")


def _record_lakefs_objects(send: Send) -> None:
    send("POST", "/branches/main/objects?path=a", b"short")
    send("GET", "/refs/main/objects?path=a")
    send("GET", "/refs/main/objects/stat?path=a")
    send("GET", "/refs/main/objects/underlyingProperties?path=a")
    send("GET", "/refs/main/objects/ls")
    send("GET", "/branches/main/objects/stage_allowed?path=a")
    send("POST", "/branches/main/objects/copy?dest_path=b", {"src_path": "a"})
    send("PUT", "/branches/main/objects/stat/user_metadata?path=a", {"set": {"c": "d"}})
    send("DELETE", "/branches/main/objects?path=b")
    send("POST", "/branches/main/objects/delete", {"paths": ["b"]})
    place = send("GET", "/branches/main/staging/backing?path=linked").json
    link = {"staging": place, "checksum": "", "size_bytes": len(b"sent by the client itself")}
    send("PUT", "/branches/main/staging/backing?path=linked", link)
    send("GET", "/branches/main/diff")


def _record_lakefs_parts(send: Send) -> None:
    at = "/branches/main/staging/pmpu"
    for ends in ("PUT", "DELETE"):
        made = send("POST", f"{at}?path=parts&parts=1").json
        body = {"physical_address": made["physical_address"]}
        upload = f"{at}/{made['upload_id']}"
        send("PUT", f"{upload}/parts/1?path=parts", body)
        etag = md5(b"part 1", usedforsecurity=False).hexdigest()
        parts = {"parts": [{"part_number": 1, "etag": etag}]} if ends == "PUT" else {}
        send(ends, f"{upload}?path=parts", {**body, **parts})


def _record_lakefs_commits(send: Send) -> None:
    made = send("POST", "/branches/main/commits", {"message": "one"}).json["id"]
    send("GET", f"/commits/{made}")
    send("GET", "/refs/main/commits")
    send("POST", "/branches", {"name": "side", "source": "main"})
    send("GET", "/branches")
    send("GET", "/branches/side")
    send("POST", "/branches/side/objects?path=s", b"side")
    send("PUT", "/branches/side", {"type": "reset"})
    send("POST", "/branches/side/objects?path=s", b"side")
    other = send("POST", "/branches/side/commits", {"message": "two"}).json["id"]
    send("GET", "/refs/main/diff/side")
    send("GET", "/refs/side/merge/main")
    send("POST", "/branches/main/cherry-pick", {"ref": other})
    send("POST", "/branches/main/revert", {"ref": "main", "parent_number": 0})
    send("POST", "/refs/side/merge/main", {})
    send("PUT", f"/branches/side/hard_reset?ref={made}")
    send("POST", "/tags", {"id": "v1", "ref": "main"})
    send("GET", "/tags")
    send("GET", "/tags/v1")
    send("DELETE", "/tags/v1")
    send("DELETE", "/branches/side")


def record_access(wire: GuardedWire) -> None:
    """Uses every operation of access that needs a right, or credentials, with success."""

    def send(method: str, target: str, body: Any = NO_BODY) -> Any:
        answer = wire.send(method, f"/access/v1{target}", body)
        assert answer.status < 300, (method, target, answer.body)
        return answer.json if answer.body else None

    made = wire.send_as(None, "POST", "/access/v1/setup", {"user": ADMIN})
    assert made.status < 300, made.body
    send("GET", "/me")
    for place, name in (("users", "eve"), ("groups", "team")):
        send("POST", f"/{place}", {"id": name})
        send("GET", f"/{place}")
        send("GET", f"/{place}/{name}")
    statement = {"effect": "allow", "actions": ["read"]}
    send("PUT", "/policies/some", {"statements": [statement]})
    send("GET", "/policies")
    send("GET", "/policies/some")
    send("PUT", "/groups/team/members/eve")
    send("GET", "/groups/team/members")
    send("GET", "/users/eve/groups")
    for subject in ("users/eve", "groups/team"):
        send("PUT", f"/{subject}/policies/some")
        send("GET", f"/{subject}/policies")
    question = {"user": "eve", "action": "read_log", "repository": "default", "reference": "main"}
    send("POST", "/explain", question)
    for subject in ("users/eve", "groups/team"):
        send("DELETE", f"/{subject}/policies/some")
    token = send("POST", "/users/eve/tokens", {})["token"]["id"]
    send("GET", "/users/eve/tokens")
    send("DELETE", f"/tokens/{token}")
    key = send("POST", "/users/eve/access-keys", {})["accessKey"]["id"]
    send("GET", "/users/eve/access-keys")
    send("POST", "/rotate-key")
    send("DELETE", f"/access-keys/{key}")
    send("DELETE", "/groups/team/members/eve")
    send("DELETE", "/policies/some")
    send("DELETE", "/groups/team")
    send("DELETE", "/users/eve")


def record_files(wire: GuardedWire) -> None:
    """Uses every operation on files with success."""

    def send(method: str, target: str, body: Any = NO_BODY) -> Any:
        answer = wire.send(method, f"/files/v1/refs/main{target}", body)
        assert answer.status < 300, (method, target, answer.body)
        return answer

    long = b"long" * 10_000
    for path, content in (("a", b"short"), ("b", long), ("c/d", b"x")):
        send("PUT", f"/file?path={path}", content)
    assert send("GET", "/file?path=b").body == long
    send("GET", "/stat?path=a")
    send("GET", "/presigned?path=b")
    send("GET", "/files?prefix=c/&delimiter=/")
    send("GET", "/uncommitted")
    send("POST", "/commit", {"commitMeta": {"message": "m"}, "operations": []})
    send("GET", "/log?path=a")
    send("GET", f"/diff/main@{EMPTY}")
    send("POST", "/copy", {"path": "e", "sourceRef": "main", "sourcePath": "a"})
    send("POST", "/update", {"path": "a", "contentType": "text/plain"})
    reserved = send("POST", "/reserve", {"path": "f"}).json
    send("POST", "/link", {"path": "f", "token": reserved["token"]})
    send("DELETE", "/file?path=a")
    send("POST", "/delete", {"paths": ["b", "nothing"]})
    send("POST", "/reset", {})
    (wire.imported / "one").write_bytes(b"1")
    sources = [{"url": f"file://{wire.imported}", "prefix": "in/"}]
    send("POST", "/import", {"sources": sources, "commitMeta": {"message": "m"}})
    send("POST", "/hard-reset", {"target": f"main@{wire.head()}~1"})


def record_events(wire: GuardedWire) -> None:
    """Follows events up to the present."""
    answer = wire.send("GET", "/events/v1?follow=false")
    assert answer.status == 200, answer.body
    assert answer.body.startswith(b"id: ")


def record_store(wire: GuardedWire) -> None:
    """Uses every operation on the store with success."""
    root = bytes(16).hex()
    for target in ("counts", f"scan?partition={root}6d&max-records=1", f"walk?partition={root}"):
        answer = wire.send("GET", f"/store/v1/{target}")
        assert answer.status == 200, answer.body
    body = {"repository": "default"}
    token = wire.send("POST", "/store/v1/erase", body).json["token"]
    answer = wire.send("POST", "/store/v1/erase", {**body, "token": token})
    assert answer.status == 200, answer.body


# It succeeds only while the import is running.
NEVER_DONE = "lakefs.importCancel"
LAKEFS = tuple(
    each for each in OPERATIONS_LAKEFS if each.needs != "nothing" and each.id != NEVER_DONE
)
NEEDS_RIGHTS = tuple(each for each in OPERATIONS_ACCESS if each.needs != "nothing")


@pytest.mark.parametrize(
    ("operations", "record"),
    [
        (OPERATIONS_V2, record_v2),
        (OPERATIONS_V1, record_v1),
        (NEEDS_RIGHTS, record_access),
        (OPERATIONS_FILES, record_files),
        (OPERATIONS_EVENTS, record_events),
        (OPERATIONS_STORE, record_store),
    ],
    ids=["version 2", "version 1", "access", "files", "events", "store"],
)
def test_without_the_right_every_operation_is_refused_and_nothing_is_written(
    operations: tuple[ApiOperation, ...], record: Callable[[GuardedWire], object]
) -> None:
    wire = Denying({each.id: each for each in operations})
    record(wire)
    assert not wire.faults, "\n".join(wire.faults)
    assert wire.tried == {each.id for each in operations}, "a route is not tried"


def test_without_the_right_every_operation_of_lakefs_is_refused_and_nothing_is_written() -> None:
    wire = DenyingLakefs({each.id: each for each in OPERATIONS_LAKEFS})
    record_lakefs(wire)
    assert not wire.faults, "\n".join(wire.faults)
    tried = wire.tried - {NEVER_DONE}
    assert tried == {each.id for each in LAKEFS}, "a route is not tried"


@pytest.mark.parametrize(
    "operations",
    [
        OPERATIONS_V2,
        OPERATIONS_V1,
        OPERATIONS_ACCESS,
        OPERATIONS_FILES,
        OPERATIONS_EVENTS,
        OPERATIONS_STORE,
        OPERATIONS_LAKEFS,
    ],
)
def test_every_operation_declares_what_it_needs(operations: tuple[ApiOperation, ...]) -> None:
    undeclared = [each.id for each in operations if each.needs == "action" and not each.action]
    assert not undeclared
