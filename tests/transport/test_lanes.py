"""Commits through the event loop's lanes: chained, in order, refused alone, given up in time."""

from __future__ import annotations

import asyncio
from threading import Event, current_thread
from typing import Any

import pytest

from lochan.base.errors import Unavailable
from lochan.base.limits.commits import CHAIN_PROPOSALS_MAX
from lochan.base.limits.server import BRIEF_OPERATIONS_MAX
from lochan.base.names import RefName
from lochan.service.pending_writes import PendingWrite
from lochan.stores.memory.store import MemoryStore
from lochan.transport.exchange import Exchange, Response
from lochan.transport.lanes import Lanes, QueuedWrite
from lochan.transport.pool import Pool
from tests.kernel.workbench import MAIN, Bench, LockingStore, OnCalls, Reacts, plan, put, wants
from tests.kernel.workbench import element as element_of
from tests.kernel.workbench import table as table_of
from tests.transport.world import Client, RunningServer, SmallFace, commit, running


class Gate:
    """Holds up the loop or a plan until it is opened; tells when somebody stands before it."""

    def __init__(self) -> None:
        self.reached = Event()
        self.open = Event()
        self.threads: list[str] = []
        self.passed = 0

    def pass_through(self) -> None:
        self.threads.append(current_thread().name)
        self.reached.set()
        assert self.open.wait(20)
        self.passed += 1


def gated(gate: Gate, operations: int, *, grafts: bool = False) -> Any:
    """A handler whose proposal waits at the gate while it is being planned."""

    def handle(exchange: Exchange) -> PendingWrite[Response]:
        write = commit(exchange)

        def react(head: Any) -> Any:
            gate.pass_through()
            return write.proposal.plan(head)

        return PendingWrite(
            write.branch, Reacts(react), write.finish, operations=operations, grafts=grafts
        )

    return handle


@pytest.fixture
def face():
    return SmallFace()


def clients_of(server: RunningServer, count: int) -> list[Client]:
    """Clients whose connections the server has seen already."""
    made = [Client(server) for _ in range(count)]
    for client in made:
        assert client.ask("GET", "/t/echo/x").status == 200
    return made


def test_commits_that_arrive_together_are_published_together(face):
    gate = Gate()

    def stand(exchange: Exchange) -> Response:
        gate.pass_through()
        return Response(200)

    face.add("GET", b"stand", stand)
    with running(faces=[face]) as server:
        first, *others = clients_of(server, 1 + CHAIN_PROPOSALS_MAX + 6)
        first.send(first.request("GET", "/t/stand"))
        assert gate.reached.wait(20)
        for number, client in enumerate(others):
            line = f"X-Request-Id: commit-{number}"
            client.send(client.request("POST", "/t/commit/main", b"[%d]" % number, line))
        gate.open.set()
        assert [client.read().status for client in others] == [200] * len(others)
        assert server.server.chains == {CHAIN_PROPOSALS_MAX: 1, 6: 1}
        log = server.repositories.opened["default"].log()
        assert sorted(log) == sorted(f"commit-{n}" for n in range(len(others)))


def test_one_who_is_refused_does_not_hurt_those_beside_it(face):
    gate = Gate()

    def stand(exchange: Exchange) -> Response:
        gate.pass_through()
        return Response(200)

    def clash(exchange: Exchange) -> PendingWrite[Response]:
        write = commit(exchange)
        planned = plan([put(table_of(1), element_of(1), element_of(99))], "clash")
        return PendingWrite(write.branch, Reacts(lambda _: [planned]), write.finish)

    face.add("GET", b"stand", stand)
    face.add("POST", b"clash", clash)
    with running(faces=[face]) as server:
        first, left, middle, right = clients_of(server, 4)
        first.send(first.request("GET", "/t/stand"))
        assert gate.reached.wait(20)
        left.send(left.request("POST", "/t/commit/main", b"[2]"))
        middle.send(middle.request("POST", "/t/clash/main", b"[3]"))
        right.send(right.request("POST", "/t/commit/main", b"[4]"))
        gate.open.set()
        assert [client.read().status for client in (left, middle, right)] == [200, 409, 200]
        assert server.server.chains == {3: 1}
        assert len(server.repositories.opened["default"].log()) == 2


def test_a_heavy_commit_is_published_in_a_thread_while_others_are_served(face):
    gate = Gate()
    face.add("POST", b"heavy", gated(gate, BRIEF_OPERATIONS_MAX + 1))
    with running(faces=[face]) as server:
        server.repositories.branches("other")
        heavy, same, reader = clients_of(server, 3)
        heavy.send(heavy.request("POST", "/t/heavy/main", b"[1]", "X-Request-Id: heavy"))
        assert gate.reached.wait(20)
        assert gate.threads == ["lochan-long-1"]
        # Reads and other branches go on; the same branch waits for its turn.
        assert reader.ask("GET", "/t/log/main").json() == []
        assert reader.ask("POST", "/t/commit/other", b"[1]").status == 200
        same.send(same.request("POST", "/t/commit/main", b"[2]", "X-Request-Id: later"))
        assert server.on_loop(lambda: server.server.lanes.unsettled) >= 1
        gate.open.set()
        assert (heavy.read().status, same.read().status) == (200, 200)
        assert server.repositories.opened["default"].log() == ["heavy", "later"]


def test_small_commits_on_the_same_branch_do_not_wait_for_long_work(face):
    gate = Gate()
    face.add("POST", b"long", gated(gate, BRIEF_OPERATIONS_MAX + 1, grafts=True))
    with running(faces=[face]) as server:
        long, same = clients_of(server, 2)
        long.send(long.request("POST", "/t/long/main", b"[1]", "X-Request-Id: long"))
        assert gate.reached.wait(20)
        for number in (2, 3):
            words = f"X-Request-Id: small{number}"
            same.send(same.request("POST", "/t/commit/main", b"[%d]" % number, words))
            assert same.read().status == 200
        gate.open.set()
        assert long.read().status == 200
        assert gate.threads == ["lochan-long-1"]
        assert server.repositories.opened["default"].log() == ["small2", "small3", "long"]


def test_long_work_whose_keys_were_changed_meanwhile_is_planned_again(face):
    gate = Gate()
    face.add("POST", b"long", gated(gate, BRIEF_OPERATIONS_MAX + 1, grafts=True))
    with running(faces=[face]) as server:
        long, same = clients_of(server, 2)
        long.send(long.request("POST", "/t/long/main", b"[1]", "X-Request-Id: long"))
        assert gate.reached.wait(20)
        same.send(same.request("POST", "/t/commit/main", b"[1]", "X-Request-Id: small"))
        assert same.read().status == 200
        gate.open.set()
        assert long.read().status == 200
        assert len(gate.threads) == 2
        assert server.repositories.opened["default"].log() == ["small", "long"]


def test_a_client_that_leaves_while_its_long_work_is_prepared_commits_nothing(face):
    gate = Gate()
    face.add("POST", b"long", gated(gate, BRIEF_OPERATIONS_MAX + 1, grafts=True))
    with running(faces=[face]) as server:
        leaving, staying = clients_of(server, 2)
        leaving.send(leaving.request("POST", "/t/long/main", b"[1]", "X-Request-Id: gone"))
        assert gate.reached.wait(20)
        leaving.socket.close()
        while server.on_loop(lambda: len(server.server.registry.connections)) > 1:
            pass
        gate.open.set()
        while server.on_loop(lambda: server.server.driver.under_way) > 0:
            pass
        assert gate.passed == 1
        assert staying.ask("GET", "/t/log/main").json() == []


def test_a_light_commit_is_planned_on_the_loop(face):
    gate = Gate()
    gate.open.set()
    face.add("POST", b"light", gated(gate, BRIEF_OPERATIONS_MAX))
    with running(faces=[face]) as server, Client(server) as client:
        assert client.ask("POST", "/t/light/main", b"[1]").status == 200
        assert gate.threads == ["test server"]


def test_a_client_that_leaves_while_it_waits_commits_nothing(face):
    gate = Gate()
    face.add("POST", b"heavy", gated(gate, BRIEF_OPERATIONS_MAX + 1))
    with running(faces=[face]) as server:
        heavy, leaving, staying = clients_of(server, 3)
        heavy.send(heavy.request("POST", "/t/heavy/main", b"[1]", "X-Request-Id: heavy"))
        assert gate.reached.wait(20)
        leaving.send(leaving.request("POST", "/t/commit/main", b"[2]", "X-Request-Id: gone"))
        while server.on_loop(lambda: server.server.lanes.unsettled) < 2:
            pass
        leaving.socket.close()
        while server.on_loop(lambda: server.server.lanes.unsettled) > 1:
            pass
        staying.send(staying.request("POST", "/t/commit/main", b"[3]", "X-Request-Id: stays"))
        gate.open.set()
        assert (heavy.read().status, staying.read().status) == (200, 200)
        assert server.repositories.opened["default"].log() == ["heavy", "stays"]
        assert server.on_loop(lambda: server.server.driver.under_way) == 0


def test_a_client_that_leaves_while_it_is_published_has_committed(face):
    gate = Gate()
    face.add("POST", b"heavy", gated(gate, BRIEF_OPERATIONS_MAX + 1))
    with running(faces=[face]) as server:
        (leaving,) = clients_of(server, 1)
        leaving.send(leaving.request("POST", "/t/heavy/main", b"[1]", "X-Request-Id: heavy"))
        assert gate.reached.wait(20)
        leaving.socket.close()
        for _ in range(3):
            server.on_loop(lambda: None)
        gate.open.set()
        with Client(server) as client:
            assert client.ask("POST", "/t/commit/main", b"[2]", "X-Request-Id: x").status == 200
        assert server.repositories.opened["default"].log() == ["heavy", "x"]


def test_a_dry_run_answers_as_the_commit_would_and_writes_nothing(face):
    with running(faces=[face]) as server, Client(server) as client:
        assert client.ask("POST", "/t/try/main", b"[1]").status == 200
        many = b"[" + b",".join(b"%d" % n for n in range(BRIEF_OPERATIONS_MAX + 1)) + b"]"
        assert client.ask("POST", "/t/try/main", many).status == 200
        assert client.ask("POST", "/t/try/nothing", b"[1]").status == 404
        assert server.repositories.opened["default"].log() == []


def test_trouble_of_a_whole_chain_is_told_to_all_and_the_lane_goes_on(face, caplog):
    def broken(exchange: Exchange) -> PendingWrite[Response]:
        def react(head: Any) -> Any:
            raise ValueError("a planner is broken")

        write = commit(exchange)
        return PendingWrite(write.branch, Reacts(react), write.finish)

    face.add("POST", b"broken", broken)
    with running(faces=[face]) as server, Client(server) as client:
        assert client.ask("POST", "/t/broken/main", b"[1]").status == 500
        assert client.ask("POST", "/t/commit/main", b"[1]").status == 200
    assert caplog.records


def test_members_that_come_while_a_row_is_waited_for_join_the_batch():
    """The store has row locks and lost a swap once, so the next rows are held."""
    store = LockingStore(MemoryStore(), OnCalls(lambda _: None))
    with running(store) as server, Client(server) as client:
        rival = server.repositories.opened["default"].publisher(MAIN)
        assert client.ask("POST", "/t/commit/main", b"[1]").status == 200
        rival.publish([wants(50)])
        for number in range(12):
            assert client.ask("POST", "/t/commit/main", b"[%d]" % number).status == 200
        assert len(server.repositories.opened["default"].log()) == 14


def test_idle_lanes_are_forgotten_and_busy_ones_are_not():
    bench = Bench()
    outcomes: list[Any] = []

    async def run() -> tuple[int, int]:
        loop = asyncio.get_running_loop()
        pool = Pool(loop, "test", 1)
        lanes = Lanes(loop, pool, inline=True, published=lambda _: None, lanes_max=4)
        all_told = asyncio.Event()

        def record(settled: Any) -> None:
            outcomes.append(settled)
            if len(outcomes) == 20:
                all_told.set()

        for number in range(20):
            queued = QueuedWrite(Reacts(lambda _: []), False, record, None)
            lanes.offer(("repo", RefName(f"b{number}")), lambda _: bench.publisher, queued)
        busy = len(lanes)
        await all_told.wait()
        lanes.offer(
            ("repo", MAIN),
            lambda _: bench.publisher,
            QueuedWrite(Reacts(lambda _: []), False, outcomes.append, None),
        )
        return busy, len(lanes)

    assert asyncio.run(run()) == (20, 4)


def test_writes_of_a_crowd_do_not_delay_those_of_others():
    bench = Bench()
    planned: list[str] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        lanes = Lanes(loop, Pool(loop, "test", 1), inline=True, published=lambda _: None)
        settled = asyncio.Queue[Any]()

        def offer(name: str, *, crowded: bool = False) -> None:
            def plan(_: Any) -> list[Any]:
                planned.append(name)
                return []

            queued = QueuedWrite(Reacts(plan), False, settled.put_nowait, None, crowded=crowded)
            lanes.offer(("repo", RefName(name)), lambda _: bench.publisher, queued)

        offer("noisy-1", crowded=True)
        offer("noisy-2", crowded=True)
        offer("quiet-1")
        lanes.publish_ready()
        assert planned == ["quiet-1"]
        # What was offered first is published first on the next turn; nothing is left behind.
        offer("quiet-2")
        for _ in range(4):
            await settled.get()

    asyncio.run(run())
    assert planned == ["quiet-1", "noisy-1", "noisy-2", "quiet-2"]


def test_a_waiter_that_was_never_offered_cannot_be_taken_back():
    async def run() -> bool:
        loop = asyncio.get_running_loop()
        lanes = Lanes(loop, Pool(loop, "test", 1), inline=True, published=lambda _: None)
        return lanes.cancel(QueuedWrite(Reacts(lambda _: []), False, lambda _: None, None))

    assert asyncio.run(run()) is False


def test_a_full_lane_tells_newcomers_to_come_back(face, monkeypatch):
    gate = Gate()
    face.add("POST", b"heavy", gated(gate, BRIEF_OPERATIONS_MAX + 1))
    with running(faces=[face]) as server:
        heavy, waiting, refused = clients_of(server, 3)
        heavy.send(heavy.request("POST", "/t/heavy/main", b"[1]"))
        assert gate.reached.wait(20)
        (driven,) = server.server.lanes._lanes.values()
        driven.lane._queue_max = 1
        waiting.send(waiting.request("POST", "/t/commit/main", b"[2]"))
        while server.on_loop(lambda: server.server.lanes.unsettled) < 2:
            pass
        answer = refused.ask("POST", "/t/commit/main", b"[3]")
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        gate.open.set()
        assert (heavy.read().status, waiting.read().status) == (200, 200)


def test_a_handler_may_refuse_in_the_answer_itself(face):
    def sour(exchange: Exchange) -> PendingWrite[Response]:
        def turn(response: Response) -> Response:
            raise Unavailable("not today")

        return commit(exchange).then(turn)

    face.add("POST", b"sour", sour)
    with running(faces=[face]) as server, Client(server) as client:
        assert client.ask("POST", "/t/sour/main", b"[1]").status == 503
