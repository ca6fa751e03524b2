"""Clients of both faces that are slow in the middle of a file hold no thread.

Many more of them than the server has threads stop half way, in uploads and in downloads. Then a
quick client is answered, and after that they go on: nothing of what they sent or read is lost.
Nothing here waits for time to pass: that the server has begun is seen by what it has sent.
"""

from __future__ import annotations

import socket
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, closing
from threading import active_count
from typing import Protocol
from urllib.parse import urlsplit

import pytest

from tests.faces.lakefs.lakefs_bench import KEY, SECRET, LakefsRepository, lakefs_bench
from tests.faces.s3.gateway import REPOSITORY, Gateway, gateway

SLOW = 96
"""Slow clients of each kind; more than a server has threads."""
HALF = 200_000
LARGE = bytes(range(256)) * 64_000
"""More than the buffers of the kernel hold, so that the server has to stop sending it."""


class Files(Protocol):
    """What a test needs of a face; every path is on the branch `main`."""

    url: str

    def put(self, path: str, body: bytes) -> None: ...

    def get(self, path: str) -> bytes: ...

    def head(self, method: str, path: str, size: int) -> bytes:
        """Returns the head of a request that reads or writes a file."""


class S3Files:
    def __init__(self, one: Gateway) -> None:
        self.url = one.url
        self._gateway = one

    def put(self, path: str, body: bytes) -> None:
        self._gateway.put(f"main/{path}", body)

    def get(self, path: str) -> bytes:
        return self._gateway.get(f"main/{path}")

    def head(self, method: str, path: str, size: int) -> bytes:
        target = f"/{REPOSITORY}/main/{path}"
        stated = {"x-amz-content-sha256": "UNSIGNED-PAYLOAD"}
        return written(method, target, {**self._gateway.sign(method, target, stated)}, size)


class LakefsFiles:
    def __init__(self, repository: LakefsRepository) -> None:
        self.url = repository.bench.url
        self._repository = repository

    def put(self, path: str, body: bytes) -> None:
        self._repository.upload(path, body)

    def get(self, path: str) -> bytes:
        found = self._repository.read(path)
        assert found is not None
        return found

    def head(self, method: str, path: str, size: int) -> bytes:
        place = "branches/main" if method == "PUT" else "refs/main"
        target = f"/api/v1/repositories/{self._repository.name}/{place}/objects?path={path}"
        credentials = b64encode(f"{KEY}:{SECRET}".encode()).decode()
        headers = {"Host": urlsplit(self.url).netloc, "Authorization": f"Basic {credentials}"}
        return written("POST" if method == "PUT" else method, target, headers, size)


def written(method: str, target: str, headers: dict[str, str], size: int) -> bytes:
    """Returns the head of a request; a body is sent when the server has asked for it."""
    if size:
        headers |= {"Content-Length": str(size), "Expect": "100-continue"}
        headers |= {"Content-Type": "application/octet-stream"}
    lines = [
        f"{method} {target} HTTP/1.1",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode()


@pytest.fixture(scope="module", params=["s3", "lakefs"])
def files(request, tmp_path_factory) -> Iterator[Files]:
    folder = tmp_path_factory.mktemp("blocks")
    if request.param == "s3":
        with gateway(folder) as one:
            yield S3Files(one)
    else:
        with lakefs_bench(folder) as bench:
            yield LakefsFiles(bench.repository())


class SlowClient:
    """A connection that sends and reads what a test says, and no more."""

    def __init__(self, files: Files) -> None:
        parts = urlsplit(files.url)
        self._socket = socket.socket()
        # Small, so that little of a file is on its way.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        self._socket.settimeout(60)
        self._socket.connect((parts.hostname, parts.port))
        self._received = b""

    def close(self) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def read_head(self) -> bytes:
        """Returns a status line with its headers; nothing is read that was not there already."""
        while b"\r\n\r\n" not in self._received:
            piece = self._socket.recv(1_024)
            assert piece, self._received
            self._received += piece
        head, _, self._received = self._received.partition(b"\r\n\r\n")
        return head

    def read(self, size: int) -> bytes:
        """Returns bytes of a body."""
        pieces, missing = [self._received], size - len(self._received)
        while missing > 0:
            piece = self._socket.recv(min(missing, 1_048_576))
            assert piece, missing
            pieces.append(piece)
            missing -= len(piece)
        return b"".join(pieces)


def body_of(at: int) -> bytes:
    return b"%08d" % at * (2 * HALF // 8)


@pytest.mark.slow
def test_slow_uploads_and_downloads_hold_no_thread(files: Files, record_property) -> None:
    files.put("large", LARGE)
    with ExitStack() as stack:

        def connect() -> SlowClient:
            return stack.enter_context(closing(SlowClient(files)))

        uploads = [connect() for _ in range(SLOW)]
        for at, client in enumerate(uploads):
            client.send(files.head("PUT", f"slow-{at}", 2 * HALF))
        for at, client in enumerate(uploads):
            assert client.read_head().startswith(b"HTTP/1.1 100 ")
            client.send(body_of(at)[:HALF])
        downloads = [connect() for _ in range(SLOW)]
        for client in downloads:
            client.send(files.head("GET", "large", 0))
        for client in downloads:
            assert client.read_head().startswith(b"HTTP/1.1 200 ")
        threads = active_count()
        # All of them are half way; a quick client is answered, again and again.
        for at in range(5):
            files.put("quick", b"%d" % at)
            assert files.get("quick") == b"%d" % at
        threads = max(threads, active_count())
        assert threads < SLOW
        # Those that go on are served to their end.
        for at, client in enumerate(uploads):
            client.send(body_of(at)[HALF:])
        for client in uploads:
            assert client.read_head().split()[1] in (b"200", b"201")
        for client in downloads[:3]:
            assert client.read(len(LARGE)) == LARGE
    for at in range(SLOW):
        assert files.get(f"slow-{at}") == body_of(at)
    kind = type(files).__name__
    record_property("counted", f"{kind}: {threads} threads beside {2 * SLOW} slow clients")
