"""A receiver of webhooks on loopback, which answers as a test asks; nothing here is a test."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

Reply = Callable[[socket.socket], None]


def reply_of(status: str = "204 No Content", *headers: str, body: bytes = b"") -> Reply:
    """Returns a reply that is sent as a whole."""
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers, "", ""]

    def send(connection: socket.socket) -> None:
        connection.sendall("\r\n".join(lines).encode() + body)

    return send


def following(head: bytes, rest: Reply) -> Reply:
    """Returns a reply that sends some bytes and goes on with another."""

    def send(connection: socket.socket) -> None:
        connection.sendall(head)
        rest(connection)

    return send


def reset(connection: socket.socket) -> None:
    """Ends a connection with RST."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


class Request(msgspec.Struct, frozen=True):
    """A request as it came."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        """The CloudEvent in it."""
        found: dict[str, Any] = msgspec.json.decode(self.body)
        return found


class Receiver:
    """Keeps the requests that it gets; `replies` are used up before `reply`."""

    def __init__(self, listener: socket.socket, tls: ssl.SSLContext | None) -> None:
        self.reply: Reply = reply_of()
        self.replies: list[Reply] = []
        self.requests: list[Request] = []
        self.came = threading.Condition()
        """Notified of each request."""
        self.ended = threading.Event()
        """Set at the end of the block, for replies that wait."""
        self.port: int = listener.getsockname()[1]
        self.url = f"{'http' if tls is None else 'https'}://localhost:{self.port}/hook?a=b"
        self._listener = listener
        self._tls = tls
        self._threads: list[threading.Thread] = []

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                break
            thread = threading.Thread(target=self._serve_one, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()
        for thread in self._threads:
            thread.join()

    def wait_for(self, condition: Callable[[], bool], seconds: float) -> None:
        """Returns when the requests are as they should be."""
        with self.came:
            assert self.came.wait_for(condition, seconds), f"it has not come in {seconds} s"

    def drip(self, connection: socket.socket) -> None:
        """Sends byte after byte and never ends."""
        while not self.ended.wait(0.01):
            connection.sendall(b"x")

    def wait(self, connection: socket.socket) -> None:
        """Never answers."""
        self.ended.wait()

    def _serve_one(self, connection: socket.socket) -> None:
        try:
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
            with connection:
                request = _read(connection)
                with self.came:
                    self.requests.append(request)
                    self.came.notify_all()
                reply = self.replies.pop(0) if self.replies else self.reply
                reply(connection)
        except OSError:
            # The sender went away, or did not trust us.
            connection.close()


def _read(connection: socket.socket) -> Request:
    raw = b""
    while b"\r\n\r\n" not in raw:
        raw += _some(connection)
    head, _, body = raw.partition(b"\r\n\r\n")
    line, *fields = head.decode("ascii").split("\r\n")
    headers = dict(field.split(": ", 1) for field in fields)
    while len(body) < int(headers["content-length"]):
        body += _some(connection)
    return Request(line, headers, body)


def _some(connection: socket.socket) -> bytes:
    part = connection.recv(65_536)
    if not part:
        raise ConnectionError("the sender went away")
    return part


@contextmanager
def receiving(tls: ssl.SSLContext | None = None, port: int = 0) -> Iterator[Receiver]:
    """Serves in threads until the block ends, on a free port or on one that was used before."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        receiver = Receiver(listener, tls)
        thread = threading.Thread(target=receiver.serve, daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            receiver.ended.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
