"""A server that speaks MongoDB's protocol and gives recorded answers; holds no test of its own.

pymongo itself reads them, so that a test sees what a real server's answer does to it. To the
searches of pymongo it answers that it is the primary of a replica set of one member.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Thread
from typing import Any

import bson

from lochan.kv.url import parse_store_url
from lochan.stores.mongodb.address import read_address
from lochan.stores.mongodb.client import MongoClient

_OP_QUERY, _OP_REPLY, _OP_MSG = 2004, 1, 2013
_HEADER = struct.Struct("<iiii")
_MORE_SECTIONS = 5

CUT = "the connection ends instead of an answer"


def row_answer(n: int, **more: Any) -> dict[str, Any]:
    """The answer to a write that found or inserted `n` rows."""
    return {"n": n, "nModified": n, "ok": 1.0, **more}


def refused(code: int, name: str = "Recorded") -> dict[str, Any]:
    """An answer that is an error as a whole."""
    return {"ok": 0.0, "errmsg": "recorded", "code": code, "codeName": name}


def failed(code: int, at: int, n: int = 0) -> dict[str, Any]:
    """An answer in which one statement failed."""
    return row_answer(n, writeErrors=[{"index": at, "code": code, "errmsg": "recorded"}])


def unconfirmed(code: int, n: int = 1, **more: Any) -> dict[str, Any]:
    """An answer to a write that was done and that the majority has not confirmed."""
    about = {"code": code, "codeName": "Recorded", "errmsg": "recorded"}
    return row_answer(n, writeConcernError=about, **more)


def batch(*documents: Any, cursor: int = 0) -> dict[str, Any]:
    """The answer to a `find`, with a cursor if more did not fit."""
    return {"cursor": {"id": cursor, "ns": "x.y", "firstBatch": list(documents)}, "ok": 1.0}


class RecordedServer:
    """Answers each command with the next of its answers, the last one for ever."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self._lock = Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ends = [self._listener]
        self.port: int = self._listener.getsockname()[1]
        self.commands: list[dict[str, Any]] = []
        Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for end in self._ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                # It has ended already.
                continue
            finally:
                end.close()

    def _accept(self) -> None:
        while True:
            try:
                end, _ = self._listener.accept()
            except OSError:
                return
            self._ends.append(end)
            Thread(target=self._serve, args=(end,), daemon=True).start()

    def _serve(self, end: socket.socket) -> None:
        try:
            while header := _read(end, _HEADER.size):
                size, number, _, kind = _HEADER.unpack(header)
                command = _command(kind, _read(end, size - _HEADER.size))
                answer = self._answer(command)
                if answer is CUT:
                    end.shutdown(socket.SHUT_RDWR)
                    return
                end.sendall(_message(kind, number, bson.encode(answer)))
        except OSError:
            return

    def _answer(self, command: dict[str, Any]) -> Any:
        name = next(iter(command)).lower()
        if name in ("hello", "ismaster"):
            return self._hello()
        if name == "endsessions":
            return {"ok": 1.0}
        with self._lock:
            self.commands.append(command)
            return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    def _hello(self) -> dict[str, Any]:
        me = f"127.0.0.1:{self.port}"
        primary = {"ismaster": True, "isWritablePrimary": True, "setName": "rs", "setVersion": 1}
        limits = {"maxBsonObjectSize": 2**24, "maxMessageSizeBytes": 48_000_000}
        versions = {"minWireVersion": 0, "maxWireVersion": 9, "maxWriteBatchSize": 100_000}
        return {**primary, **limits, **versions, "hosts": [me], "me": me, "ok": 1.0}


def _read(end: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        some = end.recv(size - len(found))
        if not some:
            return b""
        found += some
    return found


def _command(kind: int, body: bytes) -> dict[str, Any]:
    if kind == _OP_QUERY:
        # Flags, the name of a collection, two numbers, and the command.
        return dict(bson.decode(body[body.index(b"\0", 4) + 9 :]))
    (size,) = struct.unpack_from("<i", body, _MORE_SECTIONS)
    command = dict(bson.decode(body[_MORE_SECTIONS : _MORE_SECTIONS + size]))
    rest = body[_MORE_SECTIONS + size :]
    if rest:
        # One more section: its kind, its size, the name of a field, and documents.
        name_end = rest.index(b"\0", 5)
        name = rest[5:name_end].decode()
        command[name] = bson.decode_all(rest[name_end + 1 :])
    return command


def _message(kind: int, number: int, document: bytes) -> bytes:
    if kind == _OP_QUERY:
        body = struct.pack("<iqii", 0, 0, 0, 1) + document
        return _HEADER.pack(_HEADER.size + len(body), 1, number, _OP_REPLY) + body
    body = struct.pack("<iB", 0, 0) + document
    return _HEADER.pack(_HEADER.size + len(body), 1, number, _OP_MSG) + body


@contextmanager
def recorded(*answers: Any) -> Iterator[tuple[MongoClient, RecordedServer]]:
    """Returns a client of a server that gives these answers, and that server."""
    server = RecordedServer(*answers)
    url = f"mongodb://127.0.0.1:{server.port}/test?connections=2"
    client = MongoClient(read_address(parse_store_url(url)))
    try:
        yield client, server
    finally:
        client.close()
        server.close()
