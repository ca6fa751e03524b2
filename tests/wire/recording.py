"""Recordings that use every operation once with success, recorded as text.

`LOCHAN_WRITE_RECORDINGS=1 pytest tests/wire/test_recordings.py` writes the texts anew.
"""

from __future__ import annotations

import json
from typing import Any

from lochan.model.specs import ReferenceSpec
from tests.wire.harness import EMPTY, NO_BODY, Namer, Wire, delete, namespace, put, table


class Recording:
    """A server, and all requests and responses."""

    def __init__(self, prefix: str, wire: Wire | None = None) -> None:
        self.wire = wire or Wire()
        self._prefix = prefix
        self._lines: list[str] = []
        self._namer = Namer()

    def send(self, method: str, target: str, body: Any = NO_BODY, **headers: str) -> Any:
        """Sends a request and writes down both sides."""
        dashed = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = self.wire.send(method, self._prefix + target, body, dashed)
        self._lines.append(f"> {method} {self._prefix}{target}")
        self._lines += [f"> {name}: {value}" for name, value in dashed.items()]
        if body is not NO_BODY:
            self._lines.append(f"> {json.dumps(body)}")
        others = {name: value for name, value in answer.headers.items() if name != "content-type"}
        self._lines.append(f"< {answer.status} {answer.headers['content-type']}")
        self._lines += [f"< {name}: {value}" for name, value in sorted(others.items())]
        self._lines += [f"  {line}" for line in _pretty(answer.body)] + [""]
        return answer.json if answer.body else None

    def text(self) -> str:
        """Returns everything, with names for random values."""
        return self._namer("\n".join(self._lines))


def _pretty(body: bytes) -> list[str]:
    return json.dumps(json.loads(body), indent=1).splitlines() if body else []


def _commit(*operations: Any, message: str = "a commit", **meta: Any) -> dict[str, Any]:
    return {"commitMeta": {"message": message, **meta}, "operations": list(operations)}


def record_v2(wire: Wire | None = None) -> Recording:
    """Version 2, Nessie's operations and ours."""
    recording = Recording("/api/v2", wire)
    first, ids = _record_first_commit(recording)
    _record_references(recording, first)
    _record_merges(recording, first, ids)
    _record_rest(recording)
    return recording


def _record_first_commit(recording: Recording) -> tuple[str, dict[tuple[str, ...], str]]:
    send = recording.send
    send("GET", "/config")
    send("GET", "/trees")
    meta: dict[str, Any] = {
        "authors": ["Ada"],
        "allSignedOffBy": ["Bob"],
        "authorTime": "2023-01-02T03:04:05.678901Z",
        "allProperties": {"ticket": ["7", "8"]},
    }
    puts = [
        put("ns", content=namespace("ns", properties={"owner": "ada"})),
        put("ns", "t"),
        put("u", content={"type": "WONDER", "shape": {"round": True}}),
    ]
    one = send("POST", f"/trees/main@{EMPTY}/history/commit", _commit(*puts, **meta))
    first = one["targetBranch"]["hash"]
    send("GET", "/trees/main/history?max-records=1&fetch=ALL")
    send("GET", "/trees/main/entries?max-records=1&content=true")
    send("GET", "/trees/main/contents/ns.t")
    send("GET", "/trees/main/contents?key=ns.t&key=u&key=nothing")
    send("POST", f"/trees/@{first}/contents", {"requestedKeys": [{"elements": ["ns"]}]})
    ids = {tuple(each["key"]["elements"]): each["contentId"] for each in one["addedContents"]}
    return first, ids


def _record_references(recording: Recording, first: str) -> None:
    send = recording.send
    source = {"type": "BRANCH", "name": "main", "hash": first}
    send("POST", "/trees?name=dev&type=BRANCH", {**source, "ttl": "P7D"})
    note = {"message": "the first", "properties": {"by": ["ada"]}, "signature": "AAEC"}
    send("POST", "/trees?name=v1&type=TAG", {**source, "annotation": note})
    send("POST", "/trees?name=blank&type=BRANCH&bare=true")
    many = [{"name": "a", "source": "main"}, {"name": "b", "type": "TAG", "source": f"@{first}"}]
    send("POST", "/trees/many", {"references": many})


def _record_merges(recording: Recording, first: str, ids: dict[tuple[str, ...], str]) -> None:
    send, wire = recording.send, recording.wire
    changed = table(id=ids["ns", "t"], snapshotId=2)
    second = send(
        "POST",
        "/trees/dev/history/commit",
        _commit(put("ns", "t", content=changed), delete("u"), message="on dev"),
        If_Match=f'"{first}"',
        Idempotency_Key="once",
        Nessie_Commit_Authors="Cleo, Dan",
    )["targetBranch"]["hash"]
    send("GET", "/trees/dev?fetch=ALL")
    send("GET", "/trees/main/diff/dev")
    merge = {"fromRefName": "dev", "fromHash": second}
    send("POST", f"/trees/main@{first}/history/merge", {**merge, "dryRun": True})
    merge["message"] = "dev is done"
    merged = send("POST", f"/trees/main@{first}/history/merge", merge)["resultantTargetHash"]
    transplant = {"fromRefName": "dev", "hashesToTransplant": [second]}
    send("POST", f"/trees/a@{first}/history/transplant", transplant)
    head = wire.head("blank")
    send("POST", f"/trees/blank@{head}/history/cherry-pick", {"range": f"{EMPTY}..{second}"})
    send("POST", f"/trees/main@{merged}/history/revert", {"hashes": [merged]})
    send("POST", f"/trees/dev@{second}/history/rebase", {"onto": "main"})
    send("POST", f"/trees/a@{wire.head('a')}/history/force", {"source": f"@{first}"})
    send("POST", f"/trees/a@{first}/history/fast-forward", {"source": "main"})
    send("GET", "/trees/a/reflog?max-records=2")
    send("GET", "/trees/a/jobs?key=ns.t")
    send("GET", "/trees/main/recent-changes?scan-commits=10")
    send("PUT", f"/trees/main@{wire.head()}?type=branch", {"type": "DETACHED", "hash": first})
    send("DELETE", f"/trees/v1@{first}?type=tag")


def _record_rest(recording: Recording) -> None:
    send = recording.send
    collector = {"type": "GARBAGE_COLLECTOR", "defaultCutoffPolicy": "P30D"}
    send("POST", "/config/repository", {"config": collector})
    send("GET", "/config/repository?type=GARBAGE_COLLECTOR")
    found = send("POST", "/objects/get", {"ids": ["ab" * 32]})
    send("POST", "/objects/put", found)
    send("POST", "/repositories", {"name": "other"})
    send("GET", "/repositories")


def record_v1(wire: Wire | None = None) -> Recording:
    """Version 1."""
    recording = Recording("/api/v1", wire)
    send, wire = recording.send, recording.wire
    send("GET", "/config")
    send("GET", "/trees/tree")
    meta: dict[str, Any] = {"author": "Ada", "signedOffBy": "Bob", "properties": {"ticket": "7"}}
    first = send(
        "POST",
        f"/trees/branch/main/commit?expectedHash={EMPTY}",
        _commit(put("t"), **meta),
    )["hash"]
    send("POST", "/trees/tree?sourceRefName=main", {"type": "BRANCH", "name": "dev", "hash": first})
    send("POST", "/trees/tree?sourceRefName=main", {"type": "TAG", "name": "v1", "hash": first})
    send("PUT", "/namespaces/namespace/dev/ns", namespace("ns"))
    send("POST", "/namespaces/namespace/dev/ns", {"propertyUpdates": {"owner": "ada"}})
    send("GET", "/namespaces/namespace/dev/ns")
    send("GET", "/namespaces/dev?name=ns")
    dev = wire.head("dev")
    send("GET", "/trees/tree/dev?fetch=ALL")
    send("GET", "/trees")
    send("GET", f"/diffs/main*{first}...dev")
    merge = {"fromRefName": "dev", "fromHash": dev}
    send("POST", f"/trees/branch/main/merge?expectedHash={first}", merge)
    send("GET", "/trees/tree/main/log?maxRecords=1&fetch=ALL")
    send("GET", "/trees/tree/main/entries?maxRecords=10")
    empty = {"type": "BRANCH", "name": "main", "hash": EMPTY}
    send("PUT", f"/trees/tag/v1?expectedHash={first}", empty)
    send("POST", "/trees/tree", {"type": "BRANCH", "name": "next", "hash": first})
    send("DELETE", "/namespaces/namespace/dev/ns")
    line = wire.repository.history.log(wire.caller, ReferenceSpec(None, dev), 2)
    middle = line.items[1].meta.hash
    transplant = {"fromRefName": "dev", "hashesToTransplant": [middle]}
    send("POST", f"/trees/branch/next/transplant?expectedHash={first}&message=again", transplant)
    send("GET", f"/contents/t?ref=main&hashOnRef={first}")
    send("POST", "/contents?ref=next", {"requestedKeys": [{"elements": ["ns"]}]})
    send("DELETE", f"/trees/tag/v1?expectedHash={EMPTY}")
    return recording
