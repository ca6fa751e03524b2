"""Metrics are for callers with the right to read them, once there are callers."""

from __future__ import annotations

import pytest

from lochan.access.enforcement import EnforcedPolicy
from lochan.access.policy import Action, Principal
from lochan.access.rights import OPEN_RIGHTS, AttachedPolicy, compile_rights
from lochan.base.errors import Unauthenticated
from lochan.faces.metrics.face import MetricsFace
from lochan.model.access import AccessPolicy, Statement
from lochan.transport.routes import Authentication
from tests.transport.world import Client, running


def rights_of(*actions: str):
    allow = Statement(effect="allow", actions=actions)
    policy = AttachedPolicy(AccessPolicy("p", (allow,)), "user:u")
    return compile_rights([policy], "u", ())


CALLERS = {
    "Bearer metrics": Principal("metrics", rights=rights_of(Action.READ_METRICS.value)),
    "Bearer all": Principal("all", rights=rights_of("*")),
    "Bearer reader": Principal("reader", rights=rights_of("read", "write")),
    "Bearer access": Principal("access", rights=rights_of("read_access", "manage_access")),
}


def find(request, match):
    found = CALLERS.get(request.headers.get("authorization"))
    if found is None:
        raise Unauthenticated("no")
    return found


@pytest.fixture(scope="module")
def client():
    face = MetricsFace(lambda: b"some 1\n", b"text/plain", EnforcedPolicy(), Authentication(find))
    with running(faces=[face]) as server, Client(server) as connected:
        yield connected


@pytest.mark.parametrize(
    ("token", "status"),
    [("metrics", 200), ("all", 200), ("reader", 403), ("access", 403), ("other", 401)],
)
def test_metrics_need_a_right_of_their_own(client, token, status):
    answer = client.ask("GET", "/metrics", b"", f"Authorization: Bearer {token}")
    assert answer.status == status
    assert (answer.body == b"some 1\n") == (status == 200)


def test_without_credentials_there_are_none(client):
    assert client.ask("GET", "/metrics").status == 401
    assert client.ask("HEAD", "/metrics").status == 401
    assert client.ask("POST", "/metrics", b"{}").headers["allow"] == "GET, HEAD"
    assert client.ask("GET", "/metrics/more").status == 404


def test_before_there_are_users_everyone_reads_them():
    anyone = Authentication(lambda *_: Principal(rights=OPEN_RIGHTS))
    face = MetricsFace(lambda: b"some 1\n", b"text/plain", EnforcedPolicy(), anyone)
    with running(faces=[face]) as server, Client(server) as client:
        answer = client.ask("GET", "/metrics")
        assert (answer.status, answer.headers["content-type"]) == (200, "text/plain")
