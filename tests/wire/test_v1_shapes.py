"""Every answer of version 1 has exactly the fields of version 1, whatever version 2 has made."""

from __future__ import annotations

from typing import Any

import pytest

from lochan.wire.operations_v1 import OPERATIONS_V1
from tests.wire.busy import EMPTY_BRANCH, REFERENCES, contents, fill
from tests.wire.harness import NO_BODY, Answer, Wire, namespace, put
from tests.wire.v1_shapes import ANSWERS, complaints


class Looked:
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

    def ask(self, method: str, target: str, body: Any = NO_BODY) -> Answer:
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
def looked():
    return Looked()


def test_every_operation_of_version_1_answers_with_its_own_fields_only(looked):
    ask, head = looked.ask, looked.head
    ask("GET", "/config")
    ask("GET", "/trees")
    ask("GET", "/trees?fetch=ALL")
    ask("GET", "/trees/tree")
    for name in REFERENCES:
        _read(looked, name.replace("/", "%2F"))
        _read_contents(looked, name.replace("/", "%2F"))
    _read(looked, EMPTY_BRANCH.replace("/", "%2F"))
    for other in REFERENCES:
        ask("GET", f"/diffs/main...{other.replace('/', '%2F')}")
    ask("GET", "/diffs/main*~1...main")
    main = head("main")
    ask("POST", "/trees/tree?sourceRefName=main", {"type": "BRANCH", "name": "one", "hash": main})
    ask("POST", "/trees/tree?sourceRefName=main", {"type": "TAG", "name": "two", "hash": main})
    one = ask(
        "POST",
        f"/trees/branch/one/commit?expectedHash={main}",
        {"commitMeta": {"message": "m", "author": "a"}, "operations": contents("four")},
    ).json["hash"]
    ask("PUT", "/namespaces/namespace/one/ns", namespace("ns", properties={"a": "b"}))
    ask("POST", "/namespaces/namespace/one/ns", {"propertyUpdates": {"owner": "ada"}})
    ask("DELETE", "/namespaces/namespace/one/ns")
    merge = {"fromRefName": "one", "fromHash": one}
    ask("POST", f"/trees/branch/main/merge?expectedHash={main}", {**merge, "isDryRun": True})
    ask("POST", f"/trees/branch/main/merge?expectedHash={main}", merge)
    bare = head("busy/bare")
    transplant = {"fromRefName": "one", "hashesToTransplant": [one]}
    ask("POST", f"/trees/branch/busy%2Fbare/transplant?expectedHash={bare}", transplant)
    target = {"type": "BRANCH", "name": "main", "hash": head("main")}
    ask("PUT", f"/trees/tag/busy%2Fv1?expectedHash={head('busy/v1')}", target)
    ask("PUT", f"/trees/branch/busy%2Fexpiring?expectedHash={head('busy/expiring')}", target)
    for kind, name in (("tag", "two"), ("tag", "busy/v1"), ("branch", "busy/expiring")):
        encoded = name.replace("/", "%2F")
        ask("DELETE", f"/trees/{kind}/{encoded}?expectedHash={head(name)}")
    _conflict(looked)
    assert looked.seen == {operation.id for operation in OPERATIONS_V1} == set(ANSWERS)


def _read(looked: Looked, name: str) -> None:
    ask = looked.ask
    ask("GET", f"/trees/tree/{name}")
    ask("GET", f"/trees/tree/{name}?fetch=ALL")
    ask("GET", f"/trees/tree/{name}/entries")
    ask("GET", f"/trees/tree/{name}/entries?namespaceDepth=1")
    ask("GET", f"/trees/tree/{name}/log")
    ask("GET", f"/trees/tree/{name}/log?maxRecords=1")
    whole = ask("GET", f"/trees/tree/{name}/log?fetch=ALL").json["logEntries"]
    if whole:
        ask("GET", f"/trees/tree/{name}/log?endHash={whole[-1]['commitMeta']['hash']}")
    ask("GET", f"/namespaces/{name}")


def _read_contents(looked: Looked, name: str) -> None:
    ask = looked.ask
    keys = [["one", what] for what in ("table", "view", "delta", "udf")] + [["one"]]
    for key in keys:
        ask("GET", f"/contents/{'.'.join(key)}?ref={name}")
    wanted = {"requestedKeys": [{"elements": key} for key in keys]}
    ask("POST", f"/contents?ref={name}", wanted)
    ask("GET", f"/namespaces/namespace/{name}/one")


def _conflict(looked: Looked) -> None:
    """Conflicts as a result and as an error, with the details that a client may ask for."""
    wire = looked.wire
    source = {"type": "BRANCH", "name": "main", "hash": looked.head("main")}
    looked.ask("POST", "/trees/tree?sourceRefName=main", {**source, "name": "rival"})
    old = wire.v2("GET", "/trees/main/contents/one.table").json["content"]
    for number, branch in enumerate(("main", "rival")):
        wire.commit(branch, put("one", "table", content={**old, "snapshotId": 100 + number}))
    where = f"/trees/branch/main/merge?expectedHash={looked.head('main')}"
    merge = {"fromRefName": "rival", "fromHash": looked.head("rival")}
    told = looked.ask("POST", where, {**merge, "isReturnConflictAsResult": True}).json
    assert told["wasSuccessful"] is False
    error = looked.refused("POST", where, merge)
    assert len(error["errorDetails"]["conflicts"]) == 1
    gone = looked.refused("GET", "/contents/nothing?ref=main")
    assert gone["errorDetails"] == {"type": "CONTENT_KEY", "contentKey": {"elements": ["nothing"]}}


def test_a_log_of_version_1_shows_no_further_parents_of_a_merge(looked):
    # This is what pynessie's `log` failed on.
    shown = looked.wire.v1("GET", "/trees/tree/busy%2Fbare/log?fetch=ALL").body
    assert b"additionalParents" not in shown
    assert b"parentCommitHashes" not in shown
    merges = [
        each
        for each in looked.wire.v2("GET", "/trees/busy%2Fbare/history").json["logEntries"]
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
