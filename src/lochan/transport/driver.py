"""Drives one request from its last byte to its reply.

1. find out who calls, and open the repository that the face has named;
2. run the handler: on the loop if it is brief and the store answers at once, else in a thread;
3. a write that it returns goes through the lane of its branch;
4. the answer is built, and compressed if the client accepts that and the answer is long;
5. it is sent when everything that it may show is durable.

Everything here runs on the loop, by callbacks: a request costs no task and no future.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from lochan.base.errors import Exhausted, LochanError
from lochan.base.limits.http import (
    GZIP_ANSWER_BYTES_MIN,
    GZIP_ANSWER_INLINE_BYTES_MAX,
    GZIP_INLINE_BYTES_MAX,
    STREAMS_MAX,
)
from lochan.base.limits.server import BRIEF_BODY_BYTES_MAX, BRIEF_OPERATIONS_MAX
from lochan.kernel.publish import Settled
from lochan.service.pending_writes import PendingWrite
from lochan.transport.app import RepositoryOpener
from lochan.transport.body_streams import ResponseStream
from lochan.transport.error_boundary import attempt, attempt_async, log_failure, trace_of
from lochan.transport.exchange import ANYONE, Caller, Exchange, Request, Response
from lochan.transport.group_flush import GroupFlush
from lochan.transport.gzip_bodies import accepts_gzip, pack, unpack
from lochan.transport.hygiene import Framing
from lochan.transport.lanes import Lanes, QueuedWrite
from lochan.transport.observers import Finished, RequestObservers
from lochan.transport.pool import Pool
from lochan.transport.problems import plain_problem
from lochan.transport.read_batches import BatchedRead, ReadBatches
from lochan.transport.routes import Found, Handler, Match, StreamHandler

if TYPE_CHECKING:
    from lochan.service.repository import Repository

Reply = Callable[[Response], None]

Answer = Response | LochanError
"""What a request is answered with, before it is turned into bytes."""

Outcome = Answer | PendingWrite[Response]
"""What a handler returned: an answer, or a write that is still to be published."""

# The name of a reference in a path; what follows selects one of its commits.
_REFERENCE: Final = re.compile(r"[^@~^*]+")
_READS: Final = ("GET", "HEAD")
_PACKED: Final = ((b"content-encoding", b"gzip"), (b"vary", b"accept-encoding"))


class DriverContext(msgspec.Struct, frozen=True):
    """What all requests of a server share."""

    loop: asyncio.AbstractEventLoop
    repositories: RepositoryOpener
    default_repository: str
    inline: bool
    brief_pool: Pool
    long_pool: Pool
    lanes: Lanes
    read_batches: ReadBatches
    group_flush: GroupFlush
    observers: RequestObservers
    show_traces: bool = False


class Driver:
    """Starts requests; counts those that are not answered yet."""

    def __init__(self, context: DriverContext) -> None:
        self.context = context
        self.under_way = 0
        self.streams = 0
        """How many requests with streams are under way."""
        self._default: Repository | None = None

    def run(self, request: Request, framing: Framing, found: Found, reply: Reply) -> RequestState:
        """Starts a request; `reply` is called once, maybe before this returns."""
        self.under_way += 1
        state = RequestState(self, request, framing, found, reply)
        state.start()
        return state

    async def run_in_thread(self, work: Callable[[], Any]) -> Any:
        """Runs a function of a streaming handler that may wait; raises what it raises."""
        done: asyncio.Future[Any] = self.context.loop.create_future()
        self.context.long_pool.submit(work, partial(_resolve, done))
        outcome = await done
        if isinstance(outcome, LochanError):
            raise outcome
        return outcome

    def find_open(self, name: str) -> Repository | None:
        """Returns a repository if that needs no waiting; the default one is always at hand."""
        default = self._default
        if default is not None and default.name == name:
            return default
        return self.open(name) if self.context.inline else None

    def open(self, name: str) -> Repository:
        """Returns a repository, after waiting if the store may block."""
        repository = self.context.repositories.open(name)
        if name == self.context.default_repository:
            self._default = repository
        return repository


class RequestState:
    """The state of one request, from its last byte to its reply."""

    __slots__ = (
        "_began_ns",
        "_brief",
        "_context",
        "_driver",
        "_exchange",
        "_face",
        "_framing",
        "_heavy",
        "_match",
        "_queued",
        "_reply",
        "_repository",
        "_request",
        "_response",
        "_route",
        "_task",
        "_trace",
        "_write",
    )

    def __init__(
        self, driver: Driver, request: Request, framing: Framing, found: Found, reply: Reply
    ) -> None:
        self._driver = driver
        self._context = driver.context
        self._request = request
        self._framing = framing
        self._reply: Reply | None = reply
        self._face = found.face
        self._match = found.match
        self._queued: QueuedWrite | None = None
        self._task: asyncio.Task[None] | None = None
        self._trace: Any = None
        self._route = "none"
        self._repository = ""
        self._began_ns = 0

    def start(self) -> None:
        """Steps 1 and 2; a packed body is unpacked first."""
        if self._context.observers.is_on:
            self._began_ns = perf_counter_ns()
        packed = self._framing.content_encoding and self._request.stream is None
        self._proceed(self._unpack if packed else self._find)

    def cancel(self) -> None:
        """Drops the reply, because the client is gone; a write that still waits is taken back."""
        self._reply = None
        if self._task is not None and not self._framing.has_body:
            # A handler that reads a body gets an error from there; others have to be stopped.
            self._task.cancel()
        self.give_up()

    def give_up(self) -> bool:
        """Takes back what waits in its lane; False if there is nothing that could be taken back."""
        if self._queued is None or not self._context.lanes.cancel(self._queued):
            return False
        self._queued = self._reply = None
        self._driver.under_way -= 1
        return True

    # Each step returns the answer, or None if the rest happens elsewhere; an error that it raises
    # is the answer, too. So errors are caught in one place, and a step costs one call.

    def _proceed(self, step: Callable[[], Answer | None]) -> None:
        answer = attempt(step)
        if answer is not None:
            self._answer(answer)

    def _unpack(self) -> Answer | None:
        packed = self._request.body
        if len(packed) > GZIP_INLINE_BYTES_MAX:
            self._context.long_pool.submit(partial(unpack, packed), self._unpacked)
            return None
        self._request.body = unpack(packed)
        return self._find()

    def _unpacked(self, body: bytes | LochanError) -> None:
        if isinstance(body, LochanError):
            self._answer(body)
            return
        self._request.body = body
        self._proceed(self._find)

    def _find(self) -> Answer | None:
        match = self._match
        if isinstance(match, Response):
            # A refusal shows nothing that could be lost, so it needs no flush.
            self._route = "server"
            self._send(match)
            return None
        context = self._context
        self._route = match.route.name
        if context.observers.tracer is not None:
            traceparent = self._framing.traceparent.decode("latin-1") or None
            self._trace = context.observers.tracer.begin(
                self._request.method, self._route, traceparent
            )
        authentication = self._face.authentication
        if authentication is None:
            return self._open(match, ANYONE)
        authenticate = partial(authentication.authenticate, self._request, match)
        if context.inline or not authentication.reads_store:
            return self._open(match, authenticate())
        context.brief_pool.submit(authenticate, partial(self._authenticated, match))
        return None

    def _authenticated(self, match: Match, caller: Caller | LochanError) -> None:
        if isinstance(caller, LochanError):
            self._answer(caller)
            return
        self._proceed(partial(self._open, match, caller))

    def _open(self, match: Match, caller: Caller) -> Answer | None:
        name = match.repository
        if name is None:
            return self._handle(match, caller, None)
        repository = self._driver.find_open(name)
        if repository is not None:
            return self._handle(match, caller, repository)
        opening = partial(self._driver.open, name)
        self._context.brief_pool.submit(opening, partial(self._opened, match, caller))
        return None

    def _opened(self, match: Match, caller: Caller, repository: Repository | LochanError) -> None:
        if isinstance(repository, LochanError):
            self._answer(repository)
            return
        self._proceed(partial(self._handle, match, caller, repository))

    def _handle(self, match: Match, caller: Caller, repository: Repository | None) -> Answer | None:
        context = self._context
        if repository is not None:
            self._repository = repository.name
        exchange = self._exchange = Exchange(
            self._request, cast("Repository", repository), match.params, caller
        )
        route = match.route
        if route.streams:
            return self._begin_stream(cast("StreamHandler", route.handler), exchange)
        brief = route.brief
        if not isinstance(brief, bool):
            brief = brief(exchange)
        self._brief = brief = brief and len(self._request.body) <= BRIEF_BODY_BYTES_MAX
        on_loop = brief and (
            context.inline or (route.prepares is not None and route.prepares(exchange))
        )
        handler = cast("Handler", route.handler)
        if self._trace is None and on_loop:
            return self._enqueue(handler(exchange))
        handle: Callable[[], Outcome] = partial(handler, exchange)
        if self._trace is not None and context.observers.tracer is not None:
            handle = partial(context.observers.tracer.within, self._trace, handle)
        if on_loop:
            return self._enqueue(handle())
        if brief and self._trace is None and self._request.method in _READS:
            reference = _REFERENCE.match(match.params.get("ref", ""))
            if reference is not None and repository is not None:
                context.read_batches.add(
                    BatchedRead(repository, reference[0], handle, self._handled)
                )
                return None
        pool = context.brief_pool if brief else context.long_pool
        pool.submit(handle, self._handled)
        return None

    def _begin_stream(self, handler: StreamHandler, exchange: Exchange) -> Answer | None:
        driver = self._driver
        if driver.streams >= STREAMS_MAX:
            text = f"{STREAMS_MAX} requests with streams are under way; try again later"
            raise Exhausted(text, public=text)
        driver.streams += 1
        exchange = msgspec.structs.replace(exchange, run=driver.run_in_thread)
        self._task = self._context.loop.create_task(self._stream(handler, exchange))
        self._task.add_done_callback(self._stream_ended)
        return None

    def _stream_ended(self, task: asyncio.Task[None]) -> None:
        """Frees the slot of a request whose client left, maybe before its handler had begun."""
        if task.cancelled():
            self._driver.streams -= 1
            self._driver.under_way -= 1

    async def _stream(self, handler: StreamHandler, exchange: Exchange) -> None:
        """Runs the handler of a stream; it occupies a slot until its answer has left."""
        answer = await attempt_async(handler(exchange))
        stream = answer.stream if isinstance(answer, Response) else None
        if stream is None:
            self._driver.streams -= 1
        if isinstance(answer, Response) and stream is not None:
            parts = self._durable_parts(stream.parts)
            leaving = msgspec.structs.replace(
                stream, parts=parts, closed=partial(self._stream_closed, stream)
            )
            answer = msgspec.structs.replace(answer, stream=leaving)
        self._answer(answer)

    async def _durable_parts(
        self, source: AsyncGenerator[bytes, None]
    ) -> AsyncGenerator[bytes, None]:
        """Yields each part when everything that it may show is durable."""
        async with aclosing(source) as parts:
            async for part in parts:
                durable = self._context.loop.create_future()
                self._context.group_flush.after(partial(_resolve, durable))
                await durable
                yield part

    def _stream_closed(self, stream: ResponseStream) -> None:
        self._driver.streams -= 1
        stream.closed()

    def _handled(self, outcome: Outcome) -> None:
        """Continues after a handler that ran in a thread."""
        self._proceed(partial(self._enqueue, outcome))

    def _enqueue(self, outcome: Outcome) -> Answer | None:
        """Step 3."""
        if not isinstance(outcome, PendingWrite):
            return outcome
        if self._reply is None:
            # The client is gone and nothing is in the lane yet.
            self._driver.under_way -= 1
            return None
        self._write = outcome
        context = self._context
        repository = self._exchange.repository
        heavy = self._heavy = not self._brief or outcome.operations > BRIEF_OPERATIONS_MAX
        if outcome.dry_run:
            publisher = repository.publisher(outcome.branch)
            preview = partial(publisher.preview, [outcome.proposal])
            if context.inline and not heavy:
                self._previewed(attempt(preview))
            else:
                context.long_pool.submit(preview, self._previewed)
            return None
        queued = QueuedWrite(outcome.proposal, heavy, self._settled, self._trace)
        context.lanes.offer((repository.name, outcome.branch), repository.publisher, queued)
        self._queued = queued
        return None

    def _previewed(self, settled: list[Settled] | LochanError) -> None:
        self._settled(settled if isinstance(settled, LochanError) else settled[0])

    def _settled(self, settled: Settled) -> None:
        self._queued = None
        if self._heavy:
            # An answer about a hundred thousand keys takes long to build, too.
            work = partial(self._finish, settled)
            self._context.long_pool.submit(work, self._answer, must=True)
        elif not self._context.inline and self._write.finish_uses_store(settled):
            # It is published and must be finished, however full the pool is.
            work = partial(self._finish, settled)
            self._context.brief_pool.submit(work, self._answer, must=True)
        else:
            self._answer(attempt(self._write.finish, settled))

    def _finish(self, settled: Settled) -> Response:
        answer = attempt(self._write.finish, settled)
        return self._problem(answer) if isinstance(answer, LochanError) else answer

    def _answer(self, outcome: Response | LochanError) -> None:
        """Step 4."""
        if isinstance(outcome, LochanError):
            outcome = self._problem(outcome)
        self._response = outcome
        size = len(outcome.body)
        if size >= GZIP_ANSWER_BYTES_MIN and self._framing.accept_encoding:
            if accepts_gzip(self._framing.accept_encoding) and _may_pack(outcome):
                if size > GZIP_ANSWER_INLINE_BYTES_MAX:
                    work = partial(pack, outcome.body)
                    self._context.long_pool.submit(work, self._pack_ended, must=True)
                    return
                self._response = _packed(outcome, pack(outcome.body))
        self._context.group_flush.after(self._durable)

    def _problem(self, error: LochanError) -> Response:
        log_failure(error, self._request.id, self._route)
        if self._context.show_traces and "Traceback" not in error.public:
            error.public = f"{error.message}\n{trace_of(error)}"
        problem = attempt(self._face.problem, self._request, error)
        if isinstance(problem, LochanError):
            return plain_problem(problem, self._request.id)
        return problem

    def _pack_ended(self, body: bytes | LochanError) -> None:
        if not isinstance(body, LochanError):
            self._response = _packed(self._response, body)
        self._context.group_flush.after(self._durable)

    def _durable(self) -> None:
        """Step 5."""
        self._send(self._response)

    def _send(self, response: Response) -> None:
        self._driver.under_way -= 1
        observers = self._context.observers
        if observers.is_on:
            self._report(observers, response)
        if self._reply is not None:
            self._reply(response)
        elif response.stream is not None:
            response.stream.closed()

    def _report(self, observers: RequestObservers, response: Response) -> None:
        request = self._request
        done = Finished(
            request.method,
            request.path,
            self._route,
            self._repository,
            response.status,
            len(request.body),
            len(response.body),
            perf_counter_ns() - self._began_ns,
            request.id,
        )
        for observer in observers.all:
            observer.finished(done)
        if self._trace is not None and observers.tracer is not None:
            observers.tracer.end(self._trace, done)


def _resolve(future: asyncio.Future[Any], outcome: Any = None) -> None:
    if not future.done():
        future.set_result(outcome)


def _may_pack(response: Response) -> bool:
    kind = response.content_type
    return kind.startswith((b"application/json", b"text/", b"application/yaml")) and not any(
        name == b"content-encoding" for name, _ in response.headers
    )


def _packed(response: Response, body: bytes) -> Response:
    return Response(response.status, body, (*response.headers, *_PACKED), response.content_type)
