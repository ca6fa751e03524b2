"""Connections of botocore that notice an answer that was cut, and that a forked child gives up.

http.client takes an answer that ends within its headers for a whole one, and botocore does not
compare the length of a body with what the headers state. A listing would then look empty, and a
length or an ETag could miss its last digits. Here both are a lost connection: repeated where that
is harmless, else an error. Only this module knows botocore's inside.
"""

from __future__ import annotations

from functools import cache
from http.client import HTTPResponse, RemoteDisconnected
from typing import IO, Any, Final

from lochan.process import Descriptor, after_fork

_CUT: Final = "the answer ended within its headers"


def check_answers(client: Any) -> None:
    """Lets a new client of botocore use the connections of this module."""
    # botocore has no setting for it. Pools for proxies are made with the same table.
    session = client._endpoint.http_session  # noqa: SLF001
    session._pool_classes_by_scheme.update(_pools())  # noqa: SLF001


@cache
def _pools() -> dict[str, type]:
    """Returns botocore's pools of connections, each with the checks of this module."""
    from botocore import awsrequest

    made: dict[str, type] = {}
    for scheme, connection, pool in (
        ("http", awsrequest.AWSHTTPConnection, awsrequest.AWSHTTPConnectionPool),
        ("https", awsrequest.AWSHTTPSConnection, awsrequest.AWSHTTPSConnectionPool),
    ):
        checked = type(connection.__name__, (_CheckedConnection, connection), {})
        made[scheme] = type(pool.__name__, (_CheckedPool, pool), {"ConnectionCls": checked})
    return made


class _HeaderLines:
    """The stream of an answer while its headers are read: every line of them has its end."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def readline(self, limit: int = -1) -> bytes:
        """Returns a line; RemoteDisconnected if the stream ended within it or before it."""
        line = self._stream.readline(limit)
        if not line.endswith(b"\n") and len(line) != limit:
            raise RemoteDisconnected(_CUT)
        return line

    def close(self) -> None:
        """Closes the stream."""
        self._stream.close()


class _CheckedResponse(HTTPResponse):
    """An answer whose headers are complete."""

    fp: Any

    def begin(self) -> None:
        """Reads status and headers."""
        stream = self.fp
        self.fp = _HeaderLines(stream)
        try:
            super().begin()
        finally:
            # An answer without a body closes its stream at once.
            if self.fp is not None:
                self.fp = stream


class _CheckedConnection:
    """What plain and encrypted connections have in common."""

    response_class = _CheckedResponse
    sock: Any

    def connect(self) -> None:
        """Connects; a child that is forked later gives up its copy of the socket."""
        super().connect()  # type: ignore[misc]
        self._descriptor = Descriptor(self.sock.fileno())
        after_fork(self, _CheckedConnection._in_child)

    def _in_child(self) -> None:
        self._descriptor.abandon()

    def _consume_headers(self, fp: IO[bytes]) -> None:
        """Skips headers after `100 Continue`; botocore's own loop never ends if they are cut."""
        lines = _HeaderLines(fp)
        while lines.readline().strip():
            pass


class _CheckedPool:
    """What pools of plain and of encrypted connections have in common."""

    def urlopen(self, *arguments: Any, **options: Any) -> Any:
        """Sends a request; the body of its answer must have the stated length."""
        options["enforce_content_length"] = True
        return super().urlopen(*arguments, **options)  # type: ignore[misc]
