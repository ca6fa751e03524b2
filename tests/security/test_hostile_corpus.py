"""Hostile names, paths, headers and tokens: no server error, no access, no two names become one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import md5
from urllib.parse import quote

import pytest

from lochan.access.policy import Call
from lochan.assembly.access import open_access
from lochan.assembly.event_feeds import FeedReader
from lochan.assembly.serve import Telemetry, faces_of
from lochan.base.ids import EMPTY_ID
from lochan.base.secrets import Secret
from lochan.kernel.repository import Ports
from lochan.model.access import AccessPolicy, Statement
from lochan.persist.retry import RetryPolicy
from lochan.service.repositories import Repositories
from lochan.settings import Settings
from lochan.stores.memory.store import MemoryStore
from lochan.system import SystemClock, SystemRandom, ThreadWaiting
from tests.security.hostile import AUTHORIZATIONS, HEADERS, NAMES, PATHS, on_the_wire
from tests.transport.world import Answer, Client, RunningServer, running

KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
ADMIN = Call("ada")

# Places of a name in an address, and what a caller with few rights may get there.
PLACES = (
    "/api/v2/trees/{}",
    "/api/v2/trees/{}/entries",
    "/api/v2/trees/main/contents/{}",
    "/api/v2/trees/dev%2Fx@/contents/{}",
    "/api/v2/trees/main/diff/{}",
    "/api/v1/trees/tree/{}",
    "/api/v1/contents/{}?ref=main",
    "/r/{}/api/v2/trees",
    "/r/{}/api/v2/trees/main/entries",
    "/files/v1/refs/{}/files",
    "/files/v1/refs/{}/file?path=x",
    "/files/v1/refs/main/stat?path={}",
    "/files/v1/refs/dev%2Fx/file?path={}",
    "/access/v1/users/{}",
    "/access/v1/users/{}/tokens",
    "/access/v1/groups/{}/members",
    "/access/v1/policies/{}",
    "/access/v1/tokens/{}",
)


class Served:
    """A running server with an administrator and a caller who may read little."""

    def __init__(self, server: RunningServer, admin: str, limited: str) -> None:
        self.server = server
        self.admin = f"Authorization: Bearer {admin}"
        self.limited = f"Authorization: Bearer {limited}"

    def send(self, method: str, target: bytes, *lines: str, body: bytes = b"") -> Answer:
        """Sends a request on a connection of its own, because refusals may close it."""
        with Client(self.server) as client:
            return client.ask(method, target.decode("latin-1"), body, *lines)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    settings = Settings(store="memory:", secret_key=Secret(KEY))
    store, ports = MemoryStore(), Ports(SystemClock(), SystemRandom(), ThreadWaiting())
    access = open_access(settings, store, ports, RetryPolicy(), None)
    control = access.control
    admin = control.set_up(Call(), "ada")
    repositories = Repositories(store, ports, policy=access.policy)
    feeds = FeedReader(ports).feeds
    faces = faces_of(settings, repositories, access, Telemetry(settings), feeds)
    with running(store, faces, repositories=repositories) as server:
        principal = access.authenticator.authenticate(f"Bearer {admin.secret}")
        call = Call("ada", rights=principal.rights)
        repositories.create(call, "default")
        control.create_user(call, "lee")
        statement = Statement(
            effect="allow",
            actions=("read",),
            repositories=("default",),
            references=("dev/*",),
            keys=("sales.*",),
        )
        control.put_policy(call, AccessPolicy("little", (statement,)))
        control.attach(call, "user", "lee", "little")
        limited = control.create_token(call, "lee")
        yield Served(server, admin.secret, limited.secret)


def test_there_are_enough_of_them():
    names = sum(len(on_the_wire(name)) for name in NAMES)
    assert len(NAMES) + len(PATHS) + len(HEADERS) + len(AUTHORIZATIONS) >= 450
    assert names + len(PATHS) + len(HEADERS) + len(AUTHORIZATIONS) >= 600


@pytest.mark.slow
def test_no_made_up_credentials_are_accepted(served):
    for text in AUTHORIZATIONS:
        line = f"Authorization: {text}".encode().decode("latin-1")
        for target in (b"/api/v2/trees", b"/access/v1/me"):
            answer = served.send("GET", target, line)
            assert answer.status in (400, 401, 431), (text[:100], answer)


def test_no_header_stands_in_for_credentials(served):
    for name, value in HEADERS:
        for target in (b"/api/v2/trees", b"/access/v1/users", b"/api/v1/trees"):
            answer = served.send("GET", target, f"{name}: {value}")
            assert answer.status in (400, 401, 403, 417), (name, answer)


@pytest.mark.slow
def test_no_spelling_of_a_path_goes_around_authentication(served):
    for path in PATHS:
        for method in ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"):
            answer = served.send(method, path)
            assert answer.status in (400, 401, 404, 405, 411), (method, path, answer)
            answer = served.send(method, path, served.admin)
            assert answer.status < 500, (method, path, answer)


@pytest.mark.slow
def test_no_name_gives_access_to_what_is_hidden(served):
    for name in NAMES:
        for raw in on_the_wire(name):
            for place in PLACES:
                target = place.encode().replace(b"{}", raw)
                answer = served.send("GET", target, served.limited)
                assert 400 <= answer.status < 500, (target[:100], answer)
                answer = served.send("GET", target)
                assert answer.status in (400, 401, 404, 405, 414, 431), (target[:100], answer)


def test_different_names_stay_different_keys(served):
    """Each name is written as the key of a table; what was accepted is listed once."""
    accepted: dict[str, str] = {}
    for number, name in enumerate(NAMES):
        content = {
            "type": "ICEBERG_TABLE",
            "metadataLocation": f"s3://t/{number}.json",
            "snapshotId": number,
            "schemaId": 1,
            "specId": 1,
            "sortOrderId": 1,
        }
        operation = {"type": "PUT", "key": {"elements": [name]}, "content": content}
        body = json.dumps({"commitMeta": {"message": "m"}, "operations": [operation]}).encode()
        target = f"/api/v2/trees/main@{EMPTY_ID.hex()}/history/commit".encode()
        answer = served.send(
            "POST", target, served.admin, "Content-Type: application/json", body=body
        )
        assert answer.status in (200, 400, 413), (name[:80], answer)
        if answer.status == 200:
            accepted[name] = content["metadataLocation"]  # type: ignore[assignment]
    target = b"/api/v2/trees/main/entries?content=true"
    entries = served.send("GET", target, served.admin).json()["entries"]
    found = {entry["name"]["elements"][0]: entry for entry in entries}
    assert len(found) == len(entries)
    assert {name: each["content"]["metadataLocation"] for name, each in found.items()} == accepted
    assert len(accepted) > 100


def test_different_names_stay_different_files(served):
    """Each name is written as the path of a file; what was accepted is listed once."""
    accepted: dict[str, str] = {}
    for name in NAMES:
        target = b"/files/v1/refs/main/file?path=" + quote(name, safe="").encode()
        answer = served.send("PUT", target, served.admin, body=f"of {name}".encode())
        assert answer.status in (200, 400, 413, 414, 431), (name[:80], answer)
        if answer.status == 200:
            accepted[name] = md5(f"of {name}".encode(), usedforsecurity=False).hexdigest()
    target = b"/files/v1/refs/main/files?max-records=1000"
    files = served.send("GET", target, served.admin).json()["files"]
    assert len(files) == len({each["path"] for each in files})
    assert {each["path"]: each["etag"] for each in files} == accepted
    assert len(accepted) > 100


def test_different_names_of_users_stay_different_or_are_refused(served):
    accepted = []
    for name in NAMES:
        body = json.dumps({"id": name}).encode()
        answer = served.send(
            "POST",
            b"/access/v1/users",
            served.admin,
            "Content-Type: application/json",
            body=body,
        )
        assert answer.status in (200, 201, 400, 409), (name[:80], answer)
        if answer.status < 300:
            accepted.append(name)
    listed = served.send("GET", b"/access/v1/users?limit=1000", served.admin).json()
    ids = [each["id"] for each in listed["users"]]
    assert sorted(ids) == sorted({*accepted, "ada", "lee"})
    assert all(each.isascii() and each.isprintable() and "/" not in each for each in ids)
