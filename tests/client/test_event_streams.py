"""Streams of events as clients read them: over connections that break, and servers that stop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from urllib.parse import urlsplit

import pytest

from lochan.base.errors import Corrupt, Denied, Invalid, NotFound, ReferenceNotFound, Unavailable
from lochan.client import AsyncClient, Client
from lochan.client.event_streams import EventStream, MessageParser
from lochan.model.access import Statement
from lochan.model.events import CommitMade, ContentStored, Event
from lochan.testing.tcp_faults import FaultyWire, Way, WireFault
from tests.events.streamed import StreamServer, stream_server


@pytest.fixture(scope="module")
def served() -> Iterator[StreamServer]:
    with stream_server() as server:
        yield server


@pytest.fixture
def client(served: StreamServer) -> Iterator[Client]:
    with Client(served.url, token=served.secret, sleep=lambda _: None) as one:
        yield one


@pytest.fixture
def wire(served: StreamServer) -> Iterator[FaultyWire]:
    with FaultyWire(urlsplit(served.url).port or 0) as one:
        yield one


def through(wire: FaultyWire, served: StreamServer) -> Client:
    url = f"http://127.0.0.1:{wire.port}"
    return Client(url, token=served.secret, sleep=lambda _: None)


def position(client: Client, reference: str = "-") -> str:
    """Returns the present position of a reference."""
    with client.events(reference, follow=False) as stream:
        assert list(stream) == []
        return stream.token


def ids(events: list[Event]) -> list[str]:
    return [event.id for event in events]


def test_a_stream_is_an_iterator_of_events(served, client):
    token = position(client)
    with client.events(token=token) as stream:
        head = served.commit("main", "it-a", "it-b")
        commit, one, other = islice(stream, 3)
    assert isinstance(commit, CommitMade)
    assert commit.hash_after == head
    assert isinstance(one, ContentStored)
    assert (one.key, other.key) == (("it-a",), ("it-b",))
    with client.events(token=token, types=["CONTENT_STORED"], keys=["*-b"], follow=False) as rest:
        assert ids(list(rest)) == ids([other])


def test_a_stream_goes_on_behind_every_event(served, client):
    token = position(client)
    for number in range(3):
        served.commit("main", f"on-{number}", f"more-{number}")
    with client.events(token=token, follow=False) as stream:
        whole = [(event.id, stream.token) for event in stream]
    assert len(whole) == 9
    for number, (_, behind) in enumerate(whole, 1):
        with client.events(token=behind, follow=False) as rest:
            assert ids(list(rest)) == [one for one, _ in whole[number:]]


@pytest.mark.parametrize("after", [0, 300, 900, 2_000, 5_000])
def test_a_stream_goes_on_after_its_connection_breaks(served, client, wire, after):
    token = position(client)
    for number in range(5):
        served.commit("main", f"cut-{after}-{number}")
    with client.events(token=token, follow=False) as stream:
        wanted = ids(list(stream))
    with through(wire, served) as broken, broken.events(token=token) as stream:
        wire.plan(WireFault.CUT, Way.TO_CLIENT, after)
        found = ids(list(islice(stream, 10)))
        assert wire.happened.is_set()
    assert found == wanted


def test_a_stream_that_waits_is_cut_and_goes_on(served, wire):
    with through(wire, served) as broken, broken.events(token=position(broken)) as stream:
        served.commit("main", "wait-a")
        first = list(islice(stream, 2))
        wire.cut_now()
        served.commit("main", "wait-b")
        second = list(islice(stream, 2))
    keys = [event.key for event in (*first, *second) if isinstance(event, ContentStored)]
    assert keys == [("wait-a",), ("wait-b",)]


def test_the_asynchronous_client_does_the_same(served, wire):
    async def run() -> list[str]:
        url = f"http://127.0.0.1:{wire.port}"
        found: list[str] = []
        async with AsyncClient(url, token=served.secret) as client:
            async with client.events(follow=False) as stream:
                assert [one async for one in stream] == []
                token = stream.token
            served.commit("main", "async-a", "async-b")
            async with client.events(token=token) as stream:
                async for event in stream:
                    found.append(event.type)
                    if len(found) == 1:
                        wire.cut_now()
                    if len(found) == 3:
                        return found
        return found

    assert asyncio.run(run()) == ["COMMIT", "CONTENT_STORED", "CONTENT_STORED"]


def test_a_stream_begins_at_a_time(served, client):
    served.branch("since")
    before = datetime.now(UTC)
    served.commit("since", "since-a")
    with client.events("since", since=before, follow=False) as stream:
        assert [event.type for event in stream] == ["COMMIT", "CONTENT_STORED"]
    with pytest.raises(Invalid, match="zone"):
        next(client.events(since=datetime(2026, 1, 1)))  # noqa: DTZ001 - what is refused


def test_refusals_are_the_errors_of_every_request(served, client):
    with pytest.raises(ReferenceNotFound):
        next(client.events("nothing"))
    with pytest.raises(Invalid):
        next(client.events(token="nonsense"))
    viewer = served.user("vera", Statement(effect="allow", actions=("view_reference",)))
    with Client(served.url, token=viewer) as other, pytest.raises(Denied):
        next(other.events())


def test_rights_that_end_are_an_error_of_the_iterator(served):
    reader = served.user("rita", Statement(effect="allow", actions=("read",)))
    with Client(served.url, token=reader) as other:
        token = position(other)
        with other.events(token=token) as stream:
            served.commit("main", "rita-a")
            next(stream)
            next(stream)
            served.access.control.detach(served.call, "user", "rita", "of-rita")
            with pytest.raises(NotFound, match="default"):
                next(stream)


def test_a_stream_goes_on_when_its_server_is_started_again():
    pauses: list[float] = []
    with stream_server() as first:
        with Client(first.url, token=first.secret) as client:
            token = position(client)
        first.commit("main", "a")
        client = Client(first.url, token=first.secret, sleep=pauses.append)
        stream = client.events(token=token)
        assert next(stream).type == "COMMIT"
    # What has come already is still returned; then the server is looked for.
    assert next(stream).type == "CONTENT_STORED"
    with pytest.raises(Unavailable):
        next(stream)
    assert len(pauses) > 30
    assert max(pauses) <= 5
    stream.close()
    assert list(stream) == []
    client.close()


def test_a_message_without_an_end_is_refused():
    parser = MessageParser()
    for _ in range(100):
        assert list(parser.feed(b"x" * 10_000)) == []
    with pytest.raises(Corrupt):
        list(parser.feed(b"x" * 100_000))


def test_messages_are_cut_at_any_byte():
    text = b": alive\n\nid: 1\n\nevent: COMMIT\nid: 2\ndata: {\ndata: }\n\n"
    whole = list(MessageParser().feed(text))
    assert [(one.event, one.id, one.data) for one in whole[1:]] == [
        (b"", "1", b""),
        (b"COMMIT", "2", b"{\n}"),
    ]
    for cut in range(len(text)):
        parser = MessageParser()
        assert [*parser.feed(text[:cut]), *parser.feed(text[cut:])] == whole


def test_a_closed_stream_ends(client):
    stream = client.events()
    assert isinstance(stream, EventStream)
    stream.close()
    assert list(stream) == []
