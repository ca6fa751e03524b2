"""Clients whose requests are written down as a generator: one after the other, with their answers.

A script yields the kind of a request and its bytes, and gets the body of the answer. It ends when
there is nothing more to do; a refusal does not end it, because what a row counts are the answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable, Sequence

from benchmarks.http_load.connection import Requests
from benchmarks.http_load.drive import Client, Measured, drive

Script = Generator[tuple[str, bytes], bytes, None]

# No preparation takes longer.
_PREPARATION_S = 1_800.0


class Refused(Exception):
    """The server refused a request of a preparation."""


class Scripted(Client):
    """A client that follows a script."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._answer: bytes | None = None

    def request(self) -> bytes | None:
        try:
            if self._answer is None:
                self.kind, request = next(self._script)
            else:
                self.kind, request = self._script.send(self._answer)
        except StopIteration:
            return None
        return request

    def settle(self, status: int, body: bytes) -> None:  # noqa: ARG002 - a row counts it
        self._answer = body


async def follow(requests: Requests, scripts: Sequence[Script]) -> Measured:
    """Follows scripts to their end, all at the same time; raises if a request was refused."""
    clients = [Scripted(script) for script in scripts]
    measured = await drive(requests, clients, seconds=_PREPARATION_S)
    if measured.errors or measured.conflicts:
        raise Refused(measured.sample or f"{measured.conflicts} conflicts")
    return measured


def share(items: Sequence[bytes], clients: int) -> list[Script]:
    """Returns scripts that send all of these requests, shared out among clients."""
    return [_send_all(items[client::clients]) for client in range(clients)]


def _send_all(items: Iterable[bytes]) -> Script:
    for item in items:
        yield "prepare", item


async def call(requests: Requests, request: bytes) -> bytes:
    """Sends one request and returns the body of its answer."""
    answers: asyncio.Queue[bytes] = asyncio.Queue()

    def script() -> Script:
        answers.put_nowait((yield "prepare", request))

    await follow(requests, [script()])
    return await answers.get()
