"""Every answer of version 1 has exactly the fields of version 1, whatever version 2 has made."""

from __future__ import annotations

from typing import Any

import pytest

from lochan.wire.operations_v1 import OPERATIONS_V1
from tests.wire.busy import EMPTY_BRANCH, REFERENCES, contents, fill
from tests.wire.harness import NO_BODY, Answer, Wire, namespace, put
from tests.wire.v1_shapes import ANSWERS, complaints


class ShapeChecker:
    """Sends requests of version 1 and compares each answer with its published shape."""

    def __init__(self) -> None:
        self.wire = Wire()
        fill(self._send)
        self.wire.served.clear()
        self.seen: set[str] = set()

    def _send(self, method: str, target: str, body: Any = NO_BODY) -> Any:
        answer = self.wire.v2(method, target, body)
        assert answer.status == 200, (method, target, answer.body)
        return answer.json

    def send(self, method: str, target: str, body: Any = NO_BODY) -> Answer:
        answer = self.wire.v1(method, target, body, Nessie_Client_Spec="2")
        assert answer.status in (200, 204), (method, target, answer.body)
        operation = self.wire.served[-1]
        self.seen.add(operation)
        shape = ANSWERS[operation]
        if shape is None:
            assert answer.body == b""
        else:
            assert complaints(answer.json, shape) == [], (method, target)
        return answer

    def refused(self, method: str, target: str, body: Any = NO_BODY) -> Any:
        answer = self.wire.v1(method, target, body, Nessie_Client_Spec="2")
        assert answer.status >= 400
        assert complaints(answer.json, "Error") == [], (method, target)
        return answer.json

    def head(self, name: str) -> str:
        return self.wire.head(name)


@pytest.fixture(scope="module")
def checker():
    return ShapeChecker()


def test_every_operation_of_version_1_answers_with_its_own_fields_only(checker):
    send, head = checker.send, checker.head
    send("GET", "/config")
    send("GET", "/trees")
    send("GET", "/trees?fetch=ALL")
    send("GET", "/trees/tree")
    for name in REFERENCES:
        _read(checker, name.replace("/", "%2F"))
        _read_contents(checker, name.replace("/", "%2F"))
    _read(checker, EMPTY_BRANCH.replace("/", "%2F"))
    for other in REFERENCES:
        send("GET", f"/diffs/main...{other.replace('/', '%2F')}")
    send("GET", "/diffs/main*~1...main")
    main = head("main")
    send("POST", "/trees/tree?sourceRefName=main", {"type": "BRANCH", "name": "one", "hash": main})
    send("POST", "/trees/tree?sourceRefName=main", {"type": "TAG", "name": "two", "hash": main})
    one = send(
        "POST",
        f"/trees/branch/one/commit?expectedHash={main}",
        {"commitMeta": {"message": "m", "author": "a"}, "operations": contents("four")},
    ).json["hash"]
    send("PUT", "/namespaces/namespace/one/ns", namespace("ns", properties={"a": "b"}))
    send("POST", "/namespaces/namespace/one/ns", {"propertyUpdates": {"owner": "ada"}})
    send("DELETE", "/namespaces/namespace/one/ns")
    merge = {"fromRefName": "one", "fromHash": one}
    send("POST", f"/trees/branch/main/merge?expectedHash={main}", {**merge, "isDryRun": True})
    send("POST", f"/trees/branch/main/merge?expectedHash={main}", merge)
    bare = head("busy/bare")
    transplant = {"fromRefName": "one", "hashesToTransplant": [one]}
    send("POST", f"/trees/branch/busy%2Fbare/transplant?expectedHash={bare}", transplant)
    target = {"type": "BRANCH", "name": "main", "hash": head("main")}
    send("PUT", f"/trees/tag/busy%2Fv1?expectedHash={head('busy/v1')}", target)
    send("PUT", f"/trees/branch/busy%2Fexpiring?expectedHash={head('busy/expiring')}", target)
    for kind, name in (("tag", "two"), ("tag", "busy/v1"), ("branch", "busy/expiring")):
        encoded = name.replace("/", "%2F")
        send("DELETE", f"/trees/{kind}/{encoded}?expectedHash={head(name)}")
    _conflict(checker)
    assert checker.seen == {operation.id for operation in OPERATIONS_V1} == set(ANSWERS)


def _read(checker: ShapeChecker, name: str) -> None:
    send = checker.send
    send("GET", f"/trees/tree/{name}")
    send("GET", f"/trees/tree/{name}?fetch=ALL")
    send("GET", f"/trees/tree/{name}/entries")
    send("GET", f"/trees/tree/{name}/entries?namespaceDepth=1")
    send("GET", f"/trees/tree/{name}/log")
    send("GET", f"/trees/tree/{name}/log?maxRecords=1")
    whole = send("GET", f"/trees/tree/{name}/log?fetch=ALL").json["logEntries"]
    if whole:
        send("GET", f"/trees/tree/{name}/log?endHash={whole[-1]['commitMeta']['hash']}")
    send("GET", f"/namespaces/{name}")


def _read_contents(checker: ShapeChecker, name: str) -> None:
    send = checker.send
    keys = [["one", what] for what in ("table", "view", "delta", "udf")] + [["one"]]
    for key in keys:
        send("GET", f"/contents/{'.'.join(key)}?ref={name}")
    requested = {"requestedKeys": [{"elements": key} for key in keys]}
    send("POST", f"/contents?ref={name}", requested)
    send("GET", f"/namespaces/namespace/{name}/one")


def _conflict(checker: ShapeChecker) -> None:
    """Conflicts as a result and as an error, with the details that a client may request."""
    wire = checker.wire
    source = {"type": "BRANCH", "name": "main", "hash": checker.head("main")}
    checker.send("POST", "/trees/tree?sourceRefName=main", {**source, "name": "rival"})
    old = wire.v2("GET", "/trees/main/contents/one.table").json["content"]
    for number, branch in enumerate(("main", "rival")):
        wire.commit(branch, put("one", "table", content={**old, "snapshotId": 100 + number}))
    where = f"/trees/branch/main/merge?expectedHash={checker.head('main')}"
    merge = {"fromRefName": "rival", "fromHash": checker.head("rival")}
    merged = checker.send("POST", where, {**merge, "isReturnConflictAsResult": True}).json
    assert merged["wasSuccessful"] is False
    error = checker.refused("POST", where, merge)
    assert len(error["errorDetails"]["conflicts"]) == 1
    gone = checker.refused("GET", "/contents/nothing?ref=main")
    assert gone["errorDetails"] == {"type": "CONTENT_KEY", "contentKey": {"elements": ["nothing"]}}


def test_a_log_of_version_1_shows_no_further_parents_of_a_merge(checker):
    # This is what pynessie's `log` failed on.
    log = checker.wire.v1("GET", "/trees/tree/busy%2Fbare/log?fetch=ALL").body
    assert b"additionalParents" not in log
    assert b"parentCommitHashes" not in log
    merges = [
        each
        for each in checker.wire.v2("GET", "/trees/busy%2Fbare/history").json["logEntries"]
        if len(each["commitMeta"]["parentCommitHashes"]) > 1
    ]
    assert merges, "there is no merge to look at"


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"additionalParents": []}, "answer.additionalParents is not in version 1"),
        ({"parentCommitHash": 7}, "answer.parentCommitHash is no str: 7"),
        ({"commitMeta": {}}, "answer.commitMeta.hash is missing"),
        ({"operations": [{"type": "PUT"}]}, "answer.operations[0].key is missing"),
    ],
)
def test_the_comparison_can_fail(changed, complaint):
    meta = dict.fromkeys(("hash", "committer", "author", "signedOffBy"))
    meta |= dict.fromkeys(("commitTime", "authorTime"), "2020-01-01T00:00:00Z")
    entry = {"commitMeta": {**meta, "message": "", "properties": {}}, "parentCommitHash": None}
    entry |= {"operations": None}
    assert complaints(entry, "LogEntry") == []
    assert complaint in complaints({**entry, **changed}, "LogEntry")
