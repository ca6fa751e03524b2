"""Drives one request from its last byte to its reply.

1. find out who calls, wait for its turn, open the repository that the face has named (`admission`);
2. run the handler: on the loop if it is brief and the store answers at once, else in a thread;
3. a write that it returns goes through the lane of its branch; long work is prepared before, in a
   thread;
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
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lochan.base.errors import Exhausted, LochanError
from lochan.base.limits.http import (
    GZIP_ANSWER_BYTES_MIN,
    GZIP_ANSWER_INLINE_BYTES_MAX,
    STREAMS_MAX,
)
from lochan.base.limits.server import BRIEF_BODY_BYTES_MAX, BRIEF_OPERATIONS_MAX
from lochan.kernel.preparation import Preparation
from lochan.kernel.publish import Proposal, Settled
from lochan.service.pending_writes import PendingWrite
from lochan.transport.admission import Answer, Outcome, Reply, RequestAdmission
from lochan.transport.background_work import BackgroundWork
from lochan.transport.body_streams import ResponseStream
from lochan.transport.driver_context import DriverContext
from lochan.transport.error_answers import answer_error
from lochan.transport.error_boundary import attempt, attempt_async
from lochan.transport.exchange import Exchange, LongWork, Request, Response
from lochan.transport.gzip_bodies import accepts_gzip, pack
from lochan.transport.hygiene import Framing
from lochan.transport.lanes import QueuedWrite
from lochan.transport.observers import Finished, RequestObservers
from lochan.transport.pool import Pool
from lochan.transport.read_batches import BatchedRead
from lochan.transport.routes import Found, Handler, StreamHandler

if TYPE_CHECKING:
    from lochan.service.repository import Repository

# The name of a reference in a path; what follows selects one of its commits.
_REFERENCE: Final = re.compile(r"[^@~^*]+")
_READS: Final = ("GET", "HEAD")
_PACKED: Final = ((b"content-encoding", b"gzip"), (b"vary", b"accept-encoding"))


class Driver:
    """Starts requests; counts those that are not answered yet."""

    def __init__(self, context: DriverContext) -> None:
        self.context = context
        self.under_way = 0
        self.streams = 0
        """How many requests with streams are under way."""
        self.background = BackgroundWork()
        self._default: Repository | None = None

    def run(self, request: Request, framing: Framing, found: Found, reply: Reply) -> RequestState:
        """Starts a request; `reply` is called once, maybe before this returns."""
        self.under_way += 1
        state = RequestState(self, request, framing, found, reply)
        state.start()
        return state

    async def run_in_thread(self, owner: str, work: Callable[[], Any]) -> Any:
        """Runs a function of a streaming handler that may wait; raises what it raises."""
        return await self._run_in(self.context.long_pool, owner, work)

    async def run_brief(self, owner: str, work: Callable[[], Any]) -> Any:
        """Runs a function of a streaming handler that only waits for the store."""
        if self.context.inline:
            return work()
        return await self._run_in(self.context.brief_pool, owner, work)

    async def _run_in(self, pool: Pool, owner: str, work: Callable[[], Any]) -> Any:
        done: asyncio.Future[Any] = self.context.loop.create_future()
        pool.submit(work, partial(_resolve, done), owner=owner)
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


class RequestState(RequestAdmission):
    """The state of one request, from its last byte to its reply."""

    __slots__ = (
        "_brief",
        "_exchange",
        "_heavy",
        "_preparing",
        "_queued",
        "_repository",
        "_response",
        "_task",
        "_write",
    )

    def __init__(
        self, driver: Driver, request: Request, framing: Framing, found: Found, reply: Reply
    ) -> None:
        super().__init__(driver, request, framing, found, reply)
        self._queued: QueuedWrite | None = None
        self._preparing = False
        self._task: asyncio.Task[None] | None = None
        self._repository = ""

    def cancel(self) -> None:
        """Drops the reply, because the client is gone; what still waits is taken back."""
        self._reply = None
        if self._task is not None and not self._framing.has_body:
            # A handler that reads a body gets an error from there; others have to be stopped.
            self._task.cancel()
        self._give_up_turn()
        self.give_up()

    def give_up(self) -> bool:
        """Takes back what waits in its lane; False if there is nothing that could be taken back.

        Long work that is being prepared does not go into the lane any more; it leaves then.
        """
        if self._preparing:
            self._reply = None
            return True
        if self._queued is None or not self._context.lanes.cancel(self._queued):
            return False
        self._queued = self._reply = None
        self._leave()
        return True

    def _handle(self, repository: Repository | None) -> Answer | None:
        """Step 2."""
        context, match = self._context, self._match
        if repository is not None:
            self._repository = repository.name
        # A face that names no repository does not use it, and a handler is of the kind that its
        # route declares: checking either would cost as much as a step of a request.
        exchange = self._exchange = Exchange(
            self._request,
            repository,  # type: ignore[arg-type]
            match.params,
            self._caller,
            start=self._driver.background.start,
        )
        route = match.route
        if route.streams:
            streaming: StreamHandler = route.handler  # type: ignore[assignment]
            return self._begin_stream(streaming, exchange)
        brief = route.brief
        if not isinstance(brief, bool):
            brief = brief(exchange)
        self._brief = brief = brief and len(self._request.body) <= BRIEF_BODY_BYTES_MAX
        on_loop = brief and (
            context.inline or (route.prepares is not None and route.prepares(exchange))
        )
        handler: Handler = route.handler  # type: ignore[assignment]
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
                owner = self._caller.name
                context.read_batches.add(
                    BatchedRead(repository, reference[0], handle, self._handled, owner)
                )
                return None
        pool = context.brief_pool if brief else context.long_pool
        # Callers that are not known, such as those that log in, take turns by their addresses.
        owner = self._request.origin if route.is_open else self._caller.name
        pool.submit(handle, self._handled, owner=owner)
        return None

    def _begin_stream(self, handler: StreamHandler, exchange: Exchange) -> Answer | None:
        driver = self._driver
        if driver.streams >= STREAMS_MAX:
            text = f"{STREAMS_MAX} requests with streams are under way; try again later"
            raise Exhausted(text, public=text)
        driver.streams += 1
        self._streaming = True
        owner = self._caller.name
        exchange = msgspec.structs.replace(
            exchange,
            run=partial(driver.run_in_thread, owner),
            run_brief=partial(driver.run_brief, owner),
        )
        self._task = self._context.loop.create_task(self._stream(handler, exchange))
        self._task.add_done_callback(self._stream_ended)
        return None

    def _stream_ended(self, task: asyncio.Task[None]) -> None:
        """Frees the slot of a request whose client left, maybe before its handler had begun."""
        if task.cancelled():
            self._leave_stream()
            self._leave()

    async def _stream(self, handler: StreamHandler, exchange: Exchange) -> None:
        """Runs the handler of a stream; it occupies a slot until its answer has left."""
        answer = await attempt_async(handler(exchange))
        stream = answer.stream if isinstance(answer, Response) else None
        if stream is None:
            self._leave_stream()
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
        self._leave_stream()
        stream.closed()

    def _handled(self, outcome: Outcome) -> None:
        """Continues after a handler that ran in a thread."""
        self._proceed(partial(self._enqueue, outcome))

    def _enqueue(self, outcome: Outcome) -> Answer | None:
        """Step 3."""
        if isinstance(outcome, LongWork):
            self._context.long_pool.submit(outcome.work, self._handled, owner=self._caller.name)
            return None
        if not isinstance(outcome, PendingWrite):
            return outcome
        if self._reply is None:
            # The client is gone and nothing is in the lane yet.
            self._leave()
            return None
        self._write = outcome
        context = self._context
        repository = self._exchange.repository
        heavy = self._heavy = self._is_heavy(outcome)
        if outcome.dry_run:
            publisher = repository.publisher(outcome.branch)
            preview = partial(publisher.preview, [outcome.proposal])
            if context.inline and not heavy:
                self._previewed(attempt(preview))
            else:
                context.long_pool.submit(preview, self._previewed, owner=self._caller.name)
            return None
        if outcome.is_long:
            self._prepare(Preparation(repository.publisher(outcome.branch), outcome.proposal))
        else:
            self._offer(outcome.proposal, heavy, self._settled)
        return None

    def _is_heavy(self, write: PendingWrite[Response]) -> bool:
        """Returns whether publishing or answering a write would keep the loop for too long.

        A commit may be light although its handler is not brief: of staged files it is known only
        after they were read.
        """
        is_brief = self._brief or write.grafts
        is_large = len(self._request.body) > BRIEF_BODY_BYTES_MAX
        return not is_brief or is_large or write.operations > BRIEF_OPERATIONS_MAX

    def _prepare(self, preparation: Preparation) -> None:
        """Step 3 for long work: a thread does what can be done outside the lane."""
        self._preparing = True
        work, done = preparation.advance, partial(self._prepared, preparation)
        if self._trace is not None and self._context.observers.tracer is not None:
            work = partial(self._context.observers.tracer.within, self._trace, work)
        self._context.long_pool.submit(work, done, owner=self._caller.name, must=True)

    def _prepared(self, preparation: Preparation, settled: Settled | None) -> None:
        self._preparing = False
        if settled is not None:
            self._settled(settled)
        elif self._reply is None:
            # The client is gone and nothing is in the lane.
            self._leave()
        else:
            done = partial(self._grafted, preparation)
            self._proceed(partial(self._offer, preparation, preparation.is_heavy, done))

    def _grafted(self, preparation: Preparation, settled: Settled) -> None:
        self._queued = None
        if isinstance(settled, LochanError) or not preparation.is_outdated:
            self._settled(settled)
        else:
            self._prepare(preparation)

    def _offer(self, proposal: Proposal, heavy: bool, done: Callable[[Settled], None]) -> None:
        """Puts a proposal into the lane of its branch."""
        repository, branch = self._exchange.repository, self._write.branch
        crowded = self._ticket is not None and self._context.quotas.takes_turns(self._ticket)
        owner = self._caller.name
        queued = QueuedWrite(proposal, heavy, done, self._trace, owner, crowded=crowded)
        self._context.lanes.offer((repository.name, branch), repository.publisher, queued)
        self._queued = queued

    def _previewed(self, settled: list[Settled] | LochanError) -> None:
        self._settled(settled if isinstance(settled, LochanError) else settled[0])

    def _settled(self, settled: Settled) -> None:
        self._queued = None
        if self._heavy:
            # An answer about a hundred thousand keys takes long to build, too.
            work = partial(self._finish, settled)
            owner = self._caller.name
            self._context.long_pool.submit(work, self._answer, owner=owner, must=True)
        elif not self._context.inline and self._write.finish_uses_store(settled):
            # It is published and must be finished, however full the pool is.
            work = partial(self._finish, settled)
            owner = self._caller.name
            self._context.brief_pool.submit(work, self._answer, owner=owner, must=True)
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
                    work, owner = partial(pack, outcome.body), self._caller.name
                    self._context.long_pool.submit(work, self._pack_ended, owner=owner, must=True)
                    return
                self._response = _packed(outcome, pack(outcome.body))
        self._context.group_flush.after(self._durable)

    def _problem(self, error: LochanError) -> Response:
        show_traces = self._context.show_traces
        return answer_error(self._face, self._request, error, self._route, show_traces=show_traces)

    def _pack_ended(self, body: bytes | LochanError) -> None:
        if not isinstance(body, LochanError):
            self._response = _packed(self._response, body)
        self._context.group_flush.after(self._durable)

    def _durable(self) -> None:
        """Step 5."""
        self._send(self._response)

    def _send(self, response: Response) -> None:
        self._leave()
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
