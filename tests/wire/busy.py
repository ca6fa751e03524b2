"""Fills a repository with everything that version 1 does not know, by version 2.

A merge with two parents, a transplant, a cherry-pick, a revert, an annotated tag, branches that
expire and that are bare, contents of every type with opaque metadata. Nothing here is a test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.wire.harness import EMPTY, namespace, put, table

Send = Callable[..., Any]
"""Sends a request below `/api/v2` and returns the JSON of a successful answer."""

BRANCHES = ("main", "busy/dev", "busy/side", "busy/bare", "busy/expiring")
TAGS = ("busy/v1", "busy/v2")
REFERENCES = (*BRANCHES, *TAGS)
EMPTY_BRANCH = "busy/empty"
"""A bare branch that was never committed to."""

NOTE = {"message": "the first", "properties": {"by": ["ada"]}, "signature": "AAEC"}


def contents(where: str, *, known_to_pynessie: bool = False) -> list[Any]:
    """Puts of every type of content below a namespace.

    pynessie knows neither properties of namespaces nor user-defined functions, of any server.
    """
    view = {"type": "ICEBERG_VIEW", "metadataLocation": "s3://v", "versionId": 1, "schemaId": 2}
    delta = {
        "type": "DELTA_LAKE_TABLE",
        "metadataLocationHistory": ["m"],
        "checkpointLocationHistory": ["c"],
        "lastCheckpoint": "c",
    }
    udf = {"type": "UDF", "metadataLocation": "s3://u", "versionId": "1", "signatureId": "2"}
    more = {} if known_to_pynessie else {"properties": {"owner": "ada"}}
    puts = [
        put(where, content=namespace(where, **more)),
        put(where, "table", content=table(metadata={"a": {"b": 1}})),
        put(
            where, "view", content={**view, "sqlText": "x", "dialect": "y", "metadata": {"a": None}}
        ),
        put(where, "delta", content={**delta, "metadata": {"a": [1]}}),
    ]
    return puts if known_to_pynessie else [*puts, put(where, "udf", content=udf)]


def fill(send: Send, *, known_to_pynessie: bool = False) -> None:
    """Makes the references of `REFERENCES`, and a history of every kind on the default branch."""

    def head(name: str) -> str:
        digits = send("GET", f"/trees/{name.replace('/', '%2F')}")["reference"]["hash"]
        assert isinstance(digits, str)
        return digits

    def commit(name: str, *operations: Any, **meta: Any) -> str:
        body = {"commitMeta": {"message": "busy", **meta}, "operations": list(operations)}
        where = f"/trees/{name}@{head(name)}/history/commit"
        commit_hash = send("POST", where, body)["targetBranch"]["hash"]
        assert isinstance(commit_hash, str)
        return commit_hash

    def create(name: str, kind: str = "BRANCH", **more: Any) -> None:
        source = {"type": "BRANCH", "name": "main", "hash": head("main")}
        send("POST", f"/trees?name={name}&type={kind}", {**source, **more})

    def puts(where: str) -> list[Any]:
        return contents(where, known_to_pynessie=known_to_pynessie)

    meta = {"authors": ["Ada", "Bob"], "allSignedOffBy": ["Cleo", "Dan"]}
    commit("main", *puts("one"), **meta, allProperties={"ticket": ["7", "8"], "none": []})
    for name in ("busy/dev", "busy/side"):
        create(name)
    create("busy/expiring", ttl="P7D")
    create("busy/v1", "TAG", annotation=NOTE)
    for name in ("busy/bare", EMPTY_BRANCH):
        send("POST", f"/trees?name={name}&type=BRANCH&bare=true")
    commit("busy/dev", *puts("two"), **meta)
    picked = commit("busy/side", *puts("three"))
    second = commit("busy/side", {"type": "DELETE", "key": {"elements": ["three", "view"]}})
    merge = {"fromRefName": "busy/dev", "fromHash": head("busy/dev")}
    send("POST", f"/trees/main@{head('main')}/history/merge", merge)
    transplant = {"fromRefName": "busy/side", "hashesToTransplant": [picked]}
    send("POST", f"/trees/main@{head('main')}/history/transplant", transplant)
    pick = {"hashes": [second]}
    send("POST", f"/trees/main@{head('main')}/history/cherry-pick", pick)
    send("POST", f"/trees/main@{head('main')}/history/revert", {"hashes": [head("main")]})
    create("busy/v2", "TAG", annotation=NOTE)
    bare = {"fromRefName": "main", "fromHash": head("main")}
    send("POST", f"/trees/busy/bare@{EMPTY}/history/merge", bare)
