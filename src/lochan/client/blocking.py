"""The blocking client: runs the flows of the protocol over one pool of connections.

Safe for several threads, and in a forked process, which opens connections of its own. Every method
may raise the errors of `base/errors.py`, the same as the embedded repository raises.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

import httpx

from lochan.base.limits import CLIENT_ATTEMPTS_MAX, CLIENT_TIMEOUT_S
from lochan.client import protocol
from lochan.client.asking import Ask, Flow, Reply
from lochan.client.blocking_groups import (
    Commits,
    Contents,
    History,
    Merges,
    Namespaces,
    References,
    RepositorySettings,
)
from lochan.client.connections import Connections
from lochan.client.retrying import Attempts
from lochan.client.transport import (
    CONNECTIONS,
    base_url,
    failure,
    http_request,
    is_loopback,
    read_reply,
)
from lochan.client.values import Config

_Result = TypeVar("_Result")


class Client:
    """A repository on a server.

    `url` is the address of the server, with or without `/api/v2`. `attempts_max` bounds how often
    one request is sent; 1 never repeats, which is right for servers that do not know idempotency
    keys.
    """

    def __init__(
        self,
        url: str,
        repository: str = "default",
        *,
        timeout_s: float = CLIENT_TIMEOUT_S,
        attempts_max: int = CLIENT_ATTEMPTS_MAX,
        headers: Mapping[str, str] | None = None,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = base_url(url, repository)
        self.repository = repository
        self._attempts_max = attempts_max
        # Sent with every request; httpx adds its own only to requests that it has built itself.
        self._headers = dict(headers or {})
        self._sleep = sleep
        build = partial(
            httpx.Client,
            timeout=timeout_s,
            transport=transport,
            limits=CONNECTIONS,
            trust_env=not is_loopback(self.url),
        )
        self._connections = Connections(build, again=transport is None)
        self.references = References(self.run)
        self.contents = Contents(self.run)
        self.history = History(self.run)
        self.commits = Commits(self.run)
        self.merges = Merges(self.run)
        self.namespaces = Namespaces(self.run)
        self.settings = RepositorySettings(self.run)

    def config(self) -> Config:
        """Returns what the repository says of itself."""
        return self.run(protocol.config())

    def close(self) -> None:
        """Closes the connections."""
        self._connections.http().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def run(self, flow: Flow[_Result]) -> _Result:
        """Runs a flow to its end."""
        try:
            ask = next(flow)
            while True:
                ask = flow.send(self._send(ask))
        except StopIteration as end:
            result: _Result = end.value
            return result

    def _send(self, ask: Ask) -> Reply:
        attempts = Attempts(ask, self._attempts_max)
        while True:
            try:
                http = self._connections.http()
                response = http.send(http_request(self.url, ask, self._headers))
            except httpx.RequestError as error:
                what, reached = failure(error)
                self._sleep(attempts.after_failure(what, reached=reached))
                continue
            self._connections.note(response)
            reply = read_reply(response)
            pause_s = attempts.after_reply(reply)
            if pause_s is None:
                return reply
            self._sleep(pause_s)
