"""A server with all faces, a caller that is known, and a subscriber; nothing here is a test."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import boto3
import httpx
from botocore.config import Config

from lochan.access.policy import Call
from lochan.assembly.access import open_access
from lochan.assembly.events import EventRunner
from lochan.assembly.places import Places
from lochan.base.secrets import Secret
from lochan.faces.lakefs.face import LakefsFace
from lochan.faces.nessie.face import nessie_faces
from lochan.faces.s3.face import S3Face
from lochan.kernel.context import Tuning
from lochan.kernel.repository import Ports
from lochan.persist.retry import RetryPolicy
from lochan.service.repositories import Repositories
from lochan.settings import Settings
from lochan.stores.memory.store import MemoryStore
from lochan.system import SystemClock, SystemRandom, ThreadWaiting
from lochan.transport.listener import ListenerOptions
from lochan.transport.server import Options
from lochan.wire.events import encode_event
from tests.events.collector import Collector
from tests.events.streamed import KEY
from tests.transport.world import running

WHO = "ada"


class Clients:
    """Requests of one caller to each face, in the words of its protocol."""

    def __init__(self, main: str, files: str, token: str, key: str, secret: str) -> None:
        bearer = {"authorization": f"Bearer {token}"}
        self.nessie = httpx.Client(base_url=f"{main}/api", headers=bearer, trust_env=False)
        repository = f"{files}/api/v1/repositories/default"
        self.lakefs = httpx.Client(base_url=repository, auth=(key, secret), trust_env=False)
        self.s3 = boto3.client(
            "s3",
            endpoint_url=files,
            aws_access_key_id=key,
            aws_secret_access_key=secret,
            region_name="us-east-1",
            config=Config(s3={"addressing_style": "path"}, signature_version="s3v4"),
        )

    def close(self) -> None:
        """Closes the connections."""
        self.nessie.close()
        self.lakefs.close()
        self.s3.close()

    def head(self, name: str) -> str:
        return str(self.v2("GET", f"/trees/{name}")["reference"]["hash"])

    def v1(self, method: str, path: str, body: Any = None) -> Any:
        """Sends a request of version 1 of Nessie's API."""
        return _done(self.nessie.request(method, f"/v1{path}", json=body))

    def v2(self, method: str, path: str, body: Any = None) -> Any:
        """Sends a request of version 2 of Nessie's API."""
        return _done(self.nessie.request(method, f"/v2{path}", json=body))

    def files(self, method: str, path: str, **more: Any) -> Any:
        """Sends a request of the lakeFS API."""
        return _done(self.lakefs.request(method, path, **more))

    def upload(self, branch: str, path: str, data: bytes) -> None:
        """Writes an object as a client of the lakeFS API."""
        place = f"/branches/{branch}/objects?path={quote(path, safe='')}"
        self.files("POST", place, content=data, headers={"content-type": "x/y"})

    def put(self, branch: str, path: str, data: bytes) -> None:
        """Writes an object as a client of S3."""
        self.s3.put_object(Bucket="default", Key=f"{branch}/{path}", Body=data, ContentType="x/y")


def _done(answer: httpx.Response) -> Any:
    assert answer.status_code < 300, (answer.request.url, answer.status_code, answer.text)
    return answer.json() if "json" in answer.headers.get("content-type", "") else None


class Watched:
    """A server with its clients, and the events that a subscriber got."""

    def __init__(self, runner: EventRunner, clients: Clients) -> None:
        self.clients = clients
        self._runner = runner
        self._collector = Collector()

    def watch(self) -> None:
        """Subscribes to what follows."""
        self._runner.hub.subscribe(self._collector)

    def events(self) -> Sequence[dict[str, Any]]:
        """Delivers everything; returns the events as every receiver gets them."""
        self._runner.close()
        return [json.loads(encode_event(event)) for event in self._collector.events]


@contextmanager
def watched_server() -> Iterator[Watched]:
    """Runs a server on a memory store, with a first user and a default repository."""
    store = MemoryStore()
    settings = Settings(store="memory:", secret_key=Secret(KEY))
    ports = Ports(SystemClock(), SystemRandom(), ThreadWaiting())
    access = open_access(settings, store, ports, RetryPolicy(), None)
    token = access.control.set_up(Call(), WHO).secret
    principal = access.authenticator.authenticate(f"Bearer {token}")
    call = Call(WHO, rights=principal.rights, roles=principal.roles)
    made = access.control.create_access_key(call, WHO)
    runner = EventRunner(ports, "here")
    with tempfile.TemporaryDirectory(prefix="lochan-faces-") as folder:
        places = Places(Path(folder))
        repositories = Repositories(
            store,
            ports,
            policy=access.policy,
            tuning=Tuning(observer=runner.hub),
            files=places.support(),
        )
        repositories.create(call, "default")
        known = access.authentication
        gateways: list[Any] = [
            S3Face(repositories, access.signed_authentication, ()),
            LakefsFace(repositories, access.control, "default", known),
        ]
        with running(
            store,
            nessie_faces(repositories, "default", known),
            Options(port=0),
            repositories=repositories,
            listeners=[ListenerOptions(faces=gateways)],
        ) as server:
            main, files = (each.address for each in server.server.listeners)
            clients = Clients(main, files, token, made.key.id, made.secret)
            try:
                yield Watched(runner, clients)
            finally:
                clients.close()
                runner.close()
        places.close()
