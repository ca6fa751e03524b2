"""Reads requests from one connection: bytes to requests, in the order in which they came.

The parser is llhttp through httptools; what it lets pass and we do not is refused by `hygiene`. A
request waits here until the one before it is answered, and nothing more is read meanwhile, so that
a connection holds no more memory than one read and one body. A streamed request is served as soon
as its headers have come, and its body is read no faster than its handler takes it. Of any other
body no more than one read is held before it is known who sends it, and nothing if it is refused.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, Final, cast

import httptools
import msgspec

from lochan.base.errors import Invalid, LochanError, TooLarge
from lochan.base.limits.http import (
    HTTP_BODIES_BYTES_MAX,
    HTTP_BODY_BYTES_MAX,
    HTTP_HEADER_BYTES_MAX,
    HTTP_HEADERS_MAX,
    HTTP_TARGET_BYTES_MAX,
    HTTP_TRAILER_BYTES_MAX,
)
from lochan.base.limits.quotas import OPEN_BODY_BYTES_MAX
from lochan.transport.admission import BodyAdmission
from lochan.transport.body_streams import BodyStream
from lochan.transport.error_answers import answer_error
from lochan.transport.error_boundary import report_failure
from lochan.transport.exchange import NO_HEADERS, Request, Response
from lochan.transport.hygiene import (
    METHODS,
    Framing,
    Refused,
    check_encoding,
    check_target,
    without_upgrade,
)
from lochan.transport.problems import build_problem, reason_of
from lochan.transport.progress import Progress
from lochan.transport.routes import Found, Match

if TYPE_CHECKING:
    from lochan.transport.listener import Listener

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
NEVER: Final = float("inf")
_EMPTY: Final = Framing(NO_HEADERS)


class Received(msgspec.Struct):
    """A complete request that waits to be served; a refusal ends the connection."""

    request: Request | None
    framing: Framing
    found: Found | None
    keep_alive: bool
    body_bytes: int = 0
    refusal: Response | None = None
    admission: BodyAdmission | None = None
    """What was taken for the body, of the share of its caller."""


class RequestReader(asyncio.Protocol, ABC):
    """The reading half of a connection."""

    # Slots, because objects with more than 30 attributes are slower without.
    __slots__ = (
        "_admission",
        "_admissions",
        "_admitting",
        "_app",
        "_began",
        "_body",
        "_body_bytes",
        "_body_bytes_max",
        "_continues",
        "_current",
        "_drops_body",
        "_ended",
        "_found",
        "_framing",
        "_header_checks",
        "_headers",
        "_held_bytes",
        "_in_head",
        "_kept",
        "_last",
        "_origin",
        "_owes_continue",
        "_parser",
        "_raw_bytes",
        "_reading",
        "_reading_progress",
        "_received",
        "_registry",
        "_request",
        "_silent_bytes",
        "_stream",
        "_target",
        "_trailer_bytes",
        "_transport",
        "deadline",
    )

    def __init__(self, listener: Listener) -> None:
        self._registry = listener.registry
        self._app = listener.app
        self._header_checks = listener.header_checks
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._parser = httptools.HttpRequestParser(self)
        self._received: deque[Received] = deque()
        self._current: Received | None = None
        self._reading = True
        # `_began` is true from the first byte of a request to its last.
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
        # Of the body that is being read; and all that are not released yet.
        self._admission: BodyAdmission | None = None
        self._admissions: list[BodyAdmission] = []
        self._admitting = False
        # The request is refused, so its body is counted and not kept.
        self._drops_body = False
        self._origin = ""
        self._kept: dict[Any, Any] = {}
        self._reading_progress: Progress | None = None
        self._owes_continue = False
        # What the client sends after the last request is ignored.
        self._last = False
        self._ended = False
        self.deadline = NEVER
        # Bytes of bodies that are kept for this connection, part of what the server may keep.
        self._held_bytes = 0

    @abstractmethod
    def _pump(self) -> None:
        """Serves the requests that have come."""

    def data_received(self, data: bytes) -> None:
        """Is called by the loop with what came."""
        if self._last:
            return
        self._continues = self._began
        self._silent_bytes += len(data)
        try:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                self._stay(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            cause = error.__context__
            if isinstance(cause, Refused):
                self._refuse(cause.status, cause.message)
            elif isinstance(cause, Exception):
                self._refuse(500, report_failure(cause).public_message)
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
        registry = self._registry
        self._reading_progress = Progress(
            registry.timeouts.progress_s, registry.read_clock(), self._body_bytes
        )
        registry.watched.add(self)
        if self._current is None:
            self.deadline = NEVER
        if self._stream is None:
            self._admit_body()

    def _admit_body(self) -> None:
        """Stops reading until it is known that this body may be read.

        A client that waits for a 100 gets it after that, and a refused one never.
        """
        request, found = self._request, self._found
        if request is None or found is None:
            return
        match = found.match
        if isinstance(match, Response):
            if self._owes_continue:
                self._refuse_body(match)
            return
        byte_count = self._framing.length or self._body_bytes_max
        context = self._registry.driver.context
        admission = BodyAdmission(context, request, found, match, byte_count)
        self._admission = admission
        self._admissions.append(admission)
        self._admitting = True
        admission.start(self._body_decided)
        if self._admitting:
            self._throttle()

    def _body_decided(self, failure: LochanError | None) -> None:
        """Reads on, or answers without the rest of the body; never after the end."""
        self._admitting = False
        if self._last or self._request is None or self._found is None:
            return
        if failure is not None:
            face, request = self._found.face, self._request
            self._refuse_body(answer_error(face, request, failure, "server"))
            return
        if self._owes_continue and self._current is None and not self._received:
            self._owes_continue = False
            self._transport.write(CONTINUE)
        self._throttle()

    def _refuse_body(self, response: Response) -> None:
        """Answers in the turn of the request, and closes: its body is not read."""
        self._stop_reading_body()
        request, found = self._request, self._found
        if request is not None and found is not None:
            refused = Found(found.face, response)
            self._received.append(Received(request, self._framing, refused, False))
        self._pump()

    def _stop_reading_body(self) -> None:
        self._last = True
        self._began = self._owes_continue = False
        self._reading_progress = None
        self._hold(-len(self._body))
        self._body = b""
        self._release_body(self._admission)

    def _release_body(self, admission: BodyAdmission | None) -> None:
        """Gives back what a body had of the share of its caller."""
        self._admitting = self._admitting and admission is not self._admission
        if admission is not None and admission in self._admissions:
            self._admissions.remove(admission)
            admission.release()

    def check_progress(self) -> None:
        """Is called by the server's clock while a body is under way."""
        now, reading = self._registry.now, self._reading_progress
        if reading is None:
            self._registry.watched.discard(self)
        elif not self._reading:
            reading.restart(now, self._body_bytes)
        elif reading.is_too_slow(now, self._body_bytes):
            self._refuse(408, "the request took too long to arrive")

    def _check_raw_bytes(self) -> None:
        """Bounds what the parser swallows silently: a long header, tiny chunks, trailers."""
        if not self._in_head:
            if self._raw_bytes > 2 * self._body_bytes_max:
                self._refuse(413, f"the body is longer than {self._body_bytes_max} bytes")
            elif self._silent_bytes > HTTP_TRAILER_BYTES_MAX:
                self._refuse(431, f"trailers are longer than {HTTP_TRAILER_BYTES_MAX} bytes")
        elif self._raw_bytes > HTTP_HEADER_BYTES_MAX + HTTP_TARGET_BYTES_MAX:
            self._refuse(431, f"the headers are longer than {HTTP_HEADER_BYTES_MAX} bytes")

    def _stay(self, rest: bytes) -> None:
        """Stays with HTTP/1.1 when the client offers another protocol.

        The same request is parsed again without its upgrade headers, because the parser takes its
        body for the other protocol. A loop, so that many such requests do not recurse.
        """
        while True:
            head = without_upgrade(self._parser.get_method(), self._target, self._headers)
            self._parser = httptools.HttpRequestParser(self)
            self._began = False
            data = head + rest
            try:
                self._parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                rest = data[upgrade.args[0] :]

    def _hold(self, count: int) -> None:
        self._held_bytes += count
        self._registry.held_bytes += count

    # What the parser calls, in this order.

    def on_message_begin(self) -> None:
        """Is called by the parser at the first byte of a request."""
        self._began = self._in_head = True
        self._continues = False
        self._raw_bytes = self._silent_bytes = self._trailer_bytes = 0
        self._target = b""
        self._headers = []
        self._request = self._found = self._stream = self._admission = None
        self._drops_body = False
        self._body = b""
        self._body_bytes = 0
        registry = self._registry
        if self._current is None:
            self.deadline = registry.now + registry.timeouts.header_s

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
        registry = self._registry
        headers, self._headers = self._headers, []
        framing = self._framing = self._header_checks.check(headers, version)
        request = self._request = Request(
            parser.get_method().decode("ascii"),
            path,
            query,
            framing.headers,
            request_id=framing.request_id.decode("ascii") or registry.new_request_id(),
        )
        request.origin = self._origin
        request.kept = self._kept
        found = self._found = self._app.find(request)
        streams = False
        bytes_max = HTTP_BODY_BYTES_MAX
        if isinstance(found.match, Match):
            route = found.match.route
            streams, bytes_max = route.streams, route.body_bytes_max
            if route.is_open:
                bytes_max = min(bytes_max, OPEN_BODY_BYTES_MAX)
            if not streams:
                bytes_max = min(bytes_max, registry.request_bytes_max)
        else:
            self._drops_body = True
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
            self._received.append(Received(request, framing, found, keep_alive))
            self._pump()
            return
        if framing.content_encoding:
            check_encoding(framing.content_encoding)
        self._owes_continue = framing.has_body and framing.expects_continue

    def on_body(self, part: bytes) -> None:
        """Is called by the parser with pieces of the body; each gives the client more time."""
        self._silent_bytes = 0
        self._body_bytes += len(part)
        if self._stream is not None:
            self._feed_stream(self._stream, part)
            return
        if self._drops_body:
            if self._body_bytes > self._body_bytes_max:
                raise Refused(413, f"the body is longer than {self._body_bytes_max} bytes")
            return
        if not self._body:
            self._body = part
        else:
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += part
        self._held_bytes += len(part)
        self._registry.held_bytes += len(part)
        if len(self._body) > self._body_bytes_max:
            raise Refused(413, f"the body is longer than {self._body_bytes_max} bytes")
        if self._registry.held_bytes > HTTP_BODIES_BYTES_MAX:
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
        received = Received(request, self._framing, self._found, keep_alive, body_bytes)
        received.admission = self._admission
        self._received.append(received)
        self._pump()

    def _want_body(self) -> None:
        """Is called when the handler of a streamed request waits for more of its body.

        It may still read the buffer while the next request, which is owed a 100, has come.
        """
        is_served = self._current is not None and self._current.request is self._request
        if self._owes_continue and is_served and not self._body_bytes and not self._ended:
            self._owes_continue = False
            self._transport.write(CONTINUE)
        self._throttle()

    def _throttle(self) -> None:
        """Stops reading while requests wait, a body may not come yet, or a handler has enough."""
        if self._ended:
            return
        reads = not self._received and not self._admitting
        reads = reads and (self._stream is None or not self._stream.is_full)
        if reads is not self._reading:
            self._reading = reads
            if reads:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _break_body(self) -> None:
        """Notes that the body that is being read will never be whole."""
        broken = Invalid("the connection ended before the last byte of the body")
        for each in (self._stream, *[one.request.stream for one in self._received if one.request]):
            if each is not None:
                each.fail(broken)

    def _refuse(self, status: int, message: str) -> None:
        """Answers the requests before, then states why nothing more is read, and closes."""
        self._stop_reading_body()
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
        self._received.append(Received(request, _EMPTY, None, False, refusal=problem))
        self._pump()
