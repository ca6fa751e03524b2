"""One connection: bytes to requests, and responses to bytes, in the order of the requests.

The parser is llhttp through httptools; what it lets pass and we do not is refused by `hygiene`. One
request of a connection is served at a time. What was sent ahead waits, and nothing more is read
until its turn has come, so that a connection holds no more memory than one read and one body. A
streamed request is served as soon as its headers have come; its body is read no faster than its
handler takes it, and the parts of an answer are taken no faster than the client reads them.

One clock of the server checks the time of all connections: `deadline` is when this connection must
have sent headers or another request, and the progress of bodies is looked at with every tick.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import httptools
import msgspec

from lochan.base.errors import Bug, Invalid, TooLarge
from lochan.base.limits.http import (
    HTTP_BODIES_BYTES_MAX,
    HTTP_BODY_BYTES_MAX,
    HTTP_CONNECTIONS_MAX,
    HTTP_HEADER_BYTES_MAX,
    HTTP_HEADERS_MAX,
    HTTP_JOINED_BYTES_MAX,
    HTTP_TARGET_BYTES_MAX,
    HTTP_TRAILER_BYTES_MAX,
    HTTP_WRITE_BUFFER_HIGH,
    HTTP_WRITE_BUFFER_LOW,
)
from lochan.process import Descriptor
from lochan.transport.body_streams import BodyStream, ResponseStream
from lochan.transport.error_boundary import report_bug, report_failure
from lochan.transport.exchange import NO_HEADERS, Request, Response
from lochan.transport.hygiene import (
    METHODS,
    Framing,
    Refused,
    check_target,
)
from lochan.transport.problems import build_problem, plain_problem, reason_of
from lochan.transport.progress import Progress, held_by_kernel
from lochan.transport.routes import Match

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
        # Whether all that came with the last read belongs to the request that is being read.
        self._continues = False
        # Since the last byte of the body: chunk extensions, or trailers.
        self._silent_bytes = 0
        self._trailer_bytes = 0
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._framing = _EMPTY
        self._request: Request | None = None
        self._found: Found | None = None
        self._body: bytes | bytearray = b""
        self._body_bytes = 0
        self._body_bytes_max = HTTP_BODY_BYTES_MAX
        self._stream: BodyStream | None = None
        self._reading_progress: Progress | None = None
        # The answer that is being written, if it has parts.
        self._sender: asyncio.Task[None] | None = None
        self._sends_endless = False
        self._writing_progress: Progress | None = None
        self._resumed: asyncio.Future[None] | None = None
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
        self._transport.set_write_buffer_limits(HTTP_WRITE_BUFFER_HIGH, HTTP_WRITE_BUFFER_LOW)
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
        self._break_body()
        if self._sender is not None:
            self._sender.cancel()
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
        if self._sender is not None and self._sends_endless:
            return False
        return not self._ended and (self._current is not None or bool(self._received))

    def pause_writing(self) -> None:
        """Is called when the client reads more slowly than we write."""
        self._may_write = False
        self.deadline = _NEVER
        listener = self._listener
        self._writing_progress = Progress(
            listener.timeouts.progress_s, listener.read_clock(), -self._untaken_bytes()
        )
        listener.watched.add(self)

    def resume_writing(self) -> None:
        """Is called when the client has caught up."""
        self._may_write = True
        self._writing_progress = None
        if self._resumed is not None and not self._resumed.done():
            self._resumed.set_result(None)
        self._rest()
        self._pump()

    def data_received(self, data: bytes) -> None:
        """Is called by the loop with what came."""
        if self._last:
            return
        self._continues = self._began
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
        if self._began:
            if self._continues:
                self._raw_bytes += len(data)
                self._check_raw_bytes()
            if not self._in_head and self._reading_progress is None and not self._last:
                self._watch_body()

    def _watch_body(self) -> None:
        """Looks at the progress of a body from now on: its last byte has not come yet."""
        listener = self._listener
        self._reading_progress = Progress(
            listener.timeouts.progress_s, listener.read_clock(), self._body_bytes
        )
        listener.watched.add(self)
        if self._current is None:
            self.deadline = _NEVER

    def check_progress(self) -> None:
        """Is called by the server's clock while a body is under way."""
        now = self._listener.now
        writing, reading = self._writing_progress, self._reading_progress
        if writing is None and reading is None:
            self._listener.watched.discard(self)
        if writing is not None:
            if writing.is_too_slow(now, -self._untaken_bytes()):
                self.abort()
        elif reading is not None:
            if not self._reading:
                reading.restart(now, self._body_bytes)
            elif reading.is_too_slow(now, self._body_bytes):
                self._refuse(408, "the request took too long to arrive")

    def _untaken_bytes(self) -> int:
        """Returns how much of what was written the client has not taken, here and in the kernel."""
        held = held_by_kernel(self._transport.get_extra_info("socket"))
        return self._transport.get_write_buffer_size() + held

    def _check_raw_bytes(self) -> None:
        """Bounds what the parser swallows silently: a long header, tiny chunks, trailers."""
        if not self._in_head:
            if self._raw_bytes > 2 * self._body_bytes_max:
                self._refuse(413, f"the body is longer than {self._body_bytes_max} bytes")
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
        self._continues = False
        self._raw_bytes = self._silent_bytes = self._trailer_bytes = 0
        self._target = b""
        self._headers = []
        self._request = self._found = self._stream = None
        self._body = b""
        self._body_bytes = 0
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
        found = self._found = listener.app.find(request)
        streams = False
        bytes_max = HTTP_BODY_BYTES_MAX
        if isinstance(found.match, Match):
            streams, bytes_max = found.match.route.streams, found.match.route.body_bytes_max
        self._body_bytes_max = bytes_max
        if framing.length > bytes_max:
            raise Refused(413, f"the body is longer than {bytes_max} bytes")
        if streams:
            self._owes_continue = framing.expects_continue
            request.stream = self._stream = BodyStream(self._want_body)
            if not framing.has_body:
                # It may be refused at once, which is no reason to end the connection.
                self._stream.complete()
            keep_alive = parser.should_keep_alive()
            self._received.append(_Received(request, framing, found, keep_alive))
            self._pump()
        elif framing.has_body and framing.expects_continue:
            if self._current is None and not self._received:
                self._transport.write(_CONTINUE)
            else:
                self._owes_continue = True

    def _want_body(self) -> None:
        """Is called when the handler of a streamed request waits for more of its body.

        It may still read the buffer while the next request, which is owed a 100, has come.
        """
        is_served = self._current is not None and self._current.request is self._request
        if self._owes_continue and is_served and not self._body_bytes and not self._ended:
            self._owes_continue = False
            self._transport.write(_CONTINUE)
        self._throttle()

    def _break_body(self) -> None:
        """Notes that the body that is being read will never be whole."""
        broken = Invalid("the connection ended before the last byte of the body")
        for each in (self._stream, *[one.request.stream for one in self._received if one.request]):
            if each is not None:
                each.fail(broken)

    def on_body(self, part: bytes) -> None:
        """Is called by the parser with pieces of the body; each gives the client more time."""
        self._silent_bytes = 0
        self._body_bytes += len(part)
        if self._stream is not None:
            self._feed_stream(self._stream, part)
            return
        if not self._body:
            self._body = part
        else:
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += part
        self._held_bytes += len(part)
        self._listener.held_bytes += len(part)
        if len(self._body) > self._body_bytes_max:
            raise Refused(413, f"the body is longer than {self._body_bytes_max} bytes")
        if self._listener.held_bytes > HTTP_BODIES_BYTES_MAX:
            raise Refused(503, "too many bodies are being read; try again later")

    def _feed_stream(self, stream: BodyStream, part: bytes) -> None:
        if self._body_bytes > self._body_bytes_max:
            raise Refused(413, f"the body is longer than {self._body_bytes_max} bytes")
        # What comes after the answer is dropped: the connection ends with it.
        if not self._ended:
            stream.feed(part)
            self._throttle()

    def on_message_complete(self) -> None:
        """Is called by the parser after the last byte of a request."""
        if self._in_head:
            # Still set by a request with an upgrade header, which is parsed again without it.
            return
        self._began = False
        self._reading_progress = None
        if self._stream is not None:
            self._last = not self._parser.should_keep_alive()
            self._owes_continue = False
            self._stream.complete()
            self._stream = None
            self._throttle()
            return
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
        """Stops reading while requests wait for their turn, or a handler for its body's room."""
        if self._ended:
            return
        reads = not self._received and (self._stream is None or not self._stream.is_full)
        if reads is not self._reading:
            self._reading = reads
            if reads:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

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
        request, stream = received.request, response.stream
        if request is not None and request.stream is not None and not request.stream.is_complete:
            # What is left of the body is not worth reading.
            keep_alive = False
        if stream is not None and stream.length is None and not received.framing.takes_chunks:
            keep_alive = False
        request_id = (
            received.request.id if received.request is not None else listener.new_request_id()
        )
        try:
            head = listener.heads.build(
                response,
                request_id,
                keep_alive=keep_alive,
                chunked=received.framing.takes_chunks,
            )
        except Bug as error:
            report_bug(error)
            response = plain_problem(error, request_id)
            head = listener.heads.build(response, request_id, keep_alive=keep_alive)
        left = self._half_closed and stream is not None and stream.endless
        if received.head_only or response.status in (204, 304) or left:
            self._transport.write(head)
            if stream is not None:
                stream.closed()
        elif response.stream is not None:
            self._transport.write(head)
            self._current = received
            self._sends_endless = response.stream.endless
            sending = self._send_parts(response.stream, received.framing.takes_chunks, keep_alive)
            self._sender = asyncio.get_running_loop().create_task(sending)
            self._sender.add_done_callback(partial(self._sent_parts, response.stream))
            return
        elif len(response.body) <= HTTP_JOINED_BYTES_MAX:
            self._transport.write(head + response.body)
        else:
            self._transport.writelines((head, response.body))
        self._replied(keep_alive)

    async def _send_parts(self, stream: ResponseStream, chunks: bool, keep_alive: bool) -> None:
        """Writes the parts of an answer; one that fails is cut, so that it does not look whole."""
        chunked = chunks and stream.length is None
        sent = 0
        try:
            async for part in stream.parts:
                sent += len(part)
                if stream.length is not None and sent > stream.length:
                    raise Bug("an answer has more bytes than it has announced")
                if part:
                    self._write_part(part, chunked=chunked)
                    await self._writable()
            if stream.length is not None and sent < stream.length:
                raise Bug("an answer has fewer bytes than it has announced")
        except asyncio.CancelledError:
            if self._ended or not stream.endless:
                self.abort()
                return
            keep_alive = False
        except Exception as error:
            report_failure(error)
            self.abort()
            return
        finally:
            self._sender = None
        if chunked:
            self._transport.write(b"0\r\n\r\n")
        self._current = None
        self._replied(keep_alive)

    def _sent_parts(self, stream: ResponseStream, sender: asyncio.Task[None]) -> None:
        """Is called when an answer in parts has ended, maybe before its first part was sent."""
        stream.closed()
        if sender.cancelled() and not self._ended:
            self.abort()

    def _write_part(self, part: bytes, *, chunked: bool) -> None:
        if chunked:
            self._transport.writelines((b"%x\r\n" % len(part), part, b"\r\n"))
        else:
            self._transport.write(part)

    async def _writable(self) -> None:
        """Returns when the client has read enough of what was written."""
        while not self._may_write and not self._ended:
            self._resumed = asyncio.get_running_loop().create_future()
            await self._resumed

    def _replied(self, keep_alive: bool) -> None:
        """Goes on after an answer."""
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

    # Ending.

    def _refuse(self, status: int, message: str) -> None:
        """Answers the requests before, then states why nothing more is read, and closes."""
        self._last = True
        self._began = False
        self._reading_progress = None
        self._hold(-len(self._body))
        self._body = b""
        if self._stream is not None:
            # Its handler gets the error and answers; the connection ends after that.
            self._stream.fail(TooLarge(message) if status == 413 else Invalid(message))
            self._stream = None
            return
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
        self._cut_at = self._listener.now + self._listener.timeouts.progress_s
        if self._transport.can_write_eof():
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
        elif self._listener.now < self._cut_at:
            self.deadline = self._listener.now + self._listener.timeouts.linger_s
        else:
            self.abort()

    def drain(self) -> None:
        """Closes now if nothing is under way; else the next answer is the last.

        An answer without an end is ended: its client connects to another server and goes on.
        """
        if self.is_idle:
            self.close()
        elif self._sender is not None and self._sends_endless:
            self._sender.cancel()

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
