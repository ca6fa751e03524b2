"""A server process with a gateway, on a store of its own; nothing here is a test."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import msgspec
from botocore.config import Config

from lochan.client import Client


class GatewayProcess:
    """One process; its access is set up by the first of them, and kept in the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._clients: list[Any] = []
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        outside = {key: value for key, value in os.environ.items() if not key.startswith("LOCHAN_")}
        words = ["--port", "0", "--files-port", str(port), "--json"]
        words += ["--store", f"rocksdb:{folder}/store", "--data", f"{folder}/data"]
        self.log = (folder / "log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lochan", "serve", *words],
            cwd=folder,
            env=outside,
            stdout=subprocess.PIPE,
            stderr=self.log,
        )
        assert self.process.stdout is not None
        self.catalog: str = msgspec.json.decode(self.process.stdout.readline())["url"]
        self.token, self.key, self.secret = self._credentials()

    def _credentials(self) -> tuple[str, str, str]:
        kept = self._folder / "credentials"
        if not kept.exists():
            with Client(self.catalog) as client:
                token = client.access.set_up("admin").secret
            with Client(self.catalog, token=token) as client:
                made = client.access.create_access_key("admin")
            kept.write_bytes(msgspec.json.encode((token, made.key.id, made.secret)))
        found: tuple[str, str, str] = msgspec.json.decode(
            kept.read_bytes(), type=tuple[str, str, str]
        )
        return found

    def s3(self, **config: Any) -> Any:
        """Returns a client of boto3."""
        options = {"retries": {"total_max_attempts": 1}, "max_pool_connections": 16, **config}
        options["signature_version"] = "s3v4"
        made = boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id=self.key,
            aws_secret_access_key=self.secret,
            region_name="us-east-1",
            config=Config(**options),
        )
        self._clients.append(made)
        return made

    def close(self) -> None:
        """Ends the process and closes everything."""
        self.kill()
        for each in self._clients:
            each.close()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.log.close()

    def kill(self) -> None:
        """Ends the process without any warning."""
        self.process.kill()
        self.process.wait(30)


@contextmanager
def gateway_process(folder: Path) -> Iterator[GatewayProcess]:
    """Runs a server; it is killed at the end, if it is still there."""
    folder.mkdir(exist_ok=True)
    server = GatewayProcess(folder)
    try:
        yield server
    finally:
        server.close()
