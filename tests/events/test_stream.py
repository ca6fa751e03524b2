"""The stream of events: what a follower gets, and how it goes on after a token."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from urllib.parse import quote

import httpx
import pytest

from lochan.base.limits import events as limits
from lochan.events import feeds
from lochan.faces.events import follower
from lochan.stores.memory.store import MemoryStore
from lochan.transport import quotas
from tests.events.streamed import Message, StreamServer, stream_server
from tests.security.guarded_wire import allow


@pytest.fixture(scope="module")
def served() -> Iterator[StreamServer]:
    with stream_server() as server:
        yield server


def ids(found: list[Message]) -> list[str]:
    return [one.data["id"] for one in found]


def test_a_follower_gets_changes_as_they_are_made(served):
    with served.follow() as followed:
        followed.position()
        head = served.commit("main", "a-t")
        commit, stored = followed.take(2)
    assert commit.at == ("COMMIT", "main")
    assert commit.data["hashAfter"] == head
    assert stored.data["key"] == {"elements": ["a-t"]}
    assert stored.data["content"]["metadataLocation"] == "a-t"


def test_every_message_is_a_place_to_go_on_from(served):
    with served.follow() as followed:
        start = followed.position()
    for number in range(3):
        served.commit("main", f"b{number}", f"c{number}", f"-b{number - 1}" if number else "b")
    whole = served.past(start)
    assert len(whole) == 3 * 4
    for number, one in enumerate(whole, 1):
        assert ids(served.past(one.id)) == ids(whole)[number:]


def test_the_same_events_come_live_and_from_the_past(served):
    served.branch("side")
    with served.follow(reference="*") as followed:
        start = followed.position()
        served.commit("side", "x", "y")
        served.merge("main", "side")
        served.branch("other")
        served.delete("other")
        served.delete("side")
        live = followed.take(3 + 3 + 3)
    past = served.past(start, reference="*")
    assert {(*one.at, one.data["id"]) for one in past} == {
        (*one.at, one.data["id"]) for one in live
    }
    for name in ("main", "side", "other"):
        of_name = [one for one in live if one.at[1] == name]
        assert ids(of_name) == ids([one for one in past if one.at[1] == name])


def test_a_pattern_goes_on_from_every_message(served):
    served.branch("p-1")
    with served.follow(reference="p-*") as followed:
        start = followed.position()
    served.commit("p-1", "px", "py")
    served.branch("p-2")
    served.commit("p-2", "pz")
    served.delete("p-1")
    served.branch("p-1")
    served.commit("main", "not-here")
    whole = served.past(start, reference="p-*")
    assert [one.at for one in whole] == [
        ("COMMIT", "p-1"),
        ("CONTENT_STORED", "p-1"),
        ("CONTENT_STORED", "p-1"),
        ("REFERENCE_DELETED", "p-1"),
        ("REFERENCE_CREATED", "p-1"),
        ("REFERENCE_CREATED", "p-2"),
        ("COMMIT", "p-2"),
        ("CONTENT_STORED", "p-2"),
    ]
    for number, one in enumerate(whole, 1):
        assert ids(served.past(one.id, reference="p-*")) == ids(whole)[number:]


def test_filters_leave_out_events_and_no_position(served):
    with served.follow(type="CONTENT_STORED", key="sales-*") as followed:
        start = followed.position()
        served.commit("main", "sales-a", "other-b")
        (stored,) = followed.take(1)
        assert stored.data["key"] == {"elements": ["sales-a"]}
        served.commit("main", "other-c")
        later = followed.position()
        while served.past(later):
            # A sign of life may come before the commit.
            later = followed.position()
    assert later != start
    assert [one.event for one in served.past(start, type="COMMIT")] == ["COMMIT"] * 2
    stored_only = served.past(start, type="CONTENT_STORED", content_type="ICEBERG_VIEW")
    assert not stored_only


def test_files_are_followed_by_their_prefixes(served):
    with served.follow() as followed:
        start = followed.position()
    for path in ("in/a", "out/b"):
        served.http.put(f"/files/v1/refs/main/file?path={path}", content=b"1").raise_for_status()
    body = {"commitMeta": {"message": "m"}, "operations": []}
    served.http.post("/files/v1/refs/main/commit", json=body).raise_for_status()
    found = served.past(start, prefix="in/")
    assert [(one.event, one.data.get("path")) for one in found] == [
        ("COMMIT", None),
        ("FILE_STORED", "in/a"),
    ]


def test_a_stream_begins_at_a_time(served):
    before = datetime.now(UTC).isoformat()
    served.branch("timed")
    served.commit("timed", "timed-a")
    between = datetime.now(UTC).isoformat()
    served.commit("timed", "timed-b")
    whole = served.past(reference="timed", since=before)
    assert [one.event for one in whole][:1] == ["REFERENCE_CREATED"]
    rest = served.past(reference="timed", since=between)
    assert ids(rest) == ids(whole)[-2:]
    assert not served.past(reference="timed", since=datetime.now(UTC).isoformat())


def test_a_reference_that_was_deleted_is_followed_to_its_end_and_into_its_next_life(served):
    served.branch("again")
    with served.follow(reference="again") as followed:
        start = followed.position()
    served.delete("again")
    assert [one.event for one in served.past(start, reference="again")] == ["REFERENCE_DELETED"]
    with served.follow(start, reference="again") as followed:
        followed.take(1)
        served.branch("again")
        assert followed.take(1)[0].event == "REFERENCE_CREATED"
    answer = served.http.get("/events/v1?reference=never")
    assert answer.status_code == 404


def test_a_change_with_more_events_than_are_shared_comes_in_parts(served, monkeypatch):
    monkeypatch.setattr(feeds, "STREAM_SHARED_EVENTS_MAX", 3)
    with served.follow() as followed:
        start = followed.position()
        served.commit("main", *[f"many-{number}" for number in range(8)])
        live = followed.take(9)
    past = served.past(start)
    assert ids(live) == ids(past)
    assert ids(served.past(live[4].id)) == ids(past)[5:]


def test_a_filter_that_accepts_nothing_moves_through_the_past(served, monkeypatch):
    with served.follow() as followed:
        start = followed.position()
    for number in range(12):
        served.commit("main", f"passed-{number}")
    end = served.past(start)[-1].id
    monkeypatch.setattr(follower, "STREAM_PAST_EVENTS", 4)
    with served.follow(start, type="TRANSPLANT", follow="false") as followed:
        positions = [one.id for one in followed.messages()]
    assert positions[-1] == end
    monkeypatch.undo()
    left = [len(served.past(position, type="COMMIT")) for position in positions]
    assert left == [8, 4, 0]


def test_a_follower_that_is_too_slow_is_sent_back_to_its_token(served, monkeypatch):
    monkeypatch.setattr(feeds, "STREAM_CHANGES_MAX", 0)
    with served.follow() as followed:
        start = followed.position()
        served.commit("main", "slow-a", "slow-b")
        assert not [one for one in followed.messages() if one.event]
        assert followed.last_id == start
    assert [one.event for one in served.past(start)] == ["COMMIT", *["CONTENT_STORED"] * 2]


def test_what_other_servers_do_is_found_by_polling(served):
    store = MemoryStore()
    with stream_server(store) as one, stream_server(store, first=one) as other:
        with one.follow(reference="*") as followed:
            start = followed.position()
            other.commit("main", "a")
            assert [each.event for each in followed.take(2)] == ["COMMIT", "CONTENT_STORED"]
            other.branch("new")
            (created,) = followed.take(1)
            assert created.at == ("REFERENCE_CREATED", "new")
        with other.follow(start, reference="*") as followed:
            found = followed.take(3)
            # A token of one server is one of all.
            assert not one.past(found[-1].id, reference="*")


HOSTILE = [
    "reference=a*b*c",
    "reference=../x",
    "reference=int/refs",
    "reference=",
    "type=NOTHING",
    "key=*a*",
    "key=" + "&key=".join("abcdefghijklmnopqrstuvwxyz"),
    "since=yesterday",
    "since=2026-01-01T00:00:00",
    "since=2026-01-01T00:00:00%2B00:00&reference=*",
    "since=2026-01-01T00:00:00%2B00:00&from=x",
    "follow=perhaps",
    "from=AAAA",
    "from=" + "A" * 13_000,
    "from=%C3%A4",
    "from=.",
    "unknown=1",
    "reference=main&reference=main",
]


@pytest.mark.parametrize("query", HOSTILE, ids=lambda query: query[:30])
def test_a_query_that_makes_no_sense_is_refused(served, query):
    expected = 200 if query == "reference=" else 400
    with served.http.stream("GET", f"/events/v1?{query}") as answer:
        assert answer.status_code == expected


def test_a_token_that_was_changed_or_is_of_another_stream_is_refused(served):
    served.commit("main", "t1", "t2")
    with served.follow() as followed:
        token = followed.position()
        served.commit("main", "t3")
        middle = followed.take(2)[0].id
    assert "." in middle
    others = [
        token[:-1] + ("A" if token[-1] != "A" else "B"),
        token + "A",
        token + ".",
        middle.partition(".")[0],
        middle + "0",
        f"{token}.{middle.partition('.')[2]}",
    ]
    for one in others:
        answer = served.http.get(f"/events/v1?from={quote(one)}")
        assert answer.status_code == 400, one
    for reference in ("main?", "*", "p-*"):
        answer = served.http.get(f"/events/v1?from={token}&reference={quote(reference)}")
        assert answer.status_code == 400


def test_a_stream_of_too_many_references_is_refused():
    with stream_server() as server:
        for number in range(limits.STREAM_REFERENCES_MAX):
            server.branch(f"w-{number}")
        with server.follow(reference="w-*") as followed:
            followed.position()
            server.branch("w-one-more")
            *_, problem = [one for one in followed.messages() if one.event]
        assert problem.event == "problem"
        assert problem.data["status"] == 400
        answer = server.http.get("/events/v1?reference=w-*")
        assert answer.status_code == 400
        assert "64" in answer.json()["message"]


def test_too_many_followers_are_refused_and_those_that_leave_make_space(served, monkeypatch):
    monkeypatch.setattr(feeds, "STREAM_FOLLOWERS_MAX", 2)
    with served.follow() as one, served.follow() as other:
        one.position()
        other.position()
        answer = served.http.get("/events/v1")
        assert answer.status_code == 503
        assert answer.headers["retry-after"]
    for _ in range(200):
        answer = served.http.get("/events/v1?follow=false")
        if answer.status_code == 200:
            break
    assert answer.status_code == 200


def test_one_user_has_a_share_of_the_streams(served, monkeypatch):
    monkeypatch.setattr(quotas, "PRINCIPAL_STREAMS_MAX", 1)
    other = served.user("una", allow("read"))
    with served.follow() as one:
        one.position()
        refused = served.http.get("/events/v1")
        assert refused.status_code == 429
        assert refused.headers["retry-after"]
        with served.follow(secret=other) as two:
            two.position()


def test_a_stream_without_events_shows_that_it_is_alive(served):
    with served.http.stream("GET", "/events/v1") as response:
        lines = response.iter_lines()
        signs = [next(line for line in lines if line.startswith(":")) for _ in range(3)]
    assert signs == [":"] * 3


def test_head_opens_no_stream(served):
    for _ in range(3):
        answer = served.http.head("/events/v1")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream"
    assert served.http.post("/events/v1").status_code == 405
    assert served.http.get("/events/v1/more").status_code == 404


def test_a_server_that_stops_ends_streams_whole():
    store = MemoryStore()
    with stream_server(store) as server:
        client = server.client(server.secret)
        context = client.stream("GET", "/events/v1")
        response = context.__enter__()
        lines = response.iter_lines()
        while not next(lines).startswith("id: "):
            pass
    try:
        # An answer that is cut would raise here.
        assert not [line for line in lines if line.startswith("data")]
    except httpx.RemoteProtocolError:
        pytest.fail("the stream was cut")
    finally:
        client.close()
