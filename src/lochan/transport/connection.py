"""One connection: requests that were read are served, one at a time, and answered in their order.

Parts of an answer are taken no faster than the client reads them. One clock of the server checks
the time of all connections: `deadline` is when this connection must have sent headers or another
request, and the progress of bodies is looked at with every tick.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from lochan.base.errors import Bug
from lochan.base.limits.http import (
    HTTP_CONNECTIONS_MAX,
    HTTP_JOINED_BYTES_MAX,
    HTTP_WRITE_BUFFER_HIGH,
    HTTP_WRITE_BUFFER_LOW,
)
from lochan.process import Descriptor
from lochan.transport.error_boundary import report_bug
from lochan.transport.exchange import Response
from lochan.transport.parts_writer import PartsWriter
from lochan.transport.problems import build_problem, plain_problem
from lochan.transport.progress import Progress, held_by_kernel
from lochan.transport.request_reader import CONTINUE, NEVER, Received, RequestReader

if TYPE_CHECKING:
    from lochan.transport.driver import RequestState
    from lochan.transport.listener import Listener

_NO_LINGER: Final = struct.pack("ii", 1, 0)


def origin_of(transport: asyncio.BaseTransport) -> str:
    """Returns the address of a client, without its port, or `unix`; `unknown` if it is gone.

    What a client writes about itself, as proxies do in `Forwarded`, is never used. The address of a
    client that has reset its connection cannot be read any more, though its request can.
    """
    peer = transport.get_extra_info("peername")
    if isinstance(peer, tuple) and peer:
        return str(peer[0])
    opened = transport.get_extra_info("socket")
    return "unix" if opened is not None and opened.family == socket.AF_UNIX else "unknown"


class Connection(RequestReader):
    """Speaks HTTP/1.1 with one client."""

    __slots__ = (
        "_cut_at",
        "_half_closed",
        "_may_write",
        "_pumping",
        "_state",
        "_writer",
        "_writing_progress",
    )

    def __init__(self, listener: Listener) -> None:
        super().__init__(listener)
        self._state: RequestState | None = None
        self._pumping = False
        self._may_write = True
        # The answer that is being written, if it has parts.
        self._writer: PartsWriter | None = None
        self._writing_progress: Progress | None = None
        self._half_closed = False
        self._cut_at = NEVER

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being read, served or written."""
        return not self._began and self._current is None and not self._received and self._may_write

    def descriptor(self) -> Descriptor | None:
        """Returns the descriptor of the connection, None if it is closing."""
        if self._transport.is_closing():
            return None
        return Descriptor(self._transport.get_extra_info("socket").fileno())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Is called by the loop once."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(HTTP_WRITE_BUFFER_HIGH, HTTP_WRITE_BUFFER_LOW)
        self._origin = origin_of(transport)
        registry = self._registry
        self.deadline = registry.now + registry.timeouts.header_s
        if len(registry.connections) >= HTTP_CONNECTIONS_MAX:
            self._refuse(503, "too many connections; try again later")
        registry.connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        """Is called by the loop once; a commit that still waits in its lane is cancelled."""
        self._ended = self._last = True
        self._registry.forget(self)
        self._hold(-self._held_bytes)
        for admission in list(self._admissions):
            self._release_body(admission)
        self._break_body()
        self._received.clear()
        if self._writer is not None:
            self._writer.cancel()
        if self._state is not None:
            self._state.cancel()
            self._state = None

    def eof_received(self) -> bool:
        """Is called when the client has sent its last, most likely because it is gone.

        So a commit that still waits is given up. What is past that point is answered: the client
        may have closed one direction only.
        """
        self._last = self._half_closed = True
        self._break_body()
        if self._state is not None and self._state.give_up():
            return False
        if self._writer is not None and self._writer.is_endless:
            return False
        return not self._ended and (self._current is not None or bool(self._received))

    def pause_writing(self) -> None:
        """Is called when the client reads more slowly than we write."""
        self._may_write = False
        self.deadline = NEVER
        registry = self._registry
        self._writing_progress = Progress(
            registry.timeouts.progress_s, registry.read_clock(), -self._untaken_bytes()
        )
        registry.watched.add(self)
        if self._writer is not None:
            self._writer.pause()

    def resume_writing(self) -> None:
        """Is called when the client has caught up."""
        self._may_write = True
        self._writing_progress = None
        if self._writer is not None:
            self._writer.resume()
        self._rest()
        self._pump()

    def check_progress(self) -> None:
        """Is called by the server's clock while a body is under way."""
        writing = self._writing_progress
        if writing is None:
            super().check_progress()
        elif writing.is_too_slow(self._registry.now, -self._untaken_bytes()):
            self.abort()

    def _untaken_bytes(self) -> int:
        """Returns how much of what was written the client has not taken, here and in the kernel."""
        held = held_by_kernel(self._transport.get_extra_info("socket"))
        return self._transport.get_write_buffer_size() + held

    def _pump(self) -> None:
        """Serves waiting requests in their order; a loop, so that many of them do not recurse."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._received and self._current is None and self._may_write and not self._ended:
                received = self._current = self._received.popleft()
                self.deadline = NEVER
                request, found = received.request, received.found
                if received.refusal is not None or request is None or found is None:
                    self._reply(received.refusal or build_problem(500, "nothing to serve", "BUG"))
                    continue
                state = self._registry.driver.run(request, received.framing, found, self._reply)
                # A request that is answered already need not be cancelled when the client leaves.
                self._state = state if self._current is received else None
        finally:
            self._pumping = False
        if self._received or not self._reading or self._stream is not None:
            self._throttle()

    def _reply(self, response: Response) -> None:
        """Writes the answer to the current request."""
        received = self._current
        if received is None or self._ended:
            if response.stream is not None:
                response.stream.closed()
            return
        self._current = self._state = None
        registry = self._registry
        self._release(received)
        keep_alive = received.keep_alive and not registry.stopping
        if self._half_closed and not self._received:
            keep_alive = False
        request, stream = received.request, response.stream
        if request is not None and request.stream is not None and not request.stream.is_complete:
            # What is left of the body is not worth reading.
            keep_alive = False
        if stream is not None and stream.length is None and not received.framing.takes_chunks:
            keep_alive = False
        request_id = registry.new_request_id() if request is None else request.id
        try:
            head = registry.heads.build(
                response,
                request_id,
                keep_alive=keep_alive,
                chunked=received.framing.takes_chunks,
            )
        except Bug as error:
            report_bug(error)
            if stream is not None:
                stream.closed()
                stream = None
            response = plain_problem(error, request_id)
            head = registry.heads.build(response, request_id, keep_alive=keep_alive)
        left = self._half_closed and stream is not None and stream.endless
        head_only = request is not None and request.method == "HEAD"
        if head_only or response.status in (204, 304) or left:
            self._transport.write(head)
            if stream is not None:
                stream.closed()
        elif stream is not None:
            self._transport.write(head)
            self._current = received
            self._writer = PartsWriter(
                self._transport,
                stream,
                chunked=received.framing.takes_chunks,
                done=partial(self._sent, keep_alive),
            )
            if not self._may_write:
                # The client has not read the answer before this one.
                self._writer.pause()
            return
        elif len(response.body) <= HTTP_JOINED_BYTES_MAX:
            self._transport.write(head + response.body)
        else:
            self._transport.writelines((head, response.body))
        self._replied(keep_alive)

    def _release(self, received: Received) -> None:
        """Gives back what was held for the body of a request."""
        if received.body_bytes:
            self._hold(-received.body_bytes)
        if received.admission is not None:
            self._release_body(received.admission)

    def _sent(self, keep_alive: bool, whole: bool) -> None:
        """Is called when an answer in parts has been written, or will never be whole."""
        self._writer = self._current = None
        if whole and not self._ended:
            self._replied(keep_alive and not self._registry.stopping)
        elif not whole:
            self.abort()

    def _replied(self, keep_alive: bool) -> None:
        """Goes on after an answer."""
        if not keep_alive:
            self._end()
            return
        self._rest()
        if self._owes_continue and not self._received and not self._admitting:
            self._owes_continue = False
            self._transport.write(CONTINUE)
        if self._received and not self._pumping:
            self._pump()

    def _rest(self) -> None:
        """Sets the time by which something has to happen, after an answer was written."""
        if self._ended or self._current is not None or not self._may_write:
            return
        registry = self._registry
        timeouts = registry.timeouts
        if not self._began:
            self.deadline = registry.now + timeouts.idle_s
        elif self._in_head:
            self.deadline = registry.now + timeouts.header_s

    # Ending.

    def _end(self) -> None:
        """Closes after the last answer; the client gets a moment to read it.

        Closing while unread data lies in the socket would make the kernel throw our answer away.
        """
        self._ended = self._last = True
        self._received.clear()
        if not self._reading:
            self._reading = True
            self._transport.resume_reading()
        self.deadline = self._registry.now + self._registry.timeouts.linger_s
        self._cut_at = self._registry.now + self._registry.timeouts.progress_s
        if self._transport.can_write_eof():
            # It raises if the client is gone; the loop reports that on its own.
            with suppress(OSError):
                self._transport.write_eof()
        else:
            self._transport.close()

    def time_out(self) -> None:
        """Is called by the server's clock when the deadline has passed."""
        if self._ended:
            self._stop_lingering()
        elif self._began:
            self._refuse(408, "the request took too long to arrive")
        elif self._current is None:
            if self._transport.get_write_buffer_size():
                self.abort()
            else:
                self.close()

    def _stop_lingering(self) -> None:
        """Closes for good; a client that still reads the last answer has the usual time for it."""
        if not self._transport.get_write_buffer_size():
            # What is left is in the kernel's hands, which goes on sending it.
            self._transport.close()
        elif self._registry.now < self._cut_at:
            self.deadline = self._registry.now + self._registry.timeouts.linger_s
        else:
            self.abort()

    def drain(self) -> None:
        """Closes now if nothing is under way; else the next answer is the last.

        An answer without an end is ended: its client connects to another server and goes on.
        """
        if self.is_idle:
            self.close()
        elif self._writer is not None and self._writer.is_endless:
            self._writer.cancel()

    def close(self) -> None:
        """Closes after what is written has left."""
        self._ended = self._last = True
        self._transport.close()

    def abort(self) -> None:
        """Cuts the connection; what the client has not read is thrown away, by the kernel too."""
        opened = self._transport.get_extra_info("socket")
        if opened is not None and not self._transport.is_closing():
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self._transport.abort()
