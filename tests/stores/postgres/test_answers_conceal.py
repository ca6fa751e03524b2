"""Answers of a server whose database is gone contain nothing of that database; its log does."""

from __future__ import annotations

from tests.client.serving import serving
from tests.transport.world import Client, Place

USER, PASSWORD = "lochan", "correct-horse-battery"


def test_no_answer_names_a_database_that_is_gone(server, schema, wire, caplog):
    user = f"{USER}:{PASSWORD}"
    url = server.url(schema=schema, user=user, port=wire.port, connect_timeout=2)
    with serving(url) as address:
        place = Place(int(address.rpartition(":")[2]))
        with Client(place) as client:
            head = client.ask("GET", "/api/v2/trees/main").json()["reference"]["hash"]
            wire.__exit__(None, None, None)
            commit = f"/api/v2/trees/main@{head}/history/commit"
            body = (
                b'{"commitMeta":{"message":"m"},"operations":'
                b'[{"type":"DELETE","key":{"elements":["t"]}}]}'
            )
            answers = [
                client.ask("GET", "/api/v2/trees"),
                client.ask("GET", "/api/v1/trees/tree"),
                client.ask("GET", "/api/v2/trees/main"),
                client.ask("GET", "/r/other/api/v2/trees"),
                client.ask("GET", "/health/ready"),
                client.ask("POST", commit, body),
            ]
        for answer in answers:
            sent = answer.body + repr(answer.headers).encode()
            for secret in (USER, PASSWORD, str(wire.port), "127.0.0.1", "postgres", schema):
                assert secret.encode() not in sent, sent
        assert {answer.status for answer in answers} <= {200, 503, 504}
        assert answers[0].status == 503
        request = answers[0].headers["x-request-id"]
        logged = [one.getMessage() for one in caplog.records if request in one.getMessage()]
        assert len(logged) == 1
    assert f"{USER}" in caplog.text
    assert str(wire.port) in caplog.text
    assert PASSWORD not in caplog.text
