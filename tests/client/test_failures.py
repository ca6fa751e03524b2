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
from lochan.client.asking import Ask, Reply
from lochan.client.failures import error_of
from lochan.client.replies import ReferenceReply, asked
from lochan.http.exchange import Request, RequestHeaders
from lochan.http.nessie.problems import CODES, problem_of
from lochan.model.contents import Namespace
from lochan.model.results import ContentConflict

READ = Ask("GET", "/config")
WRITE = Ask("POST", "/trees", body=b"{}", key="k")
INSIDE = {Corrupt, Bug, LochanError}


def made(kind: type[LochanError]) -> LochanError:
    return KeysConflict("why", ()) if kind is KeysConflict else kind("why")


def heard(error: LochanError, ask: Ask = READ) -> LochanError:
    """What the client makes of what the server makes of an error."""
    request = Request("GET", b"/", headers=RequestHeaders([(b"nessie-client-spec", b"2.2.0")]))
    response = problem_of(request, error)
    return error_of(ask, Reply(response.status, response.body, {}))


@pytest.mark.parametrize("kind", [kind for kind in CODES if kind not in INSIDE])
def test_every_error_of_the_servers_table_comes_back_as_itself(kind):
    error = heard(made(kind))
    assert type(error) is kind
    assert error.message == made(kind).public_message


def test_faults_of_the_server_are_its_bugs_for_readers_and_unknown_for_writers():
    for kind in INSIDE:
        assert type(heard(made(kind))) is Bug
        assert type(heard(made(kind), WRITE)) is Unknown


def test_conflicts_come_back_with_all_their_sides():
    conflict = ContentConflict(
        "VALUE_DIFFERS",
        ("a", "b.c"),
        "differs",
        base=Namespace(elements=("a", "b.c")),
        target=Namespace(elements=("a", "b.c"), properties={"x": "y"}),
    )
    error = heard(KeysConflict("why", (conflict,)))
    assert isinstance(error, KeysConflict)
    assert error.details == (conflict,)
    assert type(heard(HeadConflict("moved"))) is HeadConflict


def test_keys_come_back_with_what_was_not_found():
    for kind in (ContentNotFound, NamespaceNotFound):
        error = heard(kind("why", ("a", "b")))
        assert isinstance(error, kind)
        assert error.key == ("a", "b")


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, Invalid), (404, LochanError), (413, TooLarge), (418, Invalid), (503, Unavailable)],
)
def test_a_body_that_is_not_ours_is_judged_by_its_status(status, kind):
    error = error_of(READ, Reply(status, b"<html>a proxy says no</html>", {}))
    assert isinstance(error, kind)
    assert "a proxy says no" in error.message


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b"\xff", b'{"reference":{"type":1}}'])
def test_an_answer_that_cannot_be_read_is_never_taken_for_a_result(body):
    flow = asked(READ, ReferenceReply)
    next(flow)
    with pytest.raises(Corrupt):
        flow.send(Reply(200, body, {}))
