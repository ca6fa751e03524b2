"""A server in this process with users, and followers of its events; nothing here is a test."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec

from lochan.access.policy import Call
from lochan.assembly.access import ServerAccess, open_access
from lochan.assembly.event_feeds import FeedReader
from lochan.assembly.places import Places
from lochan.base.secrets import Secret
from lochan.faces.events.face import EventsFace
from lochan.faces.events.signals import FollowerSignals
from lochan.faces.files.face import FilesFace
from lochan.faces.nessie.face import nessie_faces
from lochan.kernel.repository import Ports
from lochan.kv.store import Store
from lochan.model.access import AccessPolicy, Statement
from lochan.persist.retry import RetryPolicy
from lochan.service.repositories import Repositories
from lochan.settings import Settings
from lochan.stores.memory.store import MemoryStore
from lochan.system import SystemClock, SystemRandom, ThreadWaiting
from lochan.transport.server import Options
from tests.transport.world import RunningServer, running

KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
WAIT_S = 30


class Message(msgspec.Struct, frozen=True):
    """One server-sent message; without an event it only moves the position."""

    event: str
    id: str
    data: Any

    @property
    def at(self) -> tuple[str, str]:
        """The type and where it happened, for short comparisons."""
        return self.event, str(self.data["reference"]["name"])


class Followed:
    """An open stream."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.iter_lines()
        self.last_id = ""

    def messages(self) -> Iterator[Message]:
        """Yields everything that comes, comments left aside."""
        fields: dict[str, str] = {}
        for line in self._lines:
            if line.startswith(":"):
                continue
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
                continue
            if fields:
                data = json.loads(fields["data"]) if "data" in fields else None
                self.last_id = fields.get("id", self.last_id)
                yield Message(fields.get("event", ""), self.last_id, data)
            fields = {}

    def take(self, count: int) -> list[Message]:
        """Returns the next events."""
        found: list[Message] = []
        for message in self.messages():
            if message.event:
                found.append(message)
            if len(found) == count:
                return found
        raise AssertionError(f"the stream ended after {found}")

    def position(self) -> str:
        """Returns the next position that comes without an event."""
        for message in self.messages():
            assert not message.event, message
            return message.id
        raise AssertionError("the stream ended")


class StreamServer:
    """A server; requests are those of one caller, by default of the administrator."""

    def __init__(self, server: RunningServer, access: ServerAccess, secret: str) -> None:
        self.server = server
        self.access = access
        self.secret = secret
        principal = access.authenticator.authenticate(f"Bearer {secret}")
        self.call = Call("ada", rights=principal.rights)
        self.url = f"http://{server.host}:{server.port}"
        self.http = self.client(secret)

    def client(self, secret: str) -> httpx.Client:
        headers = {"authorization": f"Bearer {secret}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=WAIT_S, trust_env=False)

    def user(self, name: str, *statements: Statement) -> str:
        """Creates a user with one policy, and returns a token of it."""
        control = self.access.control
        control.create_user(self.call, name)
        control.put_policy(self.call, AccessPolicy(f"of-{name}", statements))
        control.attach(self.call, "user", name, f"of-{name}")
        return control.create_token(self.call, name).secret

    @contextmanager
    def follow(self, token: str = "", secret: str = "", **query: Any) -> Iterator[Followed]:
        """Opens a stream."""
        names = {name.replace("_", "-"): value for name, value in query.items()}
        headers = {"last-event-id": token} if token else {}
        client = self.client(secret or self.secret)
        with client, client.stream("GET", "/events/v1", params=names, headers=headers) as response:
            if response.status_code != 200:
                response.read()
            assert response.status_code == 200, response.text
            yield Followed(response)

    def past(self, token: str = "", secret: str = "", **query: Any) -> list[Message]:
        """Returns the events up to the present, from a stream that has an end."""
        with self.follow(token, secret, follow="false", **query) as followed:
            return [one for one in followed.messages() if one.event]

    def commit(self, branch: str, *names: str, message: str = "commit") -> str:
        """Puts tables; those whose name begins with a minus are deleted."""
        operations: list[dict[str, Any]] = []
        for name in names:
            key = {"elements": name.removeprefix("-").split(".")}
            if name.startswith("-"):
                operations.append({"type": "DELETE", "key": key})
                continue
            numbers = {"snapshotId": 1, "schemaId": 2, "specId": 3, "sortOrderId": 4}
            content = {"type": "ICEBERG_TABLE", "metadataLocation": name, **numbers}
            operations.append({"type": "PUT", "key": key, "content": content})
        body = {"commitMeta": {"message": message}, "operations": operations}
        place = f"{branch}@{self.head(branch)}".replace("/", "%2F")
        answer = self.http.post(f"/api/v2/trees/{place}/history/commit", json=body)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["targetBranch"]["hash"])

    def head(self, name: str) -> str:
        answer = self.http.get(f"/api/v2/trees/{name.replace('/', '%2F')}")
        return str(answer.json()["reference"]["hash"])

    def branch(self, name: str, source: str = "main") -> None:
        body = {"type": "BRANCH", "name": source, "hash": self.head(source)}
        answer = self.http.post(f"/api/v2/trees?name={name}&type=BRANCH", json=body)
        assert answer.status_code == 200, answer.text

    def delete(self, name: str) -> None:
        place = f"{name}@{self.head(name)}".replace("/", "%2F")
        assert self.http.delete(f"/api/v2/trees/{place}").status_code == 200

    def merge(self, target: str, source: str) -> None:
        body = {"fromRefName": source, "fromHash": self.head(source)}
        place = f"{target}@{self.head(target)}".replace("/", "%2F")
        answer = self.http.post(f"/api/v2/trees/{place}/history/merge", json=body)
        assert answer.status_code == 200, answer.text


@contextmanager
def stream_server(
    store: Store | None = None,
    *,
    options: Options | None = None,
    heartbeat_s: float = 0.2,
    first: StreamServer | None = None,
) -> Iterator[StreamServer]:
    """Runs a server; with another one of the same store, the users and data are that one's."""
    store = store or MemoryStore()
    settings = Settings(store="memory:", secret_key=Secret(KEY))
    ports = Ports(SystemClock(), SystemRandom(), ThreadWaiting())
    access = open_access(settings, store, ports, RetryPolicy(), None)
    secret = access.control.set_up(Call(), "ada").secret if first is None else first.secret
    reader = FeedReader(ports, poll_ms=100)
    with tempfile.TemporaryDirectory(prefix="lochan-stream-") as folder:
        places = Places(Path(folder))
        repositories = Repositories(store, ports, policy=access.policy, files=places.support())
        known = access.authentication
        signals = FollowerSignals(heartbeat_s)
        faces: Sequence[Any] = [
            *nessie_faces(repositories, "default", known),
            FilesFace("default", known),
            EventsFace("default", reader.feeds, known, signals),
        ]
        chosen = options or Options(port=0)
        try:
            with running(store, faces, chosen, repositories=repositories) as server:
                found = StreamServer(server, access, secret)
                if first is None:
                    repositories.create(found.call, "default")
                with found.http:
                    yield found
        finally:
            reader.close()
            places.close()
