"""Requests with a key over HTTP, sent again after what they name has gone: the same bytes again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.wire.harness import NO_BODY, Answer, Wire, put

Send = Callable[[Wire], Answer]


@pytest.fixture
def wire() -> Wire:
    one = Wire()
    one.commit("main", put("t"))
    one.branch("side")
    one.branch("target")
    one.commit("side", put("a"))
    one.commit("side", put("b"))
    one.commit("target", put("c"))
    return one


REQUESTS: dict[str, tuple[str, str, Any]] = {
    "commit": (
        "POST",
        "/api/v2/trees/target@{target}/history/commit",
        {"commitMeta": {"message": "m"}, "operations": [put("z"), put("y")]},
    ),
    "merge": (
        "POST",
        "/api/v2/trees/target@{target}/history/merge",
        {"fromRefName": "side", "fromHash": "{side}"},
    ),
    "merge of nothing": (
        "POST",
        "/api/v2/trees/target@{target}/history/merge",
        {"fromRefName": "main", "fromHash": "{main}"},
    ),
    "transplant": (
        "POST",
        "/api/v2/trees/target@{target}/history/transplant",
        {"fromRefName": "side", "hashesToTransplant": ["{side}"]},
    ),
    "cherry-pick": (
        "POST",
        "/api/v2/trees/target@{target}/history/cherry-pick",
        {"range": "{main}..{side}"},
    ),
    "revert": ("POST", "/api/v2/trees/target@{target}/history/revert", {"hashes": ["{target}"]}),
    "rebase": ("POST", "/api/v2/trees/target@{target}/history/rebase", {"onto": "side"}),
    "force": ("POST", "/api/v2/trees/target@{target}/history/force", {"source": "side"}),
    "fast-forward of nothing": (
        "POST",
        "/api/v2/trees/target@{target}/history/fast-forward",
        {"source": "main"},
    ),
    "assign": (
        "PUT",
        "/api/v2/trees/target@{target}",
        {"type": "BRANCH", "name": "side", "hash": "{side}"},
    ),
    "delete": ("DELETE", "/api/v2/trees/target@{target}", None),
    "create": (
        "POST",
        "/api/v2/trees?name=made&type=BRANCH",
        {"type": "BRANCH", "name": "side", "hash": "{side}", "ttl": "PT1H"},
    ),
    "create many": (
        "POST",
        "/api/v2/trees/many",
        {"references": [{"name": "x", "source": "side", "ttl": "PT1H"}, {"name": "y"}]},
    ),
    "settings": (
        "POST",
        "/api/v2/config/repository",
        {"config": {"type": "GARBAGE_COLLECTOR", "defaultCutoffPolicy": "P2D"}},
    ),
    "repository": ("POST", "/api/v2/repositories", {"name": "another"}),
    "version 1 commit": (
        "POST",
        "/api/v1/trees/branch/target/commit?expectedHash={target}",
        {"commitMeta": {"message": "m"}, "operations": [put("z")]},
    ),
    "version 1 merge": (
        "POST",
        "/api/v1/trees/branch/target/merge?expectedHash={target}",
        {"fromRefName": "side", "fromHash": "{side}"},
    ),
    "version 1 transplant": (
        "POST",
        "/api/v1/trees/branch/target/transplant?expectedHash={target}",
        {"fromRefName": "side", "hashesToTransplant": ["{side}"]},
    ),
    "version 1 assign": (
        "PUT",
        "/api/v1/trees/branch/target?expectedHash={target}",
        {"type": "BRANCH", "name": "side", "hash": "{side}"},
    ),
    "version 1 delete": ("DELETE", "/api/v1/trees/branch/target?expectedHash={target}", None),
    "version 1 namespace": ("PUT", "/api/v1/namespaces/namespace/target/new", None),
}


def filled(value: Any, heads: dict[str, str]) -> Any:
    """Fills the heads in wherever a request names one."""
    if isinstance(value, str):
        for name, digits in heads.items():
            value = value.replace(f"{{{name}}}", digits)
        return value
    if isinstance(value, dict):
        return {key: filled(one, heads) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [filled(one, heads) for one in value]
    return value


def sender(wire: Wire, name: str) -> Send:
    heads = {one: wire.head(one) for one in ("main", "side", "target")}
    method, target, body = REQUESTS[name]
    target, body = filled(target, heads), filled(body, heads)

    def send(wire: Wire) -> Answer:
        given = NO_BODY if body is None else body
        return wire.send(method, target, given, {"Idempotency-Key": name})

    return send


@pytest.mark.parametrize("since", ["source deleted", "both deleted", "both made again"])
@pytest.mark.parametrize("name", REQUESTS)
def test_the_answer_is_the_same_whatever_became_of_source_and_target(wire, name, since):
    send = sender(wire, name)
    first = send(wire)
    assert first.status in (200, 204), first.body
    gone = ["side"] if since == "source deleted" else ["side", "target", "made", "x", "y"]
    for one in gone:
        wire.v2("DELETE", f"/trees/{one}", If_Match="*")
    if since == "both made again":
        for one in ("side", "target", "made", "x", "y"):
            wire.branch(one)
            wire.commit(one, put("later"))
    for _ in range(2):
        again = send(wire)
        assert (again.status, again.body, again.headers) == (
            first.status,
            first.body,
            first.headers,
        )


@pytest.mark.parametrize("name", REQUESTS)
def test_the_same_key_with_another_request_is_refused(wire, name):
    send = sender(wire, name)
    assert send(wire).status in (200, 204)
    body = {"commitMeta": {"message": "m"}, "operations": [put("other")]}
    where = f"/trees/main@{wire.head('main')}/history/commit"
    other = wire.v2("POST", where, body, Idempotency_Key=name)
    if name == "repository":
        # Keys of requests for repositories are claimed in the list of repositories.
        other = wire.v2("POST", "/repositories", {"name": "third"}, Idempotency_Key=name)
    assert other.code == (422, "IDEMPOTENCY_KEY_REUSED")
