"""Where a stream begins, asked as Spark asks: by offsets, in a process that knows nothing."""

from __future__ import annotations

import httpx
import pytest

from lochan.base.errors import Invalid
from lochan.client import Client
from lochan.spark.history import kinds
from lochan.spark.history.options import read_options
from lochan.spark.history.stream import ChangeStream, stream_reader
from tests.spark.histories import make_commits


@pytest.fixture
def client(server):
    with Client(server) as made:
        yield made


def follow(server, **options) -> ChangeStream:
    """Returns a stream as a driver has it that was just started."""
    given = {"uri": server, "kind": "changes", "ref": "main", **options}
    return ChangeStream(read_options(given, follow=True), kinds.schema_of("changes"))


def seqs(stream, start, end) -> list[int]:
    batches = [each for part in stream.partitions(start, end) for each in stream.read(part)]
    return sorted(row["seq"] for batch in batches for row in batch.to_pylist())


@pytest.mark.parametrize(
    ("since", "first"),
    [
        ("main~2", [4, 5]),
        ("latest", []),
        ("v1", [3, 4, 5]),
        ("side", [3, 4, 5]),
        ("earliest", [1, 2, 3, 4, 5]),
    ],
)
def test_a_first_batch_that_is_run_again_has_the_same_rows_whatever_its_beginning_is_called(
    client, server, since, first
):
    hashes = make_commits(client, 5)
    client.references.create("v1", hashes[1], kind="TAG")
    client.references.create("side", hashes[1])
    stream = follow(server, since=since)
    end = stream.latestOffset()
    assert seqs(stream, stream.initialOffset(), end) == first
    # The driver ends before the batch is done; everything that `since` may mean moves on.
    make_commits(client, 3, first=6)
    client.references.assign("v1", "main")
    client.references.assign("side", "main")
    again = follow(server, since=since)
    assert seqs(again, again.initialOffset(), end) == first
    assert seqs(again, end, again.latestOffset()) == [6, 7, 8]


def test_a_first_batch_that_is_run_again_does_not_need_what_its_beginning_was_called(
    client, server
):
    hashes = make_commits(client, 3)
    client.references.create("v1", hashes[0], kind="TAG")
    stream = follow(server, since="v1")
    end = stream.latestOffset()
    client.references.delete("v1")
    again = follow(server, since="v1")
    assert seqs(again, again.initialOffset(), end) == [2, 3]


def test_only_the_first_offset_names_its_beginning(client, server):
    hashes = make_commits(client, 3)
    stream = follow(server, since="main~1", maxCommits="1")
    first = stream.latestOffset()
    stream.partitions(stream.initialOffset(), first)
    make_commits(client, 1, first=4)
    second = stream.latestOffset()
    beginning = {"commit": hashes[1], "seq": 2}
    assert first == {"ref": "main", "commit": hashes[2], "seq": 3, "from": beginning}
    assert set(second) == {"ref", "commit", "seq"}
    assert second["seq"] == 4


def test_a_first_offset_without_its_beginning_is_refused(client, server):
    hashes = make_commits(client, 1)
    stream = follow(server)
    with pytest.raises(Invalid, match="the beginning of its first batch"):
        stream.partitions(stream.initialOffset(), {"ref": "main", "commit": hashes[0], "seq": 1})


def test_a_stream_that_waits_asks_only_where_its_branch_is(client, server):
    make_commits(client, 3)
    requests: list[str] = []

    class Watching(httpx.HTTPTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            requests.append(request.url.raw_path.decode())
            return super().handle_request(request)

    class Watched(ChangeStream):
        client = Client(server, transport=Watching())

    stream = Watched(
        read_options({"uri": server, "kind": "changes", "ref": "main"}, follow=True),
        kinds.schema_of("changes"),
    )
    with Watched.client:
        end = stream.latestOffset()
        stream.partitions(stream.initialOffset(), end)
        requests.clear()
        assert stream.latestOffset() == end
        assert [path.partition("/api/")[2] for path in requests] == ["v2/trees/main"]


@pytest.mark.parametrize("ref", ["main~1", "ab" * 32, "main@" + "ab" * 32])
def test_only_what_moves_can_be_followed(ref):
    options = read_options(
        {"uri": "http://127.0.0.1:1", "kind": "changes", "ref": ref}, follow=True
    )
    with pytest.raises(Invalid, match="the name of a branch"):
        stream_reader(options, kinds.schema_of("changes"))


def test_a_beginning_is_looked_for_where_a_query_that_reads_what_is_there_ends(client, server):
    pytest.importorskip(
        "pyspark.sql.streaming.datasource",
        reason="admission control is missing: it comes with pyspark 4.2",
    )
    from lochan.spark.history.admission import AdmittedChanges

    make_commits(client, 2)
    options = read_options(
        {"uri": server, "kind": "changes", "ref": "main", "since": "latest"}, follow=True
    )
    stream = AdmittedChanges(options, kinds.schema_of("changes"))
    stream.prepareForTriggerAvailableNow()
    make_commits(client, 1, first=3)
    end = stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())
    assert (end["seq"], end["from"]["seq"]) == (2, 2)
