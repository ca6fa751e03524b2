"""Two server processes on one database: what one is told about access, the other follows in time.

A change counts on every server ACCESS_STALE_MS after it was acknowledged. So a request that was
sent later than that has to be decided by the new state, however slow the machine is; one that was
sent earlier may be decided by either. Both servers and the test read the same monotonic clock.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from benchmarks.http_load.processes import Served, start_lochan
from lochan.access.secrets import new_key_text
from lochan.base.limits.access import ACCESS_STALE_MS
from lochan.system import SystemRandom
from lochan.testing.postgres import PostgresServer

pytestmark = pytest.mark.slow

STALE_S = ACCESS_STALE_MS / 1_000
MAIN = "/api/v2/trees/main"


class Reply(NamedTuple):
    """What a server answered, and when the request was sent at the earliest."""

    status: int
    body: Any
    sent_s: float


class Asked:
    """One of the servers, as a client sees it."""

    def __init__(self, served: Served) -> None:
        self._connection = HTTPConnection("127.0.0.1", served.port)

    def ask(self, path: str, token: str = "", method: str = "GET", body: object = None) -> Reply:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        content = None if body is None else json.dumps(body)
        if content is not None:
            headers["content-type"] = "application/json"
        sent_s = time.monotonic()
        self._connection.request(method, path, content, headers)
        answer = self._connection.getresponse()
        text = answer.read()
        return Reply(answer.status, json.loads(text) if text else None, sent_s)

    def change(self, path: str, token: str, method: str, body: object = None) -> Any:
        """Changes something about access, and returns the answer."""
        reply = self.ask(f"/access/v1{path}", token, method, body)
        assert reply.status < 300, reply
        return reply.body

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def servers(server: PostgresServer, schema: str, tmp_path: Path) -> Iterator[list[Asked]]:
    key = tmp_path / "key"
    key.write_text(new_key_text(SystemRandom()))
    key.chmod(0o600)
    url, flags = server.url(schema=schema), ["--secret-key-file", str(key)]
    with ExitStack() as stack:
        both = []
        for name in ("first", "second"):
            served = stack.enter_context(start_lochan(url, tmp_path / name, *flags))
            both.append(Asked(served))
            stack.callback(both[-1].close)
        yield both


@pytest.fixture
def admin(servers: list[Asked]) -> str:
    """The token of the first user, which the first server has made."""
    made = servers[0].change("/setup", "", "POST", {"user": "admin"})
    return str(made["secret"])


def settle(servers: list[Asked], ask: Callable[[Asked], Reply], old: int, new: int) -> list[int]:
    """Asks all servers until each answers in the new way, and then in no other.

    Returns how often each answered in the old way after the change was acknowledged.
    """
    acknowledged_s = time.monotonic()
    counts = []
    for each in servers:
        count = 0
        while (reply := ask(each)).status != new:
            assert reply.status == old, reply
            assert reply.sent_s <= acknowledged_s + STALE_S, (
                f"out of date after {ACCESS_STALE_MS} ms"
            )
            count += 1
        counts.append(count)
    while time.monotonic() <= acknowledged_s + STALE_S:
        assert {ask(each).status for each in servers} == {new}, "the old state came back"
    assert {ask(each).status for each in servers} == {new}
    return counts


def add_user(server: Asked, admin: str, name: str, group: str = "writers") -> str:
    """Creates a user, and returns a token of it."""
    server.change("/users", admin, "POST", {"id": name})
    server.change(f"/groups/{group}/members/{name}", admin, "PUT")
    return str(server.change(f"/users/{name}/tokens", admin, "POST", {})["secret"])


def test_set_up_on_one_server_closes_the_other(servers):
    first, second = servers
    assert [each.ask(MAIN).status for each in servers] == [200, 200]
    made = first.change("/setup", "", "POST", {"user": "admin"})
    counts = settle(servers, lambda each: each.ask(MAIN), old=200, new=401)
    assert counts[0] == 0, "the server that made the change follows it at once"
    assert [each.ask(MAIN, made["secret"]).status for each in servers] == [200, 200]
    again = second.ask("/access/v1/setup", method="POST", body={"user": "other"})
    assert again.status == 409


def test_a_token_that_one_server_makes_counts_on_both_until_it_is_revoked(servers, admin):
    first, second = servers
    token = add_user(first, admin, "alice")
    assert [each.ask(MAIN, token).status for each in servers] == [200, 200]
    (kept,) = second.change("/users/alice/tokens", admin, "GET")["tokens"]
    second.change(f"/tokens/{kept['id']}", admin, "DELETE")
    counts = settle(servers, lambda each: each.ask(MAIN, token), old=200, new=401)
    assert counts[1] == 0


def test_a_policy_that_one_server_changes_counts_on_both(servers, admin):
    first, second = servers
    token = add_user(first, admin, "alice")
    assert [each.ask(MAIN, token).status for each in servers] == [200, 200]
    hidden = {"effect": "deny", "actions": ["view_reference"], "references": ["main"]}
    first.change("/policies/hidden", admin, "PUT", {"statements": [hidden]})
    first.change("/users/alice/policies/hidden", admin, "PUT")
    counts = settle(servers, lambda each: each.ask(MAIN, token), old=200, new=404)
    assert counts[0] == 0
    elsewhere = hidden | {"references": ["release/*"]}
    second.change("/policies/hidden", admin, "PUT", {"statements": [elsewhere]})
    counts = settle(servers, lambda each: each.ask(MAIN, token), old=404, new=200)
    assert counts[1] == 0
    second.change("/groups/writers/members/alice", admin, "DELETE")
    settle(servers, lambda each: each.ask(MAIN, token), old=200, new=404)


def test_a_login_counts_on_both_until_its_user_is_deleted(servers, admin):
    first, second = servers
    add_user(first, admin, "alice")
    key = second.change("/users/alice/access-keys", admin, "POST", {})
    body = {"accessKeyId": key["accessKey"]["id"], "secret": key["secret"]}
    login = first.change("/login", "", "POST", body)["secret"]
    assert [each.ask(MAIN, login).status for each in servers] == [200, 200]
    first.change("/users/alice", admin, "DELETE")
    counts = settle(servers, lambda each: each.ask(MAIN, login), old=200, new=401)
    assert counts[0] == 0
    assert [each.ask("/access/v1/login", "", "POST", body).status for each in servers] == [401, 401]
