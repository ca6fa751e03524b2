"""A server with files, and requests to it byte by byte; nothing here is a test."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from tests.client.serving import serving

MAIN = "/files/v1/refs/main"


class FilesBench:
    """One server; its blocks are in a folder of the test."""

    def __init__(self, url: str, blocks: Path) -> None:
        self.url = url
        self.blocks = blocks
        self.http = httpx.Client(base_url=url)

    def file(self, method: str, path: str, branch: str = "main", **more: Any) -> httpx.Response:
        """Sends a request about the bytes of a file."""
        return self.http.request(method, target(path, branch), **more)

    def put(self, path: str, body: bytes, **headers: str) -> httpx.Response:
        """Writes a file; headers are written with underscores."""
        return self.file("PUT", path, content=body, headers=_dashed(headers))

    def get(self, path: str, **headers: str) -> httpx.Response:
        """Reads a file."""
        return self.file("GET", path, headers=_dashed(headers))

    def json(self, word: str, body: Any, branch: str = "main") -> httpx.Response:
        """Sends a request with a body as JSON."""
        return self.http.post(f"/files/v1/refs/{branch}/{word}", json=body)

    def paths(self, prefix: str = "", branch: str = "main") -> list[str]:
        """Returns the paths of all files."""
        found: list[str] = []
        token = None
        while True:
            params = {"prefix": prefix, **({} if token is None else {"page-token": token})}
            page = self.http.get(f"/files/v1/refs/{branch}/files", params=params).json()
            found += [each["path"] for each in page["files"]]
            token = page["token"]
            if token is None:
                return found

    def stored(self) -> list[Path]:
        """Returns the files below the folder of blocks."""
        return [path for path in self.blocks.rglob("*") if path.is_file() and path.stat().st_size]

    def send_raw(self, raw: bytes, *, finish: bool = True) -> bytes:
        """Sends bytes on a connection of their own; returns what comes back until it is closed.

        Without `finish` the connection is cut after them.
        """
        parts = urlsplit(self.url)
        with socket.create_connection((parts.hostname, parts.port or 80), 30) as sock:
            sock.sendall(raw)
            if not finish:
                sock.shutdown(socket.SHUT_WR)
            received = b""
            while piece := sock.recv(65_536):
                received += piece
            return received


def target(path: str, branch: str = "main") -> str:
    """Returns the address of a file."""
    return f"/files/v1/refs/{quote(branch, safe='@')}/file?path={quote(path, safe='')}"


def head(method: str, address: str, headers: Mapping[str, str]) -> bytes:
    """Returns the head of a request."""
    lines = [f"{method} {address} HTTP/1.1", "host: 127.0.0.1", "connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


@contextmanager
def bench(folder: Path, *repositories: str, store: str = "memory:") -> Iterator[FilesBench]:
    """Runs a server."""
    folder.mkdir(exist_ok=True)
    with serving(store, *repositories, blocks=folder) as url:
        one = FilesBench(url, folder)
        try:
            yield one
        finally:
            one.http.close()


def _dashed(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}
