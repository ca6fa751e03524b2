"""A stand-in for CockroachDB: PostgreSQL behind a proxy that speaks its protocol.

It states CockroachDB's version, refuses what CockroachDB is documented not to have, answers the one
setting that PostgreSQL does not have, and answers with CockroachDB's errors where a test plans one.
PostgreSQL executes the statements, serializable, so its 40001 are real. What CockroachDB does with
them itself is not tested by this.
"""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from types import TracebackType

VERSION = "CockroachDB CCL v23.1.11 (x86_64-pc-linux-gnu, built 2023/09/27)"

UNSUPPORTED = re.compile(
    r"SET STORAGE|toast_tuple_target|fillfactor|pg_advisory|current_setting\('fsync'\)|"
    r"\bSELECT\s+FROM\b|enable_seqscan|\bjit\b|SAVEPOINT|\bLISTEN\b|\bLOCK TABLE\b|\bDO \$\$",
    re.IGNORECASE,
)
OWN_SETTING = "enable_multiple_modifications_of_table"

Plan = Callable[[str], tuple[str, str] | None]
"""Takes a statement; returns `before` or `after` its execution and the SQLSTATE to answer."""

_SSL, _GSS = 80877103, 80877104


class CockroachProxy:
    """Listens on a port of its own; `with` closes it."""

    def __init__(self, server_port: int, version: str = VERSION) -> None:
        self._server_port = server_port
        self._version = version
        self.statements: list[str] = []
        self.refused: list[str] = []
        self.plan: Plan = lambda _: None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self.port: int = self._listener.getsockname()[1]
        Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> CockroachProxy:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for each in [self._listener, *self._sockets]:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._sockets.append(client)
                Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError, EOFError):
            server = socket.create_connection(("127.0.0.1", self._server_port))
            self._sockets.append(server)
            try:
                self._begin(client, server)
                names: dict[bytes, str] = {}
                while True:
                    self._exchange(client, server, names)
            finally:
                client.close()
                server.close()

    def _begin(self, client: socket.socket, server: socket.socket) -> None:
        while True:
            (size,) = struct.unpack("!i", _read(client, 4))
            body = _read(client, size - 4)
            if struct.unpack("!i", body[:4])[0] not in (_SSL, _GSS):
                break
            client.sendall(b"N")
        server.sendall(struct.pack("!i", size) + body)
        while True:
            kind, answer = _message(server)
            client.sendall(_framed(kind, answer))
            if kind == b"R" and answer == bytes(4):
                stated = b"crdb_version\0" + self._version.encode() + b"\0"
                client.sendall(_framed(b"S", stated))
            if kind == b"R" and answer != bytes(4):
                asked, password = _message(client)
                server.sendall(_framed(asked, password))
            if kind in (b"Z", b"E"):
                return

    def _exchange(
        self, client: socket.socket, server: socket.socket, names: dict[bytes, str]
    ) -> None:
        """Passes one batch of messages on, and its answer back, unless it is answered here."""
        batch = b""
        texts: list[str] = []
        while True:
            kind, body = _message(client)
            if kind == b"X":
                raise EOFError
            batch += _framed(kind, body)
            if kind == b"Q":
                texts.append(body[:-1].decode())
            elif kind == b"P":
                name, text, _ = body.split(b"\0", 2)
                names[name] = text.decode()
            elif kind == b"B":
                texts.append(names.get(body.split(b"\0", 2)[1], ""))
            if kind in (b"Q", b"S"):
                break
        statement = "; ".join(texts)
        self.statements.append(statement)
        if OWN_SETTING in statement:
            client.sendall(_framed(b"C", b"SET\0") + _framed(b"Z", b"I"))
            return
        if UNSUPPORTED.search(statement):
            self.refused.append(statement)
            client.sendall(_error("0A000"))
            return
        planned = self.plan(statement) if statement else None
        if planned is not None and planned[0] == "before":
            client.sendall(_error(planned[1]))
            return
        server.sendall(batch)
        answer = b""
        while True:
            kind, body = _message(server)
            answer += _framed(kind, body)
            if kind == b"Z":
                break
        client.sendall(answer if planned is None else _error(planned[1]))


def _read(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = source.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _message(source: socket.socket) -> tuple[bytes, bytes]:
    kind = _read(source, 1)
    (size,) = struct.unpack("!i", _read(source, 4))
    return kind, _read(source, size - 4)


def _framed(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def _error(state: str) -> bytes:
    fields = b"SERROR\0VERROR\0C" + state.encode() + b"\0Mplanned by the test\0\0"
    return _framed(b"E", fields) + _framed(b"Z", b"I")
