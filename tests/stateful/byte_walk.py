"""Random walks of clients that store and read bytes, compared with a plain dictionary.

A walk is a number of rounds. In each, some connections send their requests ahead of the answers, in
pieces that are cut at any byte, and read the answers in pieces, in a random order; some stop in the
middle. Afterwards the stored bytes are those of a dictionary: an upload is there if its last byte
was sent, and nothing of any other. Everything runs on one loop, so that a seed repeats a walk.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from random import Random
from types import coroutine
from typing import Any

from lochan.stores.memory.store import MemoryStore
from lochan.transport.body_streams import ResponseStream
from lochan.transport.connection import Connection
from lochan.transport.exchange import Exchange, Response
from lochan.transport.routes import Route
from lochan.transport.server import Options, Server
from tests.stateful.byte_requests import BODY_BYTES_MAX, Call, Expected, Stored, build_call
from tests.stateful.byte_wire import BUFFER_HIGH, Answer, Answers, Wire
from tests.transport.byte_face import TEXT, ByteFace

PIECE_BYTES = 100
STREAM_BUFFER = 300

# After so many turns of the loop in which nothing happened nothing will happen.
QUIET_TURNS = 60
STALLED_S = 32

ENDINGS = ["finish", "finish", "finish", "cut", "half-close", "breaks", "stall", "deaf"]


@coroutine
def turn() -> Generator[None, None, None]:
    """Lets everything else on the loop have its turn."""
    yield


class Clock:
    """As much of a loop as the clock of connections asks for; time passes by steps."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, call: Any) -> Any:
        return None


class SlowFace(ByteFace):
    """Waits some turns of the loop before it reads, and answers in small parts."""

    def __init__(self, random: Random) -> None:
        super().__init__(bytes_max=BODY_BYTES_MAX)
        self._random = random
        self.routes[b"b-text"] = Route("text", self.text)

    def text(self, exchange: Exchange) -> Response:
        return Response(200, b"x" * int(exchange.params["key"]), (), TEXT)

    async def serve(self, exchange: Exchange) -> Response:
        await self._wait()
        if exchange.request.method == "PUT":
            return await self._store(exchange)
        return self._sliced(self._load(exchange))

    async def early(self, exchange: Exchange) -> Response:
        await self._wait()
        return await super().early(exchange)

    async def zeros(self, exchange: Exchange) -> Response:
        return self._sliced(await super().zeros(exchange))

    async def broken(self, exchange: Exchange) -> Response:
        length = None if exchange.request.query.get("chunked") else 1_000
        return Response(200, b"", (), TEXT, ResponseStream(self._breaks(), length))

    async def _breaks(self) -> AsyncGenerator[bytes, None]:
        yield bytes(PIECE_BYTES)
        await self._wait()
        raise RuntimeError("the source broke")

    async def _wait(self) -> None:
        for _ in range(self._random.choice([0, 3, 20])):
            await turn()

    def _sliced(self, response: Response) -> Response:
        if response.stream is None:
            return response
        stream = ResponseStream(self._slices(response.stream.parts), response.stream.length)
        return Response(response.status, b"", response.headers, TEXT, stream)

    async def _slices(self, parts: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        async for part in parts:
            for at in range(0, len(part), PIECE_BYTES):
                yield part[at : at + PIECE_BYTES]


class Client:
    """One connection of a round: what it sends, how it ends, what it got."""

    def __init__(self, random: Random, slot: int, server: Server) -> None:
        self.slot = slot
        self.ending = random.choice(ENDINGS)
        calls = [build_call(random, slot) for _ in range(random.randrange(1, 6))]
        if self.ending == "breaks":
            calls.append(build_call(random, slot, breaks=True))
        self.calls = calls
        size = sum(len(call.head) + len(call.body) for call in calls)
        stops = self.ending in ("cut", "half-close", "stall")
        self.stop = random.randrange(1, size + 1) if stops else size
        self.sent = 0
        self.reads_often = random.choice([0.05, 0.4, 0.8])
        self.is_finished = False
        self.reads_most = random.randrange(2_000) if self.ending == "deaf" else 1 << 30
        self.answers = Answers([call.method for call in calls])
        self.raw = b"".join(call.head + call.body for call in calls)
        self.wire = Wire(self.answers)
        self.connection = Connection(server.listeners[0])
        self.wire.connect(self.connection)

    def owns(self, key: bytes) -> bool:
        return key.startswith(b"%d-" % self.slot)

    def of_slot(self, stored: Stored) -> Stored:
        """Returns what is stored under keys of this client."""
        return {key: raw for key, raw in stored.items() if self.owns(key)}

    def sendable(self) -> int:
        """How many bytes the client may send now; a client that asks for a 100 waits for it."""
        if not self.wire.takes or self.wire.ended:
            return 0
        answers, interim = self.answers.read()
        at = 0
        for number, call in enumerate(self.calls):
            at += len(call.head)
            waits = call.waits and number not in interim
            if waits and self.sent <= at:
                return min(at, self.stop) - self.sent
            at += len(call.body)
        return self.stop - self.sent if not any(one.closes for one in answers) else 0

    def step(self, random: Random) -> None:
        """Sends a piece, or reads one."""
        count = self.sendable()
        if count and random.random() > self.reads_often:
            size = random.choice([1, random.randrange(1, 900), self._left_of_request(), count])
            piece = self.raw[self.sent : self.sent + min(size, count)]
            self.sent += len(piece)
            self.wire.deliver(piece)
        else:
            left = self.reads_most - len(self.answers.raw)
            self.wire.read(min(left, random.choice([0, 10, 300, 5_000])))
        self.check_bounds()

    def check_bounds(self) -> None:
        stream = None if self.connection._ended else self.connection._stream
        if stream is not None and stream.buffered_bytes >= STREAM_BUFFER and self.wire.takes:
            raise AssertionError("the buffer of a body is full and the server reads on")
        most = BUFFER_HIGH + BODY_BYTES_MAX + 500
        assert len(self.wire.unread) <= most, "answers are made faster than they are read"

    def finish(self) -> None:
        """Does what this client does after its last byte."""
        if self.is_finished:
            return
        self.is_finished = True
        if self.ending == "cut":
            self.wire.lose()
        elif self.ending == "half-close":
            self.wire.half_close()

    @property
    def whole_calls(self) -> int:
        """How many requests were sent to their last byte."""
        at = whole = 0
        for call in self.calls:
            at += len(call.head) + len(call.body)
            whole += at <= self.sent and not call.breaks
        return whole

    @property
    def is_within_request(self) -> bool:
        return self.sent not in self._boundaries()

    def _left_of_request(self) -> int:
        return min(at for at in self._boundaries() if at > self.sent) - self.sent

    def _boundaries(self) -> list[int]:
        found, at = [0], 0
        for call in self.calls:
            at += len(call.head) + len(call.body)
            found.append(at)
        return found


class Walk:
    """A server, its face, and the dictionary that the stored bytes must be equal to."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.face = SlowFace(self.random)
        self.server = Server(MemoryStore(), _NoRepositories(), [self.face], Options(port=0))
        # Nothing is written to the store; its thread would make walks differ.
        self.server.group_flush._needless = True
        self.server.registry.close()
        self.clock = Clock()
        self.server.registry._loop = self.clock  # type: ignore[assignment]
        self.server.registry.tick()
        self.model: Stored = {}

    async def round(self) -> None:
        clients = [
            Client(self.random, slot, self.server) for slot in range(self.random.randrange(1, 4))
        ]
        await self._act(clients)
        for client in clients:
            client.finish()
        await self._settle(clients)
        await self._pass_time(clients)
        for client in clients:
            self._compare(client)
            client.wire.lose()
        await self._settle([])
        self._check_nothing_is_left()

    async def _act(self, clients: list[Client]) -> None:
        """Lets clients send and read in a random order until none can go on."""
        idle = 0
        while idle < QUIET_TURNS:
            busy = [one for one in clients if one.sendable() or one.wire.unread]
            for client in busy:
                if self.random.random() < 0.7:
                    client.step(self.random)
            for client in clients:
                if client.sent == client.stop and self.random.random() < 0.2:
                    client.finish()
            for _ in range(self.random.randrange(3)):
                await turn()
            blocked = all(not one.sendable() and not self._readable(one) for one in clients)
            idle = idle + 1 if blocked else 0
            await turn()

    @staticmethod
    def _readable(client: Client) -> bool:
        return bool(client.wire.unread) and len(client.answers.raw) < client.reads_most

    async def _settle(self, clients: list[Client]) -> None:
        for _ in range(QUIET_TURNS):
            await turn()
            for client in clients:
                client.wire.read(client.reads_most - len(client.answers.raw))

    async def _pass_time(self, clients: list[Client]) -> None:
        """Lets stalled bodies and clients that do not read become too slow."""
        waiting = [
            one
            for one in clients
            if (one.ending == "stall" and one.is_within_request)
            or (one.ending == "deaf" and not one.connection._may_write)
        ]
        if not waiting:
            return
        for _ in range(STALLED_S):
            self.clock.now_s += 1
            self.server.registry.tick()
            await self._settle(clients)
        for one in waiting:
            assert one.wire.ended, f"a client that does nothing is still served: {one.ending}"

    def _compare(self, client: Client) -> None:
        """Compares the answers and the stored bytes of a client with the dictionary's."""
        own = client.of_slot(self.model)
        answers, interim = client.answers.read()
        self._check_interim(client, interim)
        states, is_cut = [dict(own)], False
        for number, call in enumerate(client.calls[: client.whole_calls]):
            expected = call.apply(own)
            states.append(dict(own))
            if number < len(answers):
                _check_answer(client, call, expected, answers[number])
            is_cut = not expected.whole
            if is_cut or (number < len(answers) and answers[number].closes):
                break
        whole = len(states) - 1
        _check_late(client, answers[whole:], client.calls[whole:], own)
        answered = min(whole, sum(one.whole for one in answers))
        if not is_cut and client.ending not in ("cut", "deaf"):
            assert answered == whole, f"{whole - answered} requests were not answered"
        if client.ending == "finish" and not is_cut and not any(one.closes for one in answers):
            assert client.sent == len(client.raw), "the server does not read on"
        stored = client.of_slot(self.face.stored)
        assert stored in states[answered:], (
            f"{client.ending} at byte {client.sent}: the stored bytes are those of none of "
            f"{len(states) - answered} states"
        )
        others = {key: raw for key, raw in self.model.items() if not client.owns(key)}
        self.model = others | stored

    @staticmethod
    def _check_interim(client: Client, interim: list[int]) -> None:
        assert len(set(interim)) == len(interim), "a 100 is sent twice"
        for number in interim:
            assert client.calls[number].expects, "a 100 is sent to a client that does not wait"

    def _check_nothing_is_left(self) -> None:
        server = self.server
        assert not server.registry.connections, "a connection is left"
        assert not server.registry.held_bytes, "bytes of bodies are counted after their end"
        assert not server.driver.streams, "a stream occupies its slot after its end"
        assert not server.driver.under_way, "a request is counted after its end"


def _check_answer(client: Client, call: Call, expected: Expected, answer: Answer) -> None:
    where = f"{call.method} {call.head[:40]!r}: {answer.status} {answer.headers}"
    assert answer.status in expected.statuses, where
    if not expected.whole:
        assert not answer.whole, f"an answer whose source broke looks whole: {where}"
        return
    if answer.whole and expected.body is not None:
        assert answer.body == expected.body, f"another body: {where}"
    if expected.length is not None:
        assert answer.headers["content-length"] == str(expected.length), where
    may_close = expected.may_close or client.ending == "half-close"
    assert may_close or not answer.closes, f"the connection is closed: {where}"


def _check_late(client: Client, answers: list[Answer], calls: list[Call], stored: Stored) -> None:
    """Checks answers to requests that were not sent to their last byte: one refusal, the last."""
    if not answers:
        return
    assert len(answers) == 1, "a refusal is not the last answer"
    status = answers[0].status
    assert answers[0].closes, f"{status} to a part of a request, and the connection goes on"
    expected = calls[0].apply(dict(stored))
    refused = expected.may_close and status in expected.statuses
    if client.ending in ("finish", "deaf"):
        assert refused, f"{status} to a request that was being sent"
    assert refused or status in (400, 408), f"{status} to a part of a request"


class _NoRepositories:
    def open(self, name: str) -> Any:
        raise AssertionError(f"no repository is needed, not even {name}")


def walk(seed: int, rounds: int) -> None:
    """Runs one walk; raises AssertionError where the server and the dictionary differ."""

    async def run() -> None:
        one = Walk(seed)
        for _ in range(rounds):
            await one.round()

    asyncio.run(run())
