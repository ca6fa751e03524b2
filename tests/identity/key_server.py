"""A server of signing keys on loopback, which answers with what a test gives it."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Answer = Callable[[socket.socket], None]


def answer_of(body: bytes, status: str = "200 OK", *headers: str) -> Answer:
    """Returns an answer that is sent as a whole."""
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers, "", ""]

    def send(connection: socket.socket) -> None:
        connection.sendall("\r\n".join(lines).encode() + body)

    return send


class KeyServer:
    """Counts the requests that it gets."""

    def __init__(self, listener: socket.socket, tls: ssl.SSLContext | None) -> None:
        self.answer: Answer = answer_of(b"{}")
        self.requests: list[bytes] = []
        self.port = listener.getsockname()[1]
        self.url = f"{'http' if tls is None else 'https'}://localhost:{self.port}/keys"
        self._listener = listener
        self._tls = tls

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            try:
                self._serve_one(connection)
            except OSError:
                # The client went away, or did not trust us.
                pass
            finally:
                connection.close()

    def _serve_one(self, connection: socket.socket) -> None:
        if self._tls is not None:
            connection = self._tls.wrap_socket(connection, server_side=True)
        with connection:
            raw = b""
            while b"\r\n\r\n" not in raw:
                part = connection.recv(4_096)
                if not part:
                    return
                raw += part
            self.requests.append(raw)
            self.answer(connection)


@contextmanager
def key_server(tls: ssl.SSLContext | None = None) -> Iterator[KeyServer]:
    """Serves in a thread until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = KeyServer(listener, tls)
        thread = threading.Thread(target=server.serve, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
