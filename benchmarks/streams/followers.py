"""Part `followers`: many clients follow one stream of events; each gets every message in order."""

from __future__ import annotations

import asyncio
from array import array
from time import perf_counter

from benchmarks.http_load.drive import quantile
from benchmarks.http_load.processes import Served
from benchmarks.http_load.usage import between, look, resident_mb
from benchmarks.measure import emit
from benchmarks.streams.client import head_of
from benchmarks.streams.transfers import peak_resident_mb

_GRACE_S = 120


class _Follower(asyncio.Protocol):
    """Counts the messages; a message that is missing, repeated or out of order is noted."""

    def __init__(self, messages: int, times: array[float]) -> None:
        loop = asyncio.get_running_loop()
        self.began = loop.create_future()
        self.ended = loop.create_future()
        self.got = 0
        self.wrong = 0
        self._messages = messages
        self._times = times
        self._rest = b""
        self._in_head = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._transport.write(head_of("GET", "/events"))

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        if self._in_head:
            head, found, data = data.partition(b"\r\n\r\n")
            if not found:
                self._rest = head
                return
            self._in_head = False
            self.began.set_result(head.startswith(b"HTTP/1.1 200"))
        at = 0
        # Each message is one chunk: its size, `data: NUMBER TIME`, an empty line.
        while (end := data.find(b"\n\n\r\n", at)) >= 0:
            self._take(data[at:end].partition(b"\r\ndata: ")[2])
            at = end + 4
        self._rest = data[at:]

    def _take(self, message: bytes) -> None:
        number, _, sent = message.partition(b" ")
        self._times.append(perf_counter() - float(sent))
        self.wrong += int(number) != self.got
        self.got += 1
        if self.got == self._messages and not self.ended.done():
            self.ended.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        for waiting in (self.began, self.ended):
            if not waiting.done():
                waiting.set_exception(exc or ConnectionError("the server hung up"))

    def close(self) -> None:
        self._transport.close()
        for waiting in (self.began, self.ended):
            waiting.cancel()


class _Publisher(asyncio.Protocol):
    """Publishes one message after the other."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._answered: asyncio.Future[bytes] | None = None

    def data_received(self, data: bytes) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(data)

    async def publish(self, message: bytes) -> None:
        self._answered = asyncio.get_running_loop().create_future()
        self._transport.write(
            head_of("POST", "/publish", f"Content-Length: {len(message)}") + message
        )
        answer = await asyncio.wait_for(self._answered, _GRACE_S)
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"a message was refused: {answer!r}")

    def close(self) -> None:
        self._transport.close()


async def measure(server: Served, followers: int, messages: int) -> None:
    """Connects all followers, publishes as fast as the server answers, and waits for the last."""
    loop = asyncio.get_running_loop()
    idle_mb = resident_mb([server.pid])
    times = array("d")
    _, publisher = await loop.create_connection(_Publisher, "127.0.0.1", server.port)
    everyone: list[_Follower] = []
    try:
        for _ in range(followers):
            _, one = await loop.create_connection(
                lambda: _Follower(messages, times), "127.0.0.1", server.port
            )
            everyone.append(one)
            await asyncio.wait_for(one.began, _GRACE_S)
        connected_mb = resident_mb([server.pid])
        first, began = look([server.pid]), perf_counter()
        for number in range(messages):
            await publisher.publish(b"%d %f" % (number, perf_counter()))
        published_s = perf_counter() - began
        await asyncio.wait_for(asyncio.gather(*(one.ended for one in everyone)), _GRACE_S)
        spent_s = perf_counter() - began
        cores = between(first, look([server.pid]))
    finally:
        publisher.close()
        for one in everyone:
            one.close()
    ordered = sorted(times)
    complete = sum(one.got == messages and not one.wrong for one in everyone)
    emit(
        "stream_followers",
        followers=followers,
        messages=messages,
        complete=complete,
        published_s=published_s,
        delivered_s=spent_s,
        deliveries_s=followers * messages / spent_s,
        delay_p50_ms=quantile(ordered, 0.5) * 1e3,
        delay_p99_ms=quantile(ordered, 0.99) * 1e3,
        server_cores=cores.server,
        generator_cores=cores.generator,
        idle_mb=idle_mb,
        connected_mb=connected_mb,
        max_mb=peak_resident_mb(server.pid),
        within_bar=complete == followers,
    )
