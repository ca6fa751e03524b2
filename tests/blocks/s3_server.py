"""A server process whose files are on the object store of the tests; nothing here is a test."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import pytest

from benchmarks.http_load.processes import Served, start_lochan
from lochan.staging.block_store import BlockStore
from tests.blocks.s3_place import open_s3
from tests.spark.object_store import SECRET, USER, ObjectStore

_NUMBERS = count()
REPOSITORY = "default"


class FilesServer:
    """Requests to a server, and looks at its process and at its place."""

    def __init__(self, served: Served, store: ObjectStore, prefix: str) -> None:
        self.served = served
        self.http = httpx.Client(base_url=served.address, timeout=120)
        # The server reaches the object store through a wire that may be cut; this does not.
        self.place: BlockStore = open_s3(store.port, f"{prefix}/{REPOSITORY}")

    def close(self) -> None:
        self.place.close()
        self.http.close()

    def file(self, method: str, path: str, branch: str = "main", **more: Any) -> httpx.Response:
        """Sends a request about the bytes of a file."""
        return self.http.request(method, file_url(path, branch), **more)

    def post(self, word: str, body: Any, branch: str = "main") -> httpx.Response:
        """Sends a request with a body as JSON."""
        return self.http.post(f"/files/v1/refs/{branch}/{word}", json=body)

    def presigned(self, path: str, ref: str = "main") -> httpx.Response:
        return self.http.get(f"/files/v1/refs/{ref}/presigned", params={"path": path})

    def commit(self, branch: str = "main") -> str:
        """Commits what is staged; returns the commit."""
        body = {"commitMeta": {"message": "tested"}, "operations": []}
        answer = self.post("commit", body, branch)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["targetBranch"]["hash"])

    def branch(self, name: str) -> None:
        """Makes a branch where `main` is."""
        main = self.http.get("/api/v2/trees/main").json()["reference"]
        made = self.http.post(f"/api/v2/trees?name={name}&type=BRANCH", json=main)
        assert made.status_code == 200, made.text

    def delete_branch(self, name: str) -> None:
        found = self.http.get(f"/api/v2/trees/{name}").json()["reference"]
        gone = self.http.delete(f"/api/v2/trees/{name}@{found['hash']}")
        assert gone.status_code == 200, gone.text

    def place_uploads(self) -> int:
        """Returns how many multipart uploads the place has that are not finished."""
        return len(list(self.place._unfinished()))  # type: ignore[attr-defined]

    def threads(self) -> int:
        return int(self._status("Threads"))

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.served.pid}/fd"))

    def peak_mb(self) -> float:
        """Returns the most memory that the process has had since it began."""
        return int(self._status("VmHWM").split()[0]) / 1_024

    def _status(self, name: str) -> str:
        lines = Path(f"/proc/{self.served.pid}/status").read_text().splitlines()
        return next(line for line in lines if line.startswith(f"{name}:")).split(":")[1].strip()


class SlowUpload:
    """A file that is sent piece by piece, on a connection of its own."""

    def __init__(self, server: FilesServer, path: str, size: int) -> None:
        parts = urlsplit(server.served.address)
        self._socket = socket.create_connection((parts.hostname, parts.port or 80), 120)
        lines = [f"PUT {file_url(path)} HTTP/1.1", "host: 127.0.0.1", "connection: close"]
        self.send("\r\n".join([*lines, f"content-length: {size}", "", ""]).encode())

    def send(self, piece: bytes) -> None:
        self._socket.sendall(piece)

    def leave(self) -> None:
        """Cuts the connection."""
        self._socket.close()

    def status(self) -> int:
        """Returns the status of the answer."""
        with self._socket as sock:
            received = b""
            while piece := sock.recv(65_536):
                received += piece
        return int(received.split(b" ", 2)[1])


def file_url(path: str, branch: str = "main") -> str:
    """Returns the address of a file."""
    return f"/files/v1/refs/{branch}/file?path={quote(path, safe='')}"


@contextmanager
def files_server(
    store: ObjectStore, folder: Path, *, port: int = 0, imports: Sequence[str] = ()
) -> Iterator[FilesServer]:
    """Runs a server; it reaches the object store by another port if one is given."""
    prefix = f"http/{next(_NUMBERS)}"
    url = f"s3://blocks/{prefix}?endpoint=http://127.0.0.1:{port or store.port}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", USER)
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        patch.setenv("LOCHAN_IMPORT_PREFIXES", ",".join(imports))
        served = start_lochan(f"rocksdb:{folder / 'store'}", folder, "--storage", url)
    with served:
        server = FilesServer(served, store, prefix)
        try:
            yield server
        finally:
            server.close()
