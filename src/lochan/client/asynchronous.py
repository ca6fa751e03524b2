"""The asynchronous client: runs requests over one pool of connections.

Safe for several tasks of one event loop, and in a forked process that runs a loop of its own. Every
method may raise the errors of `base/errors.py`, the same as the embedded repository raises.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Self, TypeVar, cast

import httpx

from lochan.base.limits.client import CLIENT_ATTEMPTS_MAX, CLIENT_TIMEOUT_S
from lochan.client.credentials import Token, find_credentials
from lochan.client.event_streams import AsyncEventStream
from lochan.client.file_streams import AsyncFileStream, OpenedFile
from lochan.client.flows.events import FollowRequest
from lochan.client.flows.files import rest_of
from lochan.client.groups.repository import RepositoryGroups
from lochan.client.messages import Flow
from lochan.client.methods import AsyncRunner
from lochan.client.transport import FLOWS, HttpCore, is_left_open, streams
from lochan.model.file_requests import OpenFileRequest
from lochan.model.requests import RepositoryRequest

_Result = TypeVar("_Result")


class AsyncClient(AsyncRunner, RepositoryGroups[AsyncRunner]):
    """A repository on a server.

    `url` is the address of the server, with or without `/api/v2`. `attempts_max` bounds how often
    one request is sent; 1 never repeats, which is right for servers that do not know idempotency
    keys.

    `token` is a token, or a function that returns the present one and is called for each request;
    `access_key` is an id and its secret; `profile` names a profile of `lochan login`. Without any
    of them, `credentials.py` has where they come from. `insecure` allows to send them over plain
    http to another machine.
    """

    def __init__(
        self,
        url: str,
        repository: str = "default",
        *,
        token: Token | None = None,
        access_key: tuple[str, str] | None = None,
        profile: str | None = None,
        insecure: bool = False,
        timeout_s: float = CLIENT_TIMEOUT_S,
        attempts_max: int = CLIENT_ATTEMPTS_MAX,
        headers: Mapping[str, str] | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        super().__init__(self)
        find = partial(
            find_credentials,
            token=token,
            access_key=access_key,
            profile=profile,
            insecure=insecure,
        )
        self._core: HttpCore[httpx.AsyncClient] = HttpCore(
            httpx.AsyncClient, url, repository, timeout_s, attempts_max, headers, find, transport
        )
        self._sleep = sleep
        self.url = self._core.url
        self.repository = repository

    async def close(self) -> None:
        """Closes the connections."""
        await self._core.connections.http().aclose()

    def events(
        self,
        reference: str = "-",
        *,
        types: Sequence[str] = (),
        keys: Sequence[str] = (),
        content_types: Sequence[str] = (),
        file_prefixes: Sequence[str] = (),
        token: str = "",
        since: datetime | None = None,
        follow: bool = True,
    ) -> AsyncEventStream:
        """Returns the events of a reference, or of those that a pattern matches, as they happen.

        They begin behind `token`, the position of an earlier stream, or behind a time, or now; with
        `follow=False` they end at the present. A stream whose connection breaks goes on where it
        was, with no event missing and none twice.
        """
        wanted = FollowRequest(
            reference,
            tuple(types),
            tuple(keys),
            tuple(content_types),
            tuple(file_prefixes),
            since,
            follow,
        )
        return AsyncEventStream(wanted, token, self._run_flow, self._sleep)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def run(self, request: RepositoryRequest[_Result]) -> _Result:
        """Returns the result of a request."""
        result = await self._run(request)
        if isinstance(request, OpenFileRequest) and isinstance(result, OpenedFile):
            tag, open_file = result.info.etag, request
            stream = AsyncFileStream(
                result, lambda start, end: self._run_flow(rest_of(open_file, tag, start, end))
            )
            return cast("_Result", stream)
        return result

    async def _run(self, request: RepositoryRequest[_Result]) -> _Result:
        flow: Flow[_Result] = FLOWS[type(request)](request)
        return await self._run_flow(flow)

    async def _run_flow(self, flow: Flow[_Result]) -> _Result:
        steps = self._core.steps(flow)
        outcome: Any = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                result: _Result = end.value
                return result
            if isinstance(step, httpx.Request):
                try:
                    outcome = await self._send(step)
                except httpx.RequestError as error:
                    outcome = error
            else:
                await self._sleep(step)

    async def _send(self, request: httpx.Request) -> httpx.Response:
        """Sends a request; the body of a response that is read in pieces is left open."""
        http = self._core.connections.http()
        response = await http.send(request, stream=streams(request))
        if not is_left_open(request, response):
            await response.aread()
        return response
