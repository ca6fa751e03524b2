"""One request and its response, as handlers see them: no sockets, no event loop.

A request is whole when a handler gets it: its body is read, unpacked and within its limit. Texts of
path and query are percent-decoded strictly, so that two different names on the wire never become
one name inside.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote_to_bytes

import msgspec

from lochan.access.policy import ANYONE, Principal
from lochan.base.errors import Invalid
from lochan.transport.body_streams import BodyStream, ResponseStream

if TYPE_CHECKING:
    from lochan.access.authentication import Proof
    from lochan.service.repository import Repository

JSON: Final = b"application/json"

_Derived = TypeVar("_Derived")

RawHeaders = Sequence[tuple[bytes, bytes]]
"""Names in lower case, and values, in the order in which they came."""

_BAD_ESCAPE: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")


def decode_percent(raw: bytes) -> str:
    """Decodes one segment of a path, or anything else that is percent-encoded UTF-8."""
    if b"%" in raw:
        if _BAD_ESCAPE.search(raw):
            raise Invalid("a percent sign in the address is followed by two hex digits")
        raw = unquote_to_bytes(raw)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise Invalid("the address holds escapes that are not UTF-8") from None
    if "\0" in text:
        raise Invalid("the address holds a NUL character")
    return text


class Query:
    """The parameters after the question mark; decoded when the first of them is read."""

    __slots__ = ("_pairs", "raw")

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        """The bytes as they came, without the question mark."""
        self._pairs: list[tuple[str, str]] | None = None if raw else []

    def get(self, name: str) -> str | None:
        """Returns the only value, None if there is none; a name that is repeated is Invalid."""
        found = None
        for each, value in self._pairs if self._pairs is not None else self._decoded():
            if each == name:
                if found is not None:
                    raise Invalid(f"the parameter {name!r} is given more than once")
                found = value
        return found

    def all(self, name: str) -> list[str]:
        """Returns the values in the order in which they came."""
        return [value for each, value in self._decoded() if each == name]

    def names(self) -> list[str]:
        """Returns every name once, in the order in which they came."""
        return list(dict.fromkeys(name for name, _ in self._decoded()))

    def _decoded(self) -> list[tuple[str, str]]:
        if self._pairs is None:
            # A plus sign is a blank here, as in every form that a browser or a client sends.
            parts = [part for part in self.raw.replace(b"+", b" ").split(b"&") if part]
            pairs = [part.partition(b"=") for part in parts]
            self._pairs = [(decode_percent(name), decode_percent(text)) for name, _, text in pairs]
        return self._pairs


class RequestHeaders:
    """The headers of a request, by their names in lower case; shared by requests that repeat them.

    They are decoded when the first of them is read.
    """

    __slots__ = ("_derived", "_values", "raw")

    def __init__(self, raw: RawHeaders) -> None:
        self.raw = raw
        self._values: dict[str, tuple[str, ...]] = {}
        self._derived: dict[Callable[[RequestHeaders], Any], Any] = {}

    def get(self, name: str) -> str | None:
        """Returns the first value, None if there is none."""
        values = (self._values or self._decode()).get(name)
        return None if values is None else values[0]

    def all(self, name: str) -> Sequence[str]:
        """Returns every value, in the order in which they came."""
        return (self._values or self._decode()).get(name, ())

    def derive(self, reading: Callable[[RequestHeaders], _Derived]) -> _Derived:
        """Returns what a function reads from them, once for all requests that repeat them."""
        found: _Derived | None = self._derived.get(reading)
        if found is None:
            found = self._derived[reading] = reading(self)
        return found

    def _decode(self) -> dict[str, tuple[str, ...]]:
        values: dict[str, tuple[str, ...]] = {}
        for name, value in self.items():
            values[name] = (*values.get(name, ()), value)
        self._values = values
        return values

    def items(self) -> Iterator[tuple[str, str]]:
        """Yields every header, in the order in which they came."""
        for name, value in self.raw:
            yield name.decode("latin-1"), value.decode("latin-1")


NO_HEADERS: Final = RequestHeaders(())


class Request:
    """A request; its body is whole when a handler gets it, unless it is streamed."""

    __slots__ = (
        "body",
        "headers",
        "id",
        "kept",
        "method",
        "origin",
        "path",
        "proof",
        "query",
        "stream",
    )

    def __init__(
        self,
        method: str,
        path: bytes,
        query: bytes = b"",
        headers: RequestHeaders = NO_HEADERS,
        body: bytes = b"",
        request_id: str = "",
    ) -> None:
        self.method = method
        self.path = path
        """Raw and undecoded, without the query."""
        self.query = Query(query)
        self.headers = headers
        self.body = body
        self.id = request_id
        self.origin = ""
        """The address of the client as its connection has it; `unix` for a Unix socket."""
        self.stream: BodyStream | None = None
        self.proof: Proof | None = None
        """What the body is checked by, if the request is signed; authentication sets it."""
        self.kept: dict[Any, Any] = {}
        """What a face keeps for the later requests of the same connection; a few entries."""


ResponseHeaders = tuple[tuple[bytes, bytes], ...]
"""Names in lower case, and values."""


class Response(msgspec.Struct, frozen=True):
    """An answer; its length, the date and the request's id are added when it is sent."""

    status: int
    body: bytes = b""
    headers: ResponseHeaders = ()
    content_type: bytes = JSON
    stream: ResponseStream | None = None
    """The body in parts, instead of `body`."""


class LongWork(msgspec.Struct, frozen=True):
    """What a brief handler of reads has left to do, if its first page has shown too little.

    It is done in a thread, on every store.
    """

    work: Callable[[], Response]


StartWork = Callable[[Callable[[], Any], Callable[[], Any]], None]
"""Takes work and what is called every few seconds while it lasts."""

RunInThread = Callable[[Callable[[], Any]], Awaitable[Any]]


async def _run_at_once(work: Callable[[], Any]) -> Any:
    return work()


def _perform_at_once(work: Callable[[], Any], renew: Callable[[], Any]) -> None:  # noqa: ARG001
    work()


class Exchange(msgspec.Struct, frozen=True):
    """What a handler gets: the request, its repository, the values in its path, its caller."""

    request: Request
    repository: Repository
    params: dict[str, str]
    caller: Principal = ANYONE
    run: RunInThread = _run_at_once
    """Runs a function that may wait, in a thread where one is needed; for handlers of streams."""
    run_brief: RunInThread = _run_at_once
    """Runs a function of a few calls of the store: at once where the store answers at once."""
    start: StartWork = _perform_at_once
    """Starts work in a thread that goes on after the answer; Exhausted if there is too much."""
