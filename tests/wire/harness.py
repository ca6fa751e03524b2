"""Calls the Nessie API without sockets, on a memory store, with fixed time and random values.

What a driver does, done at once: find the route, run the handler, publish, answer. Nothing here is
a test.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from lochan.access.policy import ANYONE, Call, Policy
from lochan.base.errors import LochanError
from lochan.base.ids import EMPTY_ID
from lochan.faces.nessie.face import DOCUMENTS, nessie_faces
from lochan.kernel.publish import Settled
from lochan.kernel.repository import Ports
from lochan.kv.store import Store
from lochan.service.file_places import NO_PLACES, FileSupport
from lochan.service.pending_writes import PendingWrite
from lochan.service.repositories import Repositories
from lochan.stores.memory.store import MemoryStore
from lochan.testing.ports import ManualClock, RecordedWaiting, SeededRandom
from lochan.transport.app import App
from lochan.transport.body_streams import BodyStream
from lochan.transport.exchange import (
    NO_HEADERS,
    Exchange,
    LongWork,
    Request,
    RequestHeaders,
    Response,
)
from lochan.transport.routes import Face, Found, Match, Route

EMPTY = EMPTY_ID.hex()
NO_BODY = object()


class Answer(msgspec.Struct, frozen=True):
    """A response as a test looks at it."""

    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def etag(self) -> str | None:
        return self.headers.get("etag")

    @property
    def message(self) -> str:
        text = self.json["message"]
        assert isinstance(text, str)
        return text

    @property
    def code(self) -> tuple[int, str]:
        return self.status, self.json["errorCode"]


class Wire:
    """A server without a network: one default repository, both faces."""

    caller = Call()
    """Who prepares what a test needs."""

    def __init__(self, store: Store | None = None, policy: Policy | None = None) -> None:
        self.clock = ManualClock()
        ports = self.ports = Ports(self.clock, SeededRandom(5), RecordedWaiting(self.clock))
        self.repositories = Repositories(
            store or MemoryStore(), ports, policy=policy, files=self.file_support()
        )
        self.repository = self.repositories.open_or_create(self.caller, "default")
        self.app = App(self.faces(), DOCUMENTS)
        self.served: list[str] = []
        """The names of the routes that answered with success."""
        self.reached: list[str] = []
        """The names of all routes that were found."""
        self.sent: list[tuple[str, str, Any, Mapping[str, str]]] = []
        """Every request: method, target, body, headers."""

    def faces(self) -> Sequence[Face]:
        """Returns what is served."""
        return nessie_faces(self.repositories, "default")

    def file_support(self) -> FileSupport:
        """Returns what files need from outside."""
        return NO_PLACES

    def send(
        self,
        method: str,
        target: str,
        body: Any = NO_BODY,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Sends a request; the body is JSON unless it is bytes."""
        path, _, query = target.partition("?")
        raw = b"" if body is NO_BODY else body
        self.sent.append((method, target, raw, headers or {}))
        if not isinstance(raw, bytes):
            raw = json.dumps(raw).encode()
        raw_headers = [(k.lower().encode(), v.encode()) for k, v in (headers or {}).items()]
        request = Request(
            method,
            quote(path, safe="/%@~^*:.-").encode(),
            query.encode(),
            RequestHeaders(raw_headers),
            raw,
            "1",
        )
        self.clock.advance_us(1_000_000)
        response = self._answer(request)
        headers = {name.decode(): value.decode() for name, value in response.headers}
        headers["content-type"] = response.content_type.decode()
        return Answer(response.status, response.body, headers)

    def v2(self, method: str, target: str, body: Any = NO_BODY, **headers: str) -> Answer:
        """Sends a request to version 2; headers are written with underscores."""
        return self.send(method, f"/api/v2{target}", body, _dashed(headers))

    def v1(self, method: str, target: str, body: Any = NO_BODY, **headers: str) -> Answer:
        """Sends a request to version 1."""
        return self.send(method, f"/api/v1{target}", body, _dashed(headers))

    def head(self, name: str = "main") -> str:
        """Returns where a reference points."""
        return self.repository.references.get(self.caller, name).hash

    def commit(self, branch: str, *operations: Any, message: str = "a commit") -> str:
        """Commits on the head of a branch and returns the new one."""
        body = {"commitMeta": {"message": message}, "operations": list(operations)}
        answer = self.v2("POST", f"/trees/{branch}@{self.head(branch)}/history/commit", body)
        assert answer.status == 200, answer.body
        digits = answer.json["targetBranch"]["hash"]
        assert isinstance(digits, str)
        return digits

    def branch(self, name: str, source: str = "main", **extra: Any) -> str:
        """Makes a branch on the head of another and returns where it points."""
        body = {"type": "BRANCH", "name": source, "hash": self.head(source), **extra}
        answer = self.v2("POST", f"/trees?name={name}&type=BRANCH", body)
        assert answer.status == 200, answer.body
        return self.head(name)

    def is_brief(self, method: str, target: str, body: bytes) -> bool:
        """Returns whether the request's operation is declared brief."""
        path, _, query = target.partition("?")
        request = Request(method, path.encode(), query.encode(), NO_HEADERS, body, "1")
        found = self.app.find(request)
        assert isinstance(found.match, Match)
        brief = found.match.route.brief
        if isinstance(brief, bool):
            return brief
        return brief(Exchange(request, self.repository, found.match.params))

    def _answer(self, request: Request) -> Response:
        found = self.app.find(request)
        if isinstance(found.match, Response):
            return found.match
        self.reached.append(found.match.route.name)
        try:
            response = self._handle(found, found.match, request)
        except LochanError as error:
            return found.face.problem(request, error)
        if response.status < 400:
            self.served.append(found.match.route.name)
        return response

    def _handle(self, found: Found, match: Match, request: Request) -> Response:
        authentication = found.face.authentication
        caller = ANYONE
        if authentication is not None:
            known = authentication.find_known(request, match)
            caller = known or authentication.authenticate(request, match)
        repository: Any = None
        if match.repository is not None:
            repository = self.repositories.open(match.repository)
        exchange = Exchange(request, repository, match.params, caller)
        if match.route.streams:
            return asyncio.run(_streamed(match.route, exchange))
        brief = match.route.brief
        assert isinstance(brief if isinstance(brief, bool) else brief(exchange), bool)
        outcome: Any = match.route.handler(exchange)
        while isinstance(outcome, LongWork):
            outcome = outcome.work()
        if not isinstance(outcome, PendingWrite):
            return outcome
        publisher = repository.publisher(outcome.branch)
        settled: Settled
        try:
            if outcome.dry_run:
                settled = publisher.preview([outcome.proposal])[0]
            else:
                settled = publisher.publish([outcome.proposal], lambda: ())[0]
        except LochanError as error:
            # An error that stops the whole chain is the outcome of each of its proposals.
            settled = error
        return outcome.finish(settled)


async def _streamed(route: Route, exchange: Exchange) -> Response:
    """Runs the handler of a stream; returns its answer with all parts as the body."""
    if exchange.request.body:
        stream = exchange.request.stream = BodyStream(lambda: None)
        stream.feed(exchange.request.body)
        stream.complete()
    handler: Any = route.handler
    response: Response = await handler(exchange)
    if response.stream is None:
        return response
    parts = [part async for part in response.stream.parts]
    response.stream.closed()
    return msgspec.structs.replace(response, body=b"".join(parts), stream=None)


def _dashed(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def table(**changed: Any) -> dict[str, Any]:
    """A table as clients write it."""
    return {
        "type": "ICEBERG_TABLE",
        "metadataLocation": "s3://lake/t/1.json",
        "snapshotId": 1,
        "schemaId": 2,
        "specId": 3,
        "sortOrderId": 4,
        **changed,
    }


def namespace(*elements: str, **changed: Any) -> dict[str, Any]:
    """A namespace as clients write it."""
    return {"type": "NAMESPACE", "elements": list(elements), **changed}


def put(*key: str, content: Any = None, **more: Any) -> dict[str, Any]:
    """A put as clients write it."""
    return {"type": "PUT", "key": {"elements": list(key)}, "content": content or table(), **more}


def delete(*key: str) -> dict[str, Any]:
    """A delete as clients write it."""
    return {"type": "DELETE", "key": {"elements": list(key)}}


_HASH = re.compile(r"[0-9a-f]{64}")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_OPERATION = re.compile(r"(?<=\"operation\": \")[0-9a-f]{32}")
_TOKEN = re.compile(r"(?<=token[\"=])(: \")?[A-Za-z0-9_-]{40,}")


class Namer:
    """Replaces random values by names in the order of appearance."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {EMPTY: "<empty>"}

    def __call__(self, text: str) -> str:
        text = _HASH.sub(lambda found: self._name("hash", found[0]), text)
        text = _UUID.sub(lambda found: self._name("id", found[0]), text)
        text = _OPERATION.sub("<operation>", text)
        return _TOKEN.sub(lambda found: (found[1] or "") + self._name("token", found[0]), text)

    def _name(self, kind: str, value: str) -> str:
        if value not in self._names:
            number = sum(each.startswith(f"<{kind}") for each in self._names.values()) + 1
            self._names[value] = f"<{kind} {number}>"
        return self._names[value]
