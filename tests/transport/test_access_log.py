"""The access log: one line for each request, with its id, and no way to forge a second."""

from __future__ import annotations

import json
import re

import pytest

from lochan.transport.access_log import AccessLog
from lochan.transport.observers import RequestObservers
from tests.transport.world import Client, running


@pytest.fixture
def lines():
    return []


def test_a_line_of_json_tells_everything_that_was_asked(lines):
    observers = RequestObservers([AccessLog("json", lines.append)])
    with running(observers=observers) as server, Client(server) as client:
        answer = client.ask("POST", "/t/commit/main?secret=1", b"[1]", "X-Request-Id: mine")
        client.ask("GET", "/nothing")
    first, second = [json.loads(line) for line in lines]
    assert first.pop("ms") > 0
    assert re.fullmatch(r"[\d-]{10}T[\d:.]{12}\+00:00", first.pop("time"))
    assert first == {
        "id": "mine",
        "method": "POST",
        "path": "/t/commit/main",
        "route": "commit",
        "repository": "default",
        "status": 200,
        "bytes_in": 3,
        "bytes_out": len(answer.body),
    }
    assert (second["status"], second["route"]) == (404, "server")


def test_a_line_of_text_is_one_line(lines):
    observers = RequestObservers([AccessLog("text", lines.append)])
    with running(observers=observers) as server, Client(server) as client:
        client.ask("GET", "/t/echo/a%0Ab")
    (line,) = lines
    assert re.fullmatch(r"\S+ 200 GET /t/echo/a%0Ab [\d.]+ms \d+B \S+\n", line)
