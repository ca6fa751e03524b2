"""What a server refuses becomes the error that the embedded repository raises."""

from __future__ import annotations

import pytest

from lochan.base.errors import (
    Bug,
    ContentNotFound,
    Corrupt,
    HeadConflict,
    Invalid,
    KeysConflict,
    LochanError,
    NamespaceNotFound,
    TooLarge,
    Unavailable,
    Unknown,
)
from lochan.client.failures import error_of, exchange
from lochan.client.messages import HttpReply, HttpRequest
from lochan.faces.answers import problem_of
from lochan.model.contents import Namespace
from lochan.model.results import ContentConflict
from lochan.transport.exchange import Request, RequestHeaders
from lochan.wire.problems import ERROR_CODES
from lochan.wire.references import SingleReference

READ = HttpRequest("GET", "/config")
WRITE = HttpRequest("POST", "/trees", body=b"{}", key="k")
INSIDE = {Corrupt, Bug, LochanError}


def build_error(kind: type[LochanError]) -> LochanError:
    return KeysConflict("why", ()) if kind is KeysConflict else kind("why")


def received(error: LochanError, request: HttpRequest = READ) -> LochanError:
    """The error that the client raises after the server's response to an error."""
    asked = Request("GET", b"/", headers=RequestHeaders([(b"nessie-client-spec", b"2.2.0")]))
    response = problem_of(asked, error)
    return error_of(request, HttpReply(response.status, response.body, {}))


@pytest.mark.parametrize("kind", [kind for kind in ERROR_CODES if kind not in INSIDE])
def test_every_error_of_the_servers_table_comes_back_as_itself(kind):
    error = received(build_error(kind))
    assert type(error) is kind
    assert error.message == build_error(kind).public_message


def test_faults_of_the_server_are_its_bugs_for_readers_and_unknown_for_writers():
    for kind in INSIDE:
        assert type(received(build_error(kind))) is Bug
        assert type(received(build_error(kind), WRITE)) is Unknown


def test_conflicts_come_back_with_all_their_sides():
    conflict = ContentConflict(
        "VALUE_DIFFERS",
        ("a", "b.c"),
        "differs",
        base=Namespace(elements=("a", "b.c")),
        target=Namespace(elements=("a", "b.c"), properties={"x": "y"}),
    )
    error = received(KeysConflict("why", (conflict,)))
    assert isinstance(error, KeysConflict)
    assert error.details == (conflict,)
    assert type(received(HeadConflict("moved"))) is HeadConflict


def test_keys_come_back_with_what_was_not_found():
    for kind in (ContentNotFound, NamespaceNotFound):
        error = received(kind("why", ("a", "b")))
        assert isinstance(error, kind)
        assert error.key == ("a", "b")


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, Invalid), (404, LochanError), (413, TooLarge), (418, Invalid), (503, Unavailable)],
)
def test_a_body_that_is_not_ours_is_judged_by_its_status(status, kind):
    error = error_of(READ, HttpReply(status, b"<html>a proxy says no</html>", {}))
    assert isinstance(error, kind)
    assert "a proxy says no" in error.message


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b"\xff", b'{"reference":{"type":1}}'])
def test_an_answer_that_cannot_be_read_is_never_taken_for_a_result(body):
    flow = exchange(READ, SingleReference)
    next(flow)
    with pytest.raises(Corrupt):
        flow.send(HttpReply(200, body, {}))
