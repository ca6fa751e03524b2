"""No secret appears in anything that a server writes, wherever a client has put it.

A server process runs with every kind of output on. Its secrets are sent in headers, queries, paths
and bodies, whole and malformed; then every byte that the server has written is searched for them.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import quote

import pytest

from tests.transport.world import Answer, Client, Place

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PASSWORD = "canary-password-of-the-store"


class Collector:
    """Receives traces, and keeps their bytes."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        received = self.received

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                received.append(self.rfile.read(int(self.headers["content-length"])))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1/traces"
        self._thread = Thread(target=self._server.serve_forever)

    def __enter__(self) -> Collector:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Outputs:
    """A server process and everything that it writes."""

    def __init__(self, folder: Path, access_log: str, traces: Collector) -> None:
        self._folder = folder
        self._traces = traces
        self.key = base64.b64encode(os.urandom(32)).decode()
        self.answers: list[Answer] = []
        environment = os.environ | {
            "LOCHAN_SECRET_KEY": self.key,
            "LOCHAN_STORE": f"rocksdb:{folder}/store",
            "LOCHAN_PORT": "0",
            "LOCHAN_SETUP_USER": "ada",
            "LOCHAN_SETUP_TOKEN_FILE": f"{folder}/token",
            "LOCHAN_ACCESS_LOG": access_log,
            "LOCHAN_AUDIT_LOG": "all",
            "LOCHAN_AUDIT_FILE": f"{folder}/audit",
            "LOCHAN_METRICS": "true",
            "LOCHAN_TRACE_ENDPOINT": traces.url,
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src"))),
        }
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.transport.serving_child"],
                env=environment,
                cwd=folder,
                stdout=out,
                stderr=err,
            )
        while not (folder / "out").read_text().endswith("\n"):
            assert self._process.poll() is None, (folder / "err").read_text()
        port = int((folder / "out").read_text().rpartition(":")[2])
        self._place = Place(port)
        self.token = (folder / "token").read_text().strip()

    def ask(self, method: str, target: str, body: bytes = b"", *lines: str) -> Answer:
        """Sends a request on a connection of its own; failed ones are kept."""
        with Client(self._place) as client:
            answer = client.ask(method, target, body, *lines)
        if answer.status >= 400:
            self.answers.append(answer)
        return answer

    def as_ada(self, method: str, target: str, body: object = None, *lines: str) -> Answer:
        raw = b"" if body is None else json.dumps(body).encode()
        return self.ask(method, target, raw, f"Authorization: Bearer {self.token}", *lines)

    def written(self) -> dict[str, bytes]:
        """Ends the server; returns all that it has written, by the place."""
        metrics = self.as_ada("GET", "/metrics").body
        assert b"lochan_requests" in metrics
        self._process.terminate()
        assert self._process.wait(60) == 0
        files = {name: (self._folder / name).read_bytes() for name in ("out", "err", "audit")}
        errors = b"".join(answer.body + repr(answer.headers).encode() for answer in self.answers)
        traces = b"".join(self._traces.received)
        assert all(files.values())
        assert traces
        assert errors
        return {**files, "metrics": metrics, "errors": errors, "traces": traces}

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


@contextmanager
def serving(folder: Path, access_log: str) -> Iterator[Outputs]:
    with Collector() as traces:
        served = Outputs(folder, access_log, traces)
        try:
            yield served
        finally:
            served.kill()


def basic(name: str, secret: str) -> str:
    return "Authorization: Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()


def send_everywhere(served: Outputs, secret: str) -> None:
    """Puts a secret into every place of a request that a client may mistake for the right one."""
    escaped = quote(secret, safe="")
    for line in (
        f"Authorization: Bearer {secret}x",
        f"Authorization: Bearer {secret[:-1]}",
        f"Authorization: {secret}",
        f"Authorization: Token {secret}",
        f"Authorization: Bearer {secret} {secret}",
        basic("ada", secret),
        basic(secret, "x"),
        basic(secret, secret),
        f"X-Request-Id: {secret}",
        f"Traceparent: 00-{secret}-01",
        f"Idempotency-Key: {secret}",
        f"Cookie: token={secret}",
        f"User-Agent: {secret}",
        f"X-Api-Key: {secret}",
    ):
        served.ask("GET", "/api/v2/trees", b"", line)
        served.ask("POST", "/api/v2/trees", b"{", line)
    for path in (
        f"/{escaped}",
        f"/api/v2/trees/{escaped}",
        f"/api/v2/trees/{escaped}/entries",
        f"/api/v1/trees/tree/{escaped}",
        f"/api/v2/trees/main/contents/{escaped}",
        f"/r/{escaped}/api/v2/config",
        f"/access/v1/tokens/{escaped}",
        f"/access/v1/users/{escaped}/tokens",
        f"/access/v1/{escaped}",
        f"/metrics/{escaped}",
    ):
        for method in ("GET", "DELETE", "PUT"):
            served.ask(method, path)
            served.as_ada(method, path)
    for name in ("access_token", "token", "page-token", "filter", "max-records", "fetch", "x"):
        served.ask("GET", f"/api/v2/trees?{name}={escaped}")
        served.as_ada("GET", f"/api/v2/trees?{name}={escaped}")
        served.as_ada("GET", f"/api/v2/trees/main/entries?{name}={escaped}")
    for body in (
        {"id": secret},
        {"accessKeyId": secret, "secret": secret},
        {"type": secret, "name": secret},
        {"commitMeta": {"message": secret}, "operations": secret},
        secret,
    ):
        for path in (
            "/access/v1/users",
            "/access/v1/login",
            "/access/v1/setup",
            "/api/v2/trees",
            "/api/v2/trees/main/history/commit",
        ):
            served.ask("POST", path, json.dumps(body).encode())
            served.as_ada("POST", path, body)
    served.as_ada("PUT", f"/access/v1/groups/{escaped}/members/{escaped}")
    served.as_ada("POST", "/access/v1/explain", {"user": secret, "action": secret})


@pytest.mark.parametrize("access_log", ["text", "json"])
def test_no_secret_is_in_anything_that_a_server_writes(tmp_path, access_log):
    with serving(tmp_path, access_log) as served:
        key = served.as_ada("POST", "/access/v1/users/ada/access-keys", {}).json()
        pair = {"accessKeyId": key["accessKey"]["id"], "secret": key["secret"]}
        login = served.ask("POST", "/access/v1/login", json.dumps(pair).encode()).json()
        other = served.as_ada("POST", "/access/v1/users/ada/tokens", {}).json()["secret"]
        assert served.ask("GET", "/access/v1/me", b"", basic(*pair.values())).status == 200
        secrets = {
            "token": served.token,
            "other token": other,
            "access key": key["secret"],
            "login": login["secret"],
            "key of the server": served.key,
        }
        for secret in secrets.values():
            send_everywhere(served, secret)
        assert not [answer for answer in served.answers if answer.status >= 500]
        written = served.written()
    for name, secret in secrets.items():
        # Also a good part of it, and as it is encoded for `Basic`.
        parts = [secret, secret[-24:], base64.b64encode(secret.encode()).decode()[:24]]
        for place, text in written.items():
            for part in parts:
                assert part.encode() not in text, f"{name} is in {place}"


@pytest.mark.parametrize(
    "store",
    [
        f"postgresql://ada:{PASSWORD}@127.0.0.1:1/lochan",
        f"postgresql://127.0.0.1:1/lochan?user=ada&password={PASSWORD}",
        f"memory:{PASSWORD}",
        f"nowhere://ada:{PASSWORD}@host/",
    ],
)
def test_the_password_of_a_store_is_in_nothing_that_a_server_writes(store, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "lochan", "serve", "--store", store, "--port", "0"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert done.returncode != 0
    assert done.stderr
    assert PASSWORD.encode() not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "keys", ["not base64 but a canary", base64.b64encode(b"canary of five").decode(), "ö canary"]
)
def test_keys_that_cannot_be_used_are_not_repeated(keys, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "lochan", "serve", "--store", "memory:", "--port", "0"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "LOCHAN_SECRET_KEY": keys},
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 2
    assert b"secret_key" in done.stderr
    assert keys.encode() not in done.stdout + done.stderr
    assert b"canary" not in done.stdout + done.stderr
