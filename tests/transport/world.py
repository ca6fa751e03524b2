"""A small face on the kernel and a server around it, for the tests of the HTTP room.

The face commits, reads, runs long and breaks, as a test wants; nothing here is a test.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import msgspec
import uvloop

from lochan.base.errors import LochanError, NotFound
from lochan.base.ids import ObjId
from lochan.base.names import RefName
from lochan.faces.segments import REPOSITORIES
from lochan.kernel.context import RepositoryContext
from lochan.kernel.history import iterate_log
from lochan.kernel.provenance import UNNAMED
from lochan.kernel.publish import Published, Publisher, Settled
from lochan.kernel.references import NewReferenceRow, ReferenceIndex
from lochan.kernel.repository import Ports, create_repository
from lochan.kv.store import Store
from lochan.service.pending_writes import PendingWrite
from lochan.stores.memory.store import MemoryStore
from lochan.system import SystemClock, SystemRandom, ThreadWaiting
from lochan.transport.exchange import (
    Exchange,
    Request,
    Response,
    ResponseHeaders,
    decode_percent,
)
from lochan.transport.hygiene import find_fault
from lochan.transport.listener import Listener
from lochan.transport.problems import build_problem, plain_problem
from lochan.transport.routes import Match, Route
from lochan.transport.server import Options, Server
from tests.kernel.workbench import EMPTY_ID, Wants, element, operations, plan, put, table

# What a client gets that is cut off.
CUT = (ConnectionResetError, ssl.SSLEOFError)

PORTS = Ports(SystemClock(), SystemRandom(), ThreadWaiting())


class KernelRepository:
    """As much of a repository as the driver asks for."""

    def __init__(self, context: RepositoryContext) -> None:
        self.name = context.description.name
        self.context = context
        self.names = ReferenceIndex(context)

    def publisher(self, branch: RefName) -> Publisher:
        return Publisher(self.context, branch)

    def log(self, branch: str = "main") -> list[str]:
        """The operation ids on a branch, oldest first."""
        found = self.context.references.fetch(RefName(branch))
        assert found is not None
        return operations(iterate_log(self.context.views, ObjId(found.row.pointer)))[::-1]


class KernelRepositories:
    """Repositories by name."""

    def __init__(self, store: Store, *names: str) -> None:
        self.opened = {
            name: KernelRepository(create_repository(store, PORTS, name))
            for name in ("default", *names)
        }

    def open(self, name: str) -> Any:
        found = self.opened.get(name)
        if found is None:
            raise NotFound(f"there is no repository {name!r}")
        return found

    def branches(self, *names: str) -> None:
        for name in names:
            new = NewReferenceRow(RefName(name), "BRANCH", EMPTY_ID)
            self.opened["default"].names.create_many([new], who=UNNAMED)


class SmallFace:
    """Below `/t`: `commit/{branch}`, `log/{branch}`, `echo/{text}`, and what a test adds."""

    authentication: Any = None

    def __init__(self) -> None:
        self.routes: dict[tuple[str, bytes], Route] = {}
        self.add("POST", b"commit", commit, lambda exchange: len(exchange.request.body) < 10_000)
        self.add("POST", b"try", dry_commit)
        self.add("GET", b"log", log)
        self.add("GET", b"echo", echo)
        self.add("POST", b"echo", echo)
        self.add("GET", b"big", big)

    def add(
        self,
        method: str,
        word: bytes,
        handler: Callable[[Exchange], Response | PendingWrite[Response]],
        brief: bool | Callable[[Exchange], bool] = True,
    ) -> None:
        self.routes[method, word] = Route(word.decode(), handler, brief)

    def owns(self, request: Request) -> bool:
        return f"{_rest(request.path)[1].decode('latin-1')}/".startswith("/t/")

    def match(self, request: Request) -> Match | Response:
        fault = find_fault(request)
        if fault is not None:
            return self.refuse(request, 400, fault)
        repository, path = _rest(request.path)
        _, _, word, *values = path.split(b"/") if path != b"/t" else [b"", b"", b""]
        route = self.routes.get((request.method, word))
        if route is None and request.method == "HEAD":
            route = self.routes.get(("GET", word))
        if route is None:
            allow = ", ".join(method for method, each in self.routes if each == word)
            if not allow:
                return self.refuse(request, 404, "nothing is served at this address")
            return self.refuse(request, 405, f"allowed: {allow}", ((b"allow", allow.encode()),))
        params = {str(n): decode_percent(value) for n, value in enumerate(values)}
        return Match(route, params, repository)

    def problem(self, request: Request, error: LochanError) -> Response:
        return plain_problem(error)

    def refuse(
        self, request: Request, status: int, message: str, headers: ResponseHeaders = ()
    ) -> Response:
        return build_problem(status, message, "REFUSED", headers)


def _rest(path: bytes) -> tuple[str, bytes]:
    """The repository that a path names, and what follows."""
    if not path.startswith(REPOSITORIES):
        return "default", path
    name, _, rest = path[len(REPOSITORIES) :].partition(b"/")
    return decode_percent(name), b"/" + rest


def commit(exchange: Exchange) -> PendingWrite[Response]:
    """The body is a JSON array of numbers of tables, or empty; the message is the request's id."""
    numbers = msgspec.json.decode(exchange.request.body or b"[1]", type=list[int])
    commit_plan = plan([put(table(n), element(n)) for n in numbers], exchange.request.id)
    return PendingWrite(
        RefName(exchange.params["0"]), Wants(commit_plan), _finish, operations=len(numbers)
    )


def dry_commit(exchange: Exchange) -> PendingWrite[Response]:
    return msgspec.structs.replace(commit(exchange), dry_run=True)


def _finish(settled: Settled) -> Response:
    if not isinstance(settled, Published):
        raise settled
    return Response(200, msgspec.json.encode({"hash": settled.head.obj_id.hex()}))


def log(exchange: Exchange) -> Response:
    repository: Any = exchange.repository
    return Response(200, msgspec.json.encode(repository.log(exchange.params["0"])))


def echo(exchange: Exchange) -> Response:
    request = exchange.request
    said = {
        "method": request.method,
        "params": exchange.params,
        "query": [(name, request.query.all(name)) for name in request.query.names()],
        "body": len(request.body),
        "id": request.id,
        "repository": exchange.repository.name,
    }
    return Response(200, msgspec.json.encode(said))


def big(exchange: Exchange) -> Response:
    return Response(200, msgspec.json.encode("word " * int(exchange.params["0"])))


class Place:
    """Where some server listens, and how its clients connect."""

    def __init__(
        self,
        port: int = 0,
        host: str = "127.0.0.1",
        *,
        unix_socket: str = "",
        trust: ssl.SSLContext | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self._unix_socket = unix_socket
        self._trust = trust
        self.sockets: list[socket.socket] = []

    def connect(self, timeout_s: float = 20) -> socket.socket:
        found = self._connect_plain(timeout_s)
        if self._trust is not None:
            # An end that is not announced raises, as a connection that is cut does without TLS.
            found = self._trust.wrap_socket(
                found, server_hostname=self.host.strip("[]"), suppress_ragged_eofs=False
            )
        self.sockets.append(found)
        return found

    def _connect_plain(self, timeout_s: float) -> socket.socket:
        if self._unix_socket:
            found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            found.settimeout(timeout_s)
            try:
                found.connect(self._unix_socket)
            except OSError:
                found.close()
                raise
            return found
        found = socket.create_connection((self.host.strip("[]"), self.port), timeout_s)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return found


class RunningServer(Place):
    """A server in a thread of its own; `places` are its other listeners."""

    def __init__(
        self,
        server: Server,
        repositories: KernelRepositories,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(*_host_and_port(server.listeners[0]), trust=trust)
        self.server = server
        self.repositories = repositories
        self.places = [_place_of(each, trust) for each in server.listeners[1:]]

    def close_sockets(self) -> None:
        """Closes what clients of all listeners have left open."""
        for place in (self, *self.places):
            for each in place.sockets:
                each.close()

    def on_loop(self, call: Callable[[], Any]) -> Any:
        """Runs something on the server's loop and waits for it."""
        done = Event()
        result: list[Any] = []

        def run() -> None:
            result.append(call())
            done.set()

        self.server._loop.call_soon_threadsafe(run)
        assert done.wait(20)
        return result[0]


def _host_and_port(listener: Listener) -> tuple[int, str]:
    host, _, port = listener.address.partition("://")[2].rpartition(":")
    return int(port), host


def _place_of(listener: Listener, trust: ssl.SSLContext | None) -> Place:
    if listener.address.startswith("unix:"):
        return Place(unix_socket=listener.address.removeprefix("unix:"))
    return Place(*_host_and_port(listener), trust=trust if listener.certificate else None)


@contextmanager
def running(
    store: Store | None = None,
    faces: Sequence[Any] | None = None,
    options: Options | None = None,
    *,
    names: Sequence[str] = (),
    repositories: Any = None,
    trust: ssl.SSLContext | None = None,
    **more: Any,
) -> Iterator[RunningServer]:
    """Starts a server on a free port and stops it afterwards; errors of its thread are raised.

    `more` is passed to the server; clients that trust a certificate connect by TLS.
    """
    store = store if store is not None else MemoryStore()
    repositories = repositories or KernelRepositories(store, *names)
    started, stop, state = Event(), [], dict[str, Any]()

    async def live() -> None:
        ended = asyncio.Event()
        stop.append((asyncio.get_running_loop(), ended))
        server = Server(
            store,
            repositories,
            [SmallFace()] if faces is None else faces,
            options or Options(port=0),
            **more,
        )
        await server.start()
        state["running"] = RunningServer(server, repositories, trust)
        started.set()
        await ended.wait()
        await server.stop()

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(live())
        except BaseException as error:
            state["error"] = error
        finally:
            started.set()

    thread = Thread(target=run, name="test server")
    thread.start()
    assert started.wait(20)
    try:
        if "error" not in state:
            yield state["running"]
    finally:
        if "running" in state:
            state["running"].close_sockets()
        if stop:
            loop, ended = stop[0]
            if not loop.is_closed():
                loop.call_soon_threadsafe(ended.set)
        thread.join(40)
        assert not thread.is_alive()
        if "error" in state:
            raise state["error"]


class Answer(msgspec.Struct):
    """An answer as it came from the wire."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Client:
    """A client that sends exactly the given bytes."""

    def __init__(self, place: Place) -> None:
        self._host = f"{place.host}:{place.port}"
        self.socket = place.connect()
        self._rest = b""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, raw: bytes) -> None:
        self.socket.sendall(raw)

    def ask(self, method: str, target: str, body: bytes = b"", *lines: str) -> Answer:
        self.send(self.request(method, target, body, *lines))
        return self.read(head_only=method == "HEAD")

    def request(self, method: str, target: str, body: bytes = b"", *lines: str) -> bytes:
        head = [f"{method} {target} HTTP/1.1", f"Host: {self._host}", *lines]
        if body or method == "POST":
            head.append(f"Content-Length: {len(body)}")
        return ("\r\n".join(head) + "\r\n\r\n").encode("latin-1") + body

    def read(self, *, head_only: bool = False) -> Answer:
        """Reads one answer, and fails if the connection ends before it does."""
        head = self._until(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {}
        for line in lines:
            name, _, value = line.partition(": ")
            assert name not in headers, f"{name} is sent twice"
            headers[name] = value
        version, status, _ = first.split(" ", 2)
        assert version == "HTTP/1.1"
        body = b"" if head_only else self._exactly(int(headers.get("content-length", 0)))
        return Answer(int(status), headers, body)

    def is_closed(self) -> bool:
        """Waits for the end of the connection; whatever comes before it is a mistake."""
        try:
            return self._rest == b"" and self.socket.recv(1) == b""
        except CUT:
            return True

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._rest:
            self._more()
        found, _, self._rest = self._rest.partition(mark)
        return found

    def _exactly(self, count: int) -> bytes:
        while len(self._rest) < count:
            self._more()
        found, self._rest = self._rest[:count], self._rest[count:]
        return found

    def _more(self) -> None:
        piece = self.socket.recv(65_536)
        assert piece, f"the connection ended after {self._rest!r}"
        self._rest += piece
