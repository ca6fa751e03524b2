"""The load generator reads replies rightly, counts rightly, and every row runs on our server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.http_load import generators, rows, simulations
from benchmarks.http_load.asymmetric import asymmetric
from benchmarks.http_load.callers import (
    GROUPS,
    POLICIES,
    admin_token,
    prepare,
    setup_flags,
    statements_of,
)
from benchmarks.http_load.connection import Malformed, Replies, Requests
from benchmarks.http_load.drive import Client, Measured, drive, quantile, run
from benchmarks.http_load.preparation import Preparation, hash_after_commit
from benchmarks.http_load.processes import Served, start_lochan
from benchmarks.http_load.usage import Snapshot, between, look, resident_mb
from tests.profile import counted, in_deep_only

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 409 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=1\r\nlo\r\n0\r\n\r\n"
)
EMPTY = b"HTTP/1.1 204 No Content\r\nX: y\r\n\r\n"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [(PLAIN, (200, b"hello")), (CHUNKED, (409, b"hello")), (EMPTY, (204, b""))],
    ids=["length", "chunks", "no body"],
)
def test_replies_are_read_however_they_are_cut(reply, expected):
    for size in (1, 7, len(reply)):
        replies = Replies()
        fed = [replies.feed(reply[at : at + size]) for at in range(0, len(reply), size)]
        assert [one for one in fed if one is not None] == [expected]
        assert fed[-1] == expected
        assert replies.feed(reply) == expected, "the next reply starts afresh"


def test_what_follows_a_reply_unasked_is_refused():
    with pytest.raises(Malformed):
        Replies().feed(PLAIN + b"HTTP/1.1 200")
    with pytest.raises(Malformed):
        Replies().feed(CHUNKED.replace(b"hel\r\n", b"helXX"))


def test_the_hash_is_found_in_the_reply_to_a_commit():
    pretty = b'{\n  "targetBranch" : {\n "name" : "main", "hash" : "ab12"\n }, "x": {"hash": 1}}'
    assert hash_after_commit(pretty) == "ab12"
    assert hash_after_commit(pretty.replace(b" ", b"")) == "ab12"


@pytest.mark.parametrize(("share", "value"), [(0, 1), (0.5, 3), (0.99, 4), (1, 4)])
def test_quantiles_are_values_that_were_measured(share, value):
    assert quantile([1, 2, 3, 4], share) == value
    assert quantile([], share) == 0


def test_cores_are_shared_out_among_server_generator_and_others():
    cores = between(Snapshot(0, 1, 1, 10), Snapshot(2, 2, 1.5, 13))
    assert (cores.server, cores.generator, cores.other) == (0.5, 0.25, 0.75)
    mine = look([os.getpid()])
    sum(range(3_000_000))
    later = look([os.getpid()])
    assert later.own_s > mine.own_s
    assert later.all_s >= mine.all_s
    assert resident_mb([os.getpid()]) > 5


class Counting(Client):
    def __init__(self, requests: Requests, calls: int) -> None:
        self._requests = requests
        self._left = calls
        self.seen: list[int] = []

    def request(self) -> bytes | None:
        self._left -= 1
        return self._requests.get("/") if self._left >= 0 else None

    def settle(self, status: int, body: bytes) -> None:
        self.seen.append(status)


async def driven(statuses: list[int], clients: int, calls: int) -> tuple[Measured, list[Counting]]:
    """Drives clients against a server that answers with these statuses in turn."""
    answered = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal answered
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                status = statuses[answered % len(statuses)]
                answered += 1
                if not status:
                    break
                writer.write(b"HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n" % status)
        except asyncio.IncompleteReadError:
            pass
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        requests = Requests(f"http://127.0.0.1:{port}")
        asking = [Counting(requests, calls) for _ in range(clients)]
        return await drive(requests, asking, seconds=30, pids=[os.getpid()]), asking


def test_answers_conflicts_and_errors_are_counted_apart():
    measured, (client,) = run(lambda: driven([200, 409, 500, 200], 1, 8))
    assert client.seen == [200, 409, 500, 200] * 2
    assert (measured.done, measured.conflicts, measured.errors) == ([4], 2, 2)
    assert measured.sample.startswith("500")
    assert len(measured.times["call"]) == 4
    assert 0 < measured.seconds < 30, "it ends when there is nothing more to do"
    summary = measured.figures() | measured.costs()
    assert summary["operations"] == 4
    assert summary["p50_ms"] <= summary["p99_ms"] <= summary["max_ms"]


def test_a_lost_connection_is_an_error_and_ends_its_client():
    measured, clients = run(lambda: driven([200, 200, 0], 1, 8))
    assert clients[0].seen == [200, 200]
    assert (measured.operations, measured.errors) == (2, 1)
    assert "lost" in measured.sample


def test_long_keys_follow_their_pattern():
    keys = generators.long_keys(300)
    assert len(set(keys)) == 300
    assert len({key[1] for key in keys}) == 2
    assert len({key[2] for key in keys}) == 15
    assert keys[0][0] == "stuff-folders"
    assert keys == generators.long_keys(300)
    above = generators.namespaces_of(keys)
    # The eighth of the inner names is used in both of the outer ones.
    assert len(above) == 1 + 2 + 16
    assert [len(one) for one in above] == sorted(len(one) for one in above)


def test_every_tenth_of_the_commits_is_timed():
    progress = generators.Progress(25)
    while progress.take():
        progress.note()
    assert progress.done == 25
    assert len(progress.per_second()) == 10


@pytest.mark.parametrize("row", ["commit-none", "commit-one:0", "get-content:x"])
def test_a_row_that_does_not_exist_is_refused(row):
    with pytest.raises(ValueError, match="is no NAME"):
        rows.split(row)


@pytest.mark.parametrize(
    "words",
    [
        ["http"],
        ["http", "rows", "nobody"],
        ["http", "generate", "nobody"],
        ["http", "simulate", "nobody"],
        ["http", "rows", "--authenticated", "--server", "nessie"],
        ["http", "rows", "--authenticated", "--address", "http://127.0.0.1:1"],
        ["peers", "--rows", "nobody"],
        ["peers", "--store", "nobody"],
    ],
)
def test_a_wrong_call_over_http_is_explained(words, capsys):
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert f"usage: python -m benchmarks {words[0]}" in capsys.readouterr().err


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with start_lochan("memory:", tmp_path_factory.mktemp("server")) as served:
        yield served


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that serves only those whom it knows."""
    folder = tmp_path_factory.mktemp("closed")
    with start_lochan("memory:", folder, *setup_flags(folder)) as served:
        yield served


@pytest.mark.slow
@pytest.mark.parametrize("which", ["closed", "server"][: counted(1, 2)])
def test_every_row_runs_on_our_server_without_an_error(which, request, monkeypatch):
    monkeypatch.setattr(rows, "MERGES", 20)
    server: Served = request.getfixturevalue(which)
    token = admin_token(server.log.parent) if which == "closed" else ""

    async def all_rows() -> None:
        preparation = await prepare(server.address, "rows", token)
        # As many as there are groups: none of them is refused anything.
        clients = 2 if which == "server" else GROUPS
        for name in [row for row in rows.ROWS if row != "commit-into-100k"]:
            # A busy machine may not answer once in a short run.
            for seconds in (0.1, 3, 30):
                measured = await rows.measure(
                    preparation, f"{name}:{clients}", seconds=seconds, warm_s=0, pids=[server.pid]
                )
                assert (name, measured.errors, measured.conflicts) == (name, 0, 0), measured.sample
                if measured.operations:
                    break
            assert measured.operations > 0, name
        preparation.caller.close()

    run(all_rows)


@in_deep_only
def test_every_experiment_runs_on_our_server_without_an_error(server, monkeypatch):
    monkeypatch.setattr(simulations, "MIXED_S", 1.0)
    monkeypatch.setattr(simulations, "COMMITS", 5)

    async def experiments() -> None:
        preparation = Preparation(Requests(server.address), "experiments")
        summary = await asymmetric(preparation, 1, seconds=0.2, warm_s=0, pids=[server.pid])
        assert summary["errors"] == summary["conflicts"] == 0
        assert summary["small_to_large"] > 0
        for name in generators.WORKLOADS:
            summary = await generators.generate(
                preparation, name, scale=0.00002, clients=2, pids=[server.pid]
            )
            assert summary["errors"] == summary["conflicts"] == 0, summary
            assert len(summary["commits_s_by_decile"]) == 10
        for name, (_, simulate) in simulations.SIMULATIONS.items():
            summary = await simulate(preparation, 2, [server.pid])
            assert summary["errors"] == 0, (name, summary)
            if "SINGLE_TABLE" not in name and "RANDOM" not in name:
                assert summary["conflicts"] == 0, (name, summary)
        preparation.caller.close()

    run(experiments)


def test_of_the_policies_of_all_callers_a_tenth_has_conditions():
    statements = [one for group in range(GROUPS) for one in statements_of(group)]
    assert len(statements) == POLICIES
    assert sum("rule" in one for one in statements) == POLICIES // 10


def test_clients_are_different_callers_one_after_the_other():
    first, second = (Requests("http://127.0.0.1:1", token=token) for token in "ab")
    preparation = Preparation(first, "x", [first, second])
    assert [preparation.requests_of(client) for client in range(3)] == [first, second, first]
    assert Preparation(first, "x").requests_of(7) is first
    assert b"Authorization: Bearer b\r\n" in second.get("/config")


@pytest.mark.slow
def test_a_server_that_does_not_start_says_why(tmp_path: Path):
    with pytest.raises(RuntimeError, match="nosuch"):
        start_lochan("nosuch:", tmp_path)
