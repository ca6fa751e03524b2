"""A server with an S3 gateway and users, and clients of S3 for it; nothing here is a test."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import httpx
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials

from lochan.client import Client
from lochan.kv.store import Store
from lochan.model.access import Statement
from tests.client.serving import serving

REPOSITORY = "lake"


class _Signing(S3SigV4Auth):  # type: ignore[misc]
    """Signs what a test states about its body, if it states something."""

    def __init__(self, credentials: Credentials, payload: str) -> None:
        super().__init__(credentials, "s3", "us-east-1")
        self._payload = payload

    def payload(self, request: AWSRequest) -> str:
        return self._payload or str(super().payload(request))


class Gateway:
    """One server; the first user has an access key."""

    def __init__(self, url: str, catalog: str, token: str, blocks: Path) -> None:
        self.url = url
        self.catalog = catalog
        self.token = token
        self.blocks = blocks
        with self.admin() as client:
            made = client.access.create_access_key("admin")
        self.key, self.secret = made.key.id, made.secret
        self._clients: list[Any] = []
        self.s3 = self.client()
        self.http = httpx.Client(base_url=url)

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc

    def admin(self, repository: str = REPOSITORY) -> Client:
        """Returns a client of the catalog."""
        return Client(self.catalog, repository, token=self.token)

    def user(self, name: str, *statements: Statement) -> tuple[str, str]:
        """Makes a user with a policy; returns its access key."""
        with self.admin() as client:
            client.access.create_user(name)
            if statements:
                client.access.put_policy(f"of-{name}", list(statements))
                client.access.attach(f"of-{name}", user=name)
            made = client.access.create_access_key(name)
        return made.key.id, made.secret

    def client(self, key: str = "", secret: str = "", style: str = "path", **config: Any) -> Any:
        """Returns a client of boto3."""
        options = {"addressing_style": style, **config.pop("s3", {})}
        made = boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id=key or self.key,
            aws_secret_access_key=secret or self.secret,
            region_name="us-east-1",
            config=Config(
                s3=options, retries={"total_max_attempts": 1}, signature_version="s3v4", **config
            ),
        )
        self._clients.append(made)
        return made

    def close(self) -> None:
        """Closes all clients."""
        self.http.close()
        for each in self._clients:
            each.close()

    def put(self, key: str, body: bytes = b"x", **more: Any) -> Any:
        return self.s3.put_object(Bucket=REPOSITORY, Key=key, Body=body, **more)

    def get(self, key: str, **more: Any) -> bytes:
        body: bytes = self.s3.get_object(Bucket=REPOSITORY, Key=key, **more)["Body"].read()
        return body

    def keys(self, prefix: str = "main/", **more: Any) -> list[str]:
        found = self.s3.list_objects_v2(Bucket=REPOSITORY, Prefix=prefix, **more)
        return [each["Key"] for each in found.get("Contents", ())]

    def sign(
        self,
        method: str,
        target: str,
        headers: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        key: str = "",
        secret: str = "",
    ) -> dict[str, str]:
        """Returns the headers of a signed request, those given among them."""
        given = {"Host": self.host, **(headers or {})}
        request = AWSRequest(method, self.url + target, given, body)
        credentials = Credentials(key or self.key, secret or self.secret)
        _Signing(credentials, given.get("x-amz-content-sha256", "")).add_auth(request)
        return dict(request.headers.items())

    def send(
        self, method: str, target: str, headers: dict[str, str] | None = None, body: bytes = b""
    ) -> httpx.Response:
        """Sends a signed request as it is."""
        return self.send_signed(method, target, self.sign(method, target, headers, body), body)

    def send_signed(
        self, method: str, target: str, headers: dict[str, str], body: bytes = b""
    ) -> httpx.Response:
        """Sends a request whose headers are complete, its target byte by byte."""
        connection = HTTPConnection(self.host, timeout=30)
        try:
            connection.request(method, target, body or None, headers)
            found = connection.getresponse()
            return httpx.Response(found.status, headers=found.getheaders(), content=found.read())
        finally:
            connection.close()

    def send_raw(self, raw: bytes) -> bytes:
        """Sends bytes on a connection of their own; returns what comes back until it is closed."""
        parts = urlsplit(self.url)
        with socket.create_connection((parts.hostname, parts.port or 80), 30) as sock:
            sock.sendall(raw)
            sock.shutdown(socket.SHUT_WR)
            received = b""
            while piece := sock.recv(65_536):
                received += piece
            return received

    def stored(self) -> list[Path]:
        """Returns the files below the folder of blocks."""
        return [path for path in self.blocks.rglob("*") if path.is_file() and path.stat().st_size]


def code_of(answer: httpx.Response) -> tuple[int, str]:
    """Returns the status and the word of an error."""
    text = answer.text
    start = text.find("<Code>")
    return answer.status_code, text[start + 6 : text.find("</Code>")] if start >= 0 else ""


@contextmanager
def gateway(
    folder: Path,
    *repositories: str,
    store: str = "memory:",
    wrap: Callable[[Store], Store] | None = None,
) -> Iterator[Gateway]:
    """Runs a server with access set up."""
    folder.mkdir(exist_ok=True)
    gateways: list[str] = []
    names = (REPOSITORY, *repositories)
    with serving(store, *names, blocks=folder, gateways=gateways, wrap=wrap) as url:
        with Client(url) as client:
            token = client.access.set_up("admin").secret
        one = Gateway(gateways[0], url, token, folder)
        try:
            yield one
        finally:
            one.close()
