"""Connections of boto3 that notice an answer that was cut, and that a forked child gives up.

http.client takes an answer that ends within its headers for a whole one, and botocore does not
compare the length of a body with what the headers state. A listing would then look empty, and a
length or an ETag could miss its last digits. Here both are a lost connection: repeated where that
is harmless, else an error. Only this module knows botocore's inside; loading it loads botocore.
"""

from __future__ import annotations

from http.client import HTTPResponse, RemoteDisconnected
from typing import IO, Any, Final

from botocore.awsrequest import (
    AWSHTTPConnection,
    AWSHTTPConnectionPool,
    AWSHTTPSConnection,
    AWSHTTPSConnectionPool,
)

from lochan.process import Descriptor, after_fork

_CUT: Final = "the answer ended within its headers"


def check_answers(client: Any) -> None:
    """Lets a new client of boto3 use the connections of this module."""
    # botocore has no setting for it. Pools for proxies are made with the same table.
    session = client._endpoint.http_session  # noqa: SLF001
    pools = session._pool_classes_by_scheme  # noqa: SLF001
    pools.update(http=_PlainPool, https=_TlsPool)


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


class _PlainConnection(_CheckedConnection, AWSHTTPConnection):  # type: ignore[misc]
    pass


class _TlsConnection(_CheckedConnection, AWSHTTPSConnection):  # type: ignore[misc]
    pass


class _PlainPool(AWSHTTPConnectionPool):  # type: ignore[misc]
    ConnectionCls = _PlainConnection

    def urlopen(self, *arguments: Any, **options: Any) -> Any:
        return super().urlopen(*arguments, **(options | {"enforce_content_length": True}))


class _TlsPool(AWSHTTPSConnectionPool):  # type: ignore[misc]
    ConnectionCls = _TlsConnection

    def urlopen(self, *arguments: Any, **options: Any) -> Any:
        return super().urlopen(*arguments, **(options | {"enforce_content_length": True}))
