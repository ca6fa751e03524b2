"""A caller without the right gets 401, 403 or 404 from every operation, and nothing is written.

The requests are those of the recordings, which use every operation with success. Each is sent by
every caller without rights first, in the state in which the administrator's succeeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from lochan.access.policy import Action
from lochan.wire.operations import ApiOperation
from lochan.wire.operations_access import OPERATIONS_ACCESS
from lochan.wire.operations_files import OPERATIONS_FILES
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
            if name == ELSEWHERE and b"default" in answer.body and answer.status == 200:
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
        if name == ELSEWHERE and route == "listRepositories":
            # Its own, of which there are none.
            return (200,)
        if route == "getIdentity" or (name == VIEWER and self._needs_a_view_only(method, target)):
            return (200,)
        return 403, 404

    def _needs_a_view_only(self, method: str, target: str) -> bool:
        """Returns whether the right to see references is enough for a request."""
        operation = self._operations[self.route_of(method, target)]
        return operation.needs == "repository" or operation.action is Action.VIEW_REFERENCE


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


NEEDS_RIGHTS = tuple(each for each in OPERATIONS_ACCESS if each.needs != "nothing")


@pytest.mark.parametrize(
    ("operations", "record"),
    [
        (OPERATIONS_V2, record_v2),
        (OPERATIONS_V1, record_v1),
        (NEEDS_RIGHTS, record_access),
        (OPERATIONS_FILES, record_files),
    ],
    ids=["version 2", "version 1", "access", "files"],
)
def test_without_the_right_every_operation_is_refused_and_nothing_is_written(
    operations: tuple[ApiOperation, ...], record: Callable[[GuardedWire], object]
) -> None:
    wire = Denying({each.id: each for each in operations})
    record(wire)
    assert not wire.faults, "\n".join(wire.faults)
    assert wire.tried == {each.id for each in operations}, "a route is not tried"


@pytest.mark.parametrize(
    "operations", [OPERATIONS_V2, OPERATIONS_V1, OPERATIONS_ACCESS, OPERATIONS_FILES]
)
def test_every_operation_declares_what_it_needs(operations: tuple[ApiOperation, ...]) -> None:
    undeclared = [each.id for each in operations if each.needs == "action" and not each.action]
    assert not undeclared
