"""A feed without anything new waits for the event stream of its server, and misses nothing."""

from __future__ import annotations

import pytest

from lochan.client import Client
from lochan.client.flows import events as flow
from lochan.spark.history import branch_watch, kinds
from lochan.spark.history.options import read_options
from lochan.spark.history.stream import ChangeStream
from tests.spark.histories import make_commits

LOOKS = 12
# More than enough for a stream to be opened, and for a commit to be found without one.
LOOKS_MAX = 600


class Counting(ChangeStream):
    """Counts how often it asks where its branch is."""

    asked = 0

    def head(self, *seen):
        self.asked += 1
        return super().head(*seen)

    def follow_to(self, end):
        """Takes offsets as Spark does, until there is another one."""
        for _ in range(LOOKS_MAX):
            found = self.latestOffset()
            if found != end:
                self.partitions(end, found)
                return found
        raise AssertionError("the feed has not noticed a commit")


@pytest.fixture
def client(server):
    with Client(server) as made:
        yield made


@pytest.fixture
def feed(server, client):
    make_commits(client, 2)
    given = {"uri": server, "kind": "changes", "ref": "main"}
    made = Counting(read_options(given, follow=True), kinds.schema_of("changes"))
    yield made
    made.stop()


def begin(feed):
    """Returns the offset behind everything, after Spark has asked once more."""
    start = feed.initialOffset()
    end = feed.latestOffset()
    feed.partitions(start, end)
    assert feed.latestOffset() == end
    return end


def is_following(feed) -> bool:
    watch = feed._watch
    return watch is not None and watch._stream is not None and bool(watch._stream.token)


def test_a_feed_that_waits_does_not_ask_and_finds_what_comes(feed, client, monkeypatch):
    # Only the stream can be the reason for a question.
    monkeypatch.setattr(branch_watch, "SPARK_ASK_S", 1e9)
    end = begin(feed)
    for _ in range(LOOKS_MAX):
        if is_following(feed):
            break
        assert feed.latestOffset() == end
    asked = feed.asked
    for _ in range(LOOKS):
        assert feed.latestOffset() == end
    assert feed.asked == asked
    for number in range(3, 6):
        make_commits(client, 1, first=number)
        end = feed.follow_to(end)
        assert end["seq"] == number


def test_a_feed_asks_now_and_then_whatever_the_stream_reports(feed, client, monkeypatch):
    monkeypatch.setattr(branch_watch, "SPARK_ASK_S", 0.0)
    end = begin(feed)
    asked = feed.asked
    for _ in range(LOOKS):
        assert feed.latestOffset() == end
    assert feed.asked == asked + LOOKS


def test_a_server_without_a_stream_is_asked_each_time(feed, client, monkeypatch):
    monkeypatch.setattr(flow, "EVENTS_PREFIX", "/nothing/v1")
    monkeypatch.setattr(branch_watch, "SPARK_ASK_S", 1e9)
    end = begin(feed)
    make_commits(client, 1, first=3)
    end = feed.follow_to(end)
    assert end["seq"] == 3
    assert not is_following(feed)
