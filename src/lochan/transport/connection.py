"""One connection: bytes to requests, and responses to bytes, in the order of the requests.

The parser is llhttp through httptools; what it lets pass and we do not is refused by `hygiene`. One
request of a connection is served at a time. What was sent ahead waits, and nothing more is read
until its turn has come, so that a connection holds no more memory than one read and one body.

One clock of the server checks the time of all connections: `deadline` is when this connection must
have made progress.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

import httptools
import msgspec

from lochan.base.errors import Bug
from lochan.base.limits.http import (
    HTTP_BODIES_BYTES_MAX,
    HTTP_BODY_BYTES_MAX,
    HTTP_CONNECTIONS_MAX,
    HTTP_HEADER_BYTES_MAX,
    HTTP_HEADERS_MAX,
    HTTP_JOINED_BYTES_MAX,
    HTTP_TARGET_BYTES_MAX,
    HTTP_TRAILER_BYTES_MAX,
)
from lochan.process import Descriptor
from lochan.transport.error_boundary import report_bug
from lochan.transport.exchange import NO_HEADERS, Request, Response
from lochan.transport.hygiene import (
    METHODS,
    Framing,
    Refused,
    check_target,
)
from lochan.transport.problems import build_problem, plain_problem, reason_of

if TYPE_CHECKING:
    from lochan.transport.driver import RequestState
    from lochan.transport.listener import Listener
    from lochan.transport.routes import Found

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_NO_LINGER: Final = struct.pack("ii", 1, 0)
_NEVER: Final = float("inf")
_EMPTY: Final = Framing(NO_HEADERS)


class _Received(msgspec.Struct):
    """A complete request that waits to be served; a refusal ends the connection."""

    request: Request | None
    framing: Framing
    found: Found | None
    keep_alive: bool
    body_bytes: int = 0
    refusal: Response | None = None

    @property
    def head_only(self) -> bool:
        """Whether the client wants no body."""
        return self.request is not None and self.request.method == "HEAD"


class Connection(asyncio.Protocol):
    """Speaks HTTP/1.1 with one client."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._parser = httptools.HttpRequestParser(self)
        self._received: deque[_Received] = deque()
        self._current: _Received | None = None
        self._state: RequestState | None = None
        self._pumping = False
        self._may_write = True
        self._reading = True
        # What is being read. `_began` is true from the first byte of a request to its last.
        self._began = False
        self._in_head = True
        self._raw_bytes = 0
        # Since the last byte of the body: chunk extensions, or trailers.
        self._silent_bytes = 0
        self._trailer_bytes = 0
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._framing = _EMPTY
        self._request: Request | None = None
        self._found: Found | None = None
        self._body: bytes | bytearray = b""
        self._owes_continue = False
        # What the client sends after the last request is ignored.
        self._last = False
        self._half_closed = False
        self._ended = False
        self._cut_at = _NEVER
        self.deadline = _NEVER
        # Bytes of bodies that are kept for this connection, part of what the server may keep.
        self._held_bytes = 0

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
        listener = self._listener
        self.deadline = listener.now + listener.timeouts.header_s
        if len(listener.connections) >= HTTP_CONNECTIONS_MAX:
            self._refuse(503, "too many connections; try again later")
        listener.connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        """Is called by the loop once; a commit that still waits in its lane is cancelled."""
        self._ended = self._last = True
        self._listener.forget(self)
        self._hold(-self._held_bytes)
        self._received.clear()
        if self._state is not None:
            self._state.cancel()
            self._state = None

    def eof_received(self) -> bool:
        """Is called when the client has sent its last, most likely because it is gone.

        So a commit that still waits is given up. What is past that point is answered: the client
        may have closed one direction only.
        """
        self._last = self._half_closed = True
        if self._state is not None and self._state.give_up():
            return False
        return not self._ended and (self._current is not None or bool(self._received))

    def pause_writing(self) -> None:
        """Is called when the client reads more slowly than we write."""
        self._may_write = False
        self.deadline = self._listener.now + self._listener.timeouts.write_s

    def resume_writing(self) -> None:
        """Is called when the client has caught up."""
        self._may_write = True
        self._rest()
        self._pump()

    def data_received(self, data: bytes) -> None:
        """Is called by the loop with what came."""
        if self._last:
            return
        counted = self._began
        self._silent_bytes += len(data)
        try:
            self._feed(data)
        except httptools.HttpParserError as error:
            cause = error.__context__
            if isinstance(cause, Refused):
                self._refuse(cause.status, cause.message)
            elif not self._last:
                self._refuse(400, "this is not a request of HTTP/1.1")
            return
        if counted and self._began:
            self._raw_bytes += len(data)
            self._check_raw_bytes()

    def _check_raw_bytes(self) -> None:
        """Bounds what the parser swallows silently: a long header, tiny chunks, trailers."""
        if not self._in_head:
            if self._raw_bytes > 2 * HTTP_BODY_BYTES_MAX:
                self._refuse(413, f"the body is longer than {HTTP_BODY_BYTES_MAX} bytes")
            elif self._silent_bytes > HTTP_TRAILER_BYTES_MAX:
                self._refuse(431, f"trailers are longer than {HTTP_TRAILER_BYTES_MAX} bytes")
        elif self._raw_bytes > HTTP_HEADER_BYTES_MAX + HTTP_TARGET_BYTES_MAX:
            self._refuse(431, f"the headers are longer than {HTTP_HEADER_BYTES_MAX} bytes")

    def _feed(self, data: bytes) -> None:
        while True:
            try:
                self._parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                # We stay with HTTP/1.1, as the protocol allows: the same request is parsed again
                # without its upgrade headers, as the parser takes its body for another protocol.
                head = _without_upgrade(self._parser.get_method(), self._target, self._headers)
                self._parser = httptools.HttpRequestParser(self)
                self._began = False
                data = head + data[upgrade.args[0] :]

    def _hold(self, count: int) -> None:
        self._held_bytes += count
        self._listener.held_bytes += count

    # What the parser calls, in this order.

    def on_message_begin(self) -> None:
        """Is called by the parser at the first byte of a request."""
        self._began = self._in_head = True
        self._raw_bytes = self._silent_bytes = self._trailer_bytes = 0
        self._target = b""
        self._headers = []
        self._request = self._found = None
        self._body = b""
        listener = self._listener
        if self._current is None:
            self.deadline = listener.now + listener.timeouts.header_s

    def on_url(self, part: bytes) -> None:
        """Is called by the parser with pieces of the address."""
        self._target += part
        if len(self._target) > HTTP_TARGET_BYTES_MAX:
            raise Refused(414, f"the address is longer than {HTTP_TARGET_BYTES_MAX} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Is called by the parser with each header; trailers are counted and ignored."""
        if len(self._headers) >= HTTP_HEADERS_MAX:
            raise Refused(431, f"there are more than {HTTP_HEADERS_MAX} headers")
        if not self._in_head:
            self._trailer_bytes += len(name) + len(value)
            if self._trailer_bytes > HTTP_TRAILER_BYTES_MAX:
                raise Refused(431, f"trailers are longer than {HTTP_TRAILER_BYTES_MAX} bytes")
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Is called by the parser before the body."""
        parser = self._parser
        if parser.should_upgrade() and parser.get_method() != b"CONNECT":
            return
        self._in_head = False
        if parser.get_method() not in METHODS:
            raise Refused(501, "this method is not served")
        version = parser.get_http_version()
        if version not in ("1.1", "1.0"):
            raise Refused(505, "this server speaks HTTP/1.1")
        path, query = check_target(self._target)
        listener = self._listener
        headers, self._headers = self._headers, []
        framing = self._framing = listener.header_checks.check(headers, version)
        request = self._request = Request(
            parser.get_method().decode("ascii"),
            path,
            query,
            framing.headers,
            request_id=framing.request_id.decode("ascii") or listener.new_request_id(),
        )
        self._found = listener.app.find(request)
        if framing.has_body:
            if self._current is None:
                self.deadline = listener.now + listener.timeouts.body_s
            if framing.expects_continue:
                if self._current is None and not self._received:
                    self._transport.write(_CONTINUE)
                else:
                    self._owes_continue = True

    def on_body(self, part: bytes) -> None:
        """Is called by the parser with pieces of the body; each gives the client more time."""
        self._silent_bytes = 0
        if self._current is None:
            self.deadline = self._listener.now + self._listener.timeouts.body_s
        if not self._body:
            self._body = part
        else:
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += part
        self._held_bytes += len(part)
        self._listener.held_bytes += len(part)
        if len(self._body) > HTTP_BODY_BYTES_MAX:
            raise Refused(413, f"the body is longer than {HTTP_BODY_BYTES_MAX} bytes")
        if self._listener.held_bytes > HTTP_BODIES_BYTES_MAX:
            raise Refused(503, "too many bodies are being read; try again later")

    def on_message_complete(self) -> None:
        """Is called by the parser after the last byte of a request."""
        if self._in_head:
            # Still set by a request with an upgrade header, which is parsed again without it.
            return
        self._began = False
        if self._ended:
            # The last answer is written; requests that were sent ahead with it are dropped.
            self._hold(-len(self._body))
            self._body = b""
            return
        # The body has come, so the client does not wait for a 100 any more.
        self._owes_continue = False
        keep_alive = self._parser.should_keep_alive()
        request = self._request
        if request is not None:
            request.body = bytes(self._body)
        body_bytes = len(self._body)
        self._body = b""
        self._last = not keep_alive
        self._received.append(
            _Received(request, self._framing, self._found, keep_alive, body_bytes)
        )
        self._pump()

    # Serving.

    def _pump(self) -> None:
        """Serves waiting requests in their order; a loop, so that many of them do not recurse."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._received and self._current is None and self._may_write and not self._ended:
                received = self._current = self._received.popleft()
                self.deadline = _NEVER
                request, found = received.request, received.found
                if received.refusal is not None or request is None or found is None:
                    self._reply(received.refusal or build_problem(500, "nothing to serve", "BUG"))
                    continue
                state = self._listener.driver.run(request, received.framing, found, self._reply)
                # A request that is answered already need not be cancelled when the client leaves.
                self._state = state if self._current is received else None
        finally:
            self._pumping = False
        self._throttle()

    def _throttle(self) -> None:
        """Stops reading while requests wait for their turn."""
        if self._ended:
            return
        if self._received and self._reading:
            self._reading = False
            self._transport.pause_reading()
        elif not self._received and not self._reading:
            self._reading = True
            self._transport.resume_reading()

    def _reply(self, response: Response) -> None:
        """Writes the answer to the current request."""
        received = self._current
        if received is None or self._ended:
            return
        self._current = self._state = None
        listener = self._listener
        self._hold(-received.body_bytes)
        keep_alive = received.keep_alive and not listener.stopping
        if self._half_closed and not self._received:
            keep_alive = False
        request_id = (
            received.request.id if received.request is not None else listener.new_request_id()
        )
        try:
            head = listener.heads.build(response, request_id, keep_alive=keep_alive)
        except Bug as error:
            report_bug(error)
            response = plain_problem(error, request_id)
            head = listener.heads.build(response, request_id, keep_alive=keep_alive)
        if received.head_only or response.status in (204, 304):
            self._transport.write(head)
        elif len(response.body) <= HTTP_JOINED_BYTES_MAX:
            self._transport.write(head + response.body)
        else:
            self._transport.writelines((head, response.body))
        if not keep_alive:
            self._end()
            return
        self._rest()
        if self._owes_continue and not self._received:
            self._owes_continue = False
            self._transport.write(_CONTINUE)
        if self._received and not self._pumping:
            self._pump()

    def _rest(self) -> None:
        """Sets the time by which something has to happen, after an answer was written."""
        if self._ended or self._current is not None or not self._may_write:
            return
        listener = self._listener
        timeouts = listener.timeouts
        if not self._began:
            self.deadline = listener.now + timeouts.idle_s
        elif self._in_head:
            self.deadline = listener.now + timeouts.header_s
        else:
            self.deadline = listener.now + timeouts.body_s

    # Ending.

    def _refuse(self, status: int, message: str) -> None:
        """Answers the requests before, then states why nothing more is read, and closes."""
        self._last = True
        self._began = False
        self._hold(-len(self._body))
        self._body = b""
        request, found = self._request, self._found
        if request is not None and found is not None:
            problem = found.face.refuse(request, status, message)
        else:
            problem = build_problem(status, message, reason_of(status).upper().replace(" ", "_"))
        self._received.append(_Received(request, _EMPTY, None, False, refusal=problem))
        self._pump()

    def _end(self) -> None:
        """Closes after the last answer; the client gets a moment to read it.

        Closing while unread data lies in the socket would make the kernel throw our answer away.
        """
        self._ended = self._last = True
        self._received.clear()
        if not self._reading:
            self._reading = True
            self._transport.resume_reading()
        self.deadline = self._listener.now + self._listener.timeouts.linger_s
        self._cut_at = self._listener.now + self._listener.timeouts.write_s
        if self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()

    def time_out(self) -> None:
        """Is called by the server's clock when the deadline has passed."""
        if self._ended:
            self._stop_lingering()
        elif not self._may_write:
            self.abort()
        elif self._began:
            self._refuse(408, "the request took too long to arrive")
        elif self._current is None:
            self.close()

    def _stop_lingering(self) -> None:
        """Closes for good; a client that still reads the last answer has the usual time for it."""
        if not self._transport.get_write_buffer_size():
            # What is left is in the kernel's hands, which goes on sending it.
            self._transport.close()
        elif self._listener.now < self._cut_at:
            self.deadline = self._listener.now + self._listener.timeouts.linger_s
        else:
            self.abort()

    def drain(self) -> None:
        """Closes now if nothing is under way; else the next answer is the last."""
        if self.is_idle:
            self.close()

    def close(self) -> None:
        """Closes after what is written has left."""
        self._ended = self._last = True
        self._transport.close()

    def abort(self) -> None:
        """Cuts the connection; what the client has not read is thrown away, by the kernel too."""
        opened = self._transport.get_extra_info("socket")
        if opened is not None:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self._transport.abort()


def _without_upgrade(method: bytes, target: bytes, headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Writes the head of a request again, without its upgrade headers."""
    lines = [method + b" " + target + b" HTTP/1.1"]
    for name, value in headers:
        if name not in (b"upgrade", b"http2-settings"):
            if name == b"connection":
                kept = [word.strip() for word in value.lower().split(b",")]
                value = b", ".join(w for w in kept if w not in (b"upgrade", b"http2-settings"))
                if not value:
                    continue
            lines.append(name + b": " + value)
    return b"\r\n".join(lines) + b"\r\n\r\n"
