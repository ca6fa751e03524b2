"""Answers of Cassandra and ScyllaDB in the bytes of their protocol, and a client that gets them.

The driver itself decodes the errors, so that a test sees what a real answer becomes. Their form is
that of the native protocol, versions 4 and 5. Holds no test of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO
from typing import Any

from cassandra import ConsistencyLevel
from cassandra.protocol import ErrorMessage

from lochan.kv.url import parse_store_url
from lochan.stores.cassandra.address import read_address
from lochan.stores.cassandra.client import CassandraClient

QUORUM, SERIAL = ConsistencyLevel.QUORUM, ConsistencyLevel.SERIAL
LOCAL_SERIAL = ConsistencyLevel.LOCAL_SERIAL
PROTOCOL = 4

Answer = list[dict[str, Any]] | Exception


def refused(code: int, message: str = "recorded", rest: bytes = b"") -> Exception:
    """What the driver makes of an error with this code."""
    body = struct.pack(">i", code) + _string(message) + rest
    error: Any = ErrorMessage.recv_body(BytesIO(body), PROTOCOL, *_features())
    return error.to_exception()


def too_few(consistency: int) -> Exception:
    """Too few replicas are alive, as counted for this consistency."""
    return refused(0x1000, rest=struct.pack(">Hii", consistency, 2, 1))


def write_timeout(consistency: int, write_type: str) -> Exception:
    """Replicas have not answered a write in time."""
    rest = struct.pack(">Hii", consistency, 1, 2) + _string(write_type)
    return refused(0x1100, "CAS operation timed out", rest)


def read_timeout(consistency: int) -> Exception:
    """Replicas have not answered a read in time; Paxos may read before it proposes."""
    return refused(0x1200, rest=struct.pack(">HiiB", consistency, 1, 2, 0))


def write_failure(consistency: int, write_type: str) -> Exception:
    """A replica has failed."""
    rest = struct.pack(">Hiii", consistency, 1, 2, 1) + _string(write_type)
    return refused(0x1500, rest=rest)


def read_failure(consistency: int) -> Exception:
    """A replica has failed to read."""
    return refused(0x1300, rest=struct.pack(">HiiiB", consistency, 1, 2, 1, 0))


def outcome_unknown() -> Exception:
    """Cassandra 4's own statement that a proposal may be completed later."""
    return refused(0x1700, rest=struct.pack(">Hii", SERIAL, 1, 2))


def _features() -> tuple[Any, ...]:
    """Returns what the driver of ScyllaDB needs beside the bytes; no extension was negotiated."""
    if find_spec("cassandra.protocol_features") is None:
        return ()
    return (import_module("cassandra.protocol_features").ProtocolFeatures(),)


def _string(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


class _Sent:
    """Stands in for the driver's future."""

    def __init__(self, answer: Answer, attempted_hosts: list[str]) -> None:
        self._answer = answer
        self.attempted_hosts = attempted_hosts

    def result(self) -> list[dict[str, Any]]:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


class _Prepared:
    """Stands in for a prepared statement."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.query_id = b"id"

    def bind(self, values: tuple[Any, ...]) -> Any:
        return type("Bound", (), {"text": self.text, "values": values})()


class RecordedSession:
    """Stands in for the driver's session: each request gets the next answer, the last for ever."""

    def __init__(self, *answers: Answer, reached: bool = True) -> None:
        self._answers = list(answers)
        self._attempted = ["node"] if reached else []
        self.requests: list[Any] = []

    def prepare(self, text: str) -> _Prepared:
        return _Prepared(text)

    def execute_async(self, statement: Any, *_: Any, timeout: float) -> _Sent:
        assert timeout > 0
        self.requests.append(statement)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return _Sent(answer, self._attempted)


@contextmanager
def recorded(*answers: Answer, reached: bool = True) -> Iterator[tuple[CassandraClient, Any]]:
    """Returns a client that gets these answers, and what stands in for the driver's session."""
    address = read_address(parse_store_url("cassandra://127.0.0.1/tests?calls=2"))
    client = CassandraClient(address)
    session = RecordedSession(*answers, reached=reached)
    client._session = session
    try:
        yield client, session
    finally:
        client.close()
