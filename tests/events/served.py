"""A server in this process whose changes a runner of subscriptions gets; nothing here is a test."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec

from lochan.access.policy import Call
from lochan.access.rights import OPEN_RIGHTS
from lochan.assembly.access import open_access
from lochan.assembly.events import EventRunner
from lochan.assembly.places import Places
from lochan.faces.files.face import FilesFace
from lochan.faces.lakefs.face import LakefsFace
from lochan.faces.nessie.face import nessie_faces
from lochan.kernel.context import Tuning
from lochan.kernel.repository import Ports
from lochan.persist.retry import RetryPolicy
from lochan.service.repositories import Repositories
from lochan.settings import Settings
from lochan.stores.memory.store import MemoryStore
from lochan.transport.listener import ListenerOptions
from lochan.transport.observers import RequestObservers
from lochan.transport.server import Options
from tests.transport.world import running


class Served(msgspec.Struct, frozen=True):
    """Where the API of tables and files is served, and where that of lakeFS."""

    address: str
    lakefs: str


@contextmanager
def served(runner: EventRunner, ports: Ports, *, tracer: Any = None) -> Iterator[Served]:
    """Runs a server on a memory store, with a default repository."""
    store = MemoryStore()
    with tempfile.TemporaryDirectory(prefix="lochan-events-") as folder:
        places = Places(Path(folder))
        access = open_access(Settings(store="memory:"), store, ports, RetryPolicy(), None)
        repositories = Repositories(
            store,
            ports,
            policy=access.policy,
            tuning=Tuning(observer=runner.hub),
            files=places.support(),
        )
        repositories.open_or_create(Call(rights=OPEN_RIGHTS), "default")
        known = access.authentication
        gateway = LakefsFace(repositories, access.control, "default", known)
        with running(
            store,
            [*nessie_faces(repositories, "default", known), FilesFace("default", known)],
            Options(port=0),
            repositories=repositories,
            observers=RequestObservers(tracer=tracer),
            listeners=[ListenerOptions(faces=[gateway])],
        ) as server:
            main, files = (each.address for each in server.server.listeners)
            yield Served(main, files)
        places.close()


def table_json(location: str) -> dict[str, Any]:
    """Returns a table as a client of version 2 sends it."""
    numbers = {"snapshotId": 1, "schemaId": 2, "specId": 3, "sortOrderId": 4}
    return {"type": "ICEBERG_TABLE", "metadataLocation": location, **numbers}


def commit_over_http(at: Served, *names: str, traceparent: str = "") -> str:
    """Commits tables to `main` as a client of Nessie's API does; returns the hash."""
    with httpx.Client(base_url=at.address) as client:
        branch = client.get("/api/v2/trees/main").json()["reference"]
        body = {
            "commitMeta": {"message": "commit"},
            "operations": [
                {"type": "PUT", "key": {"elements": [name]}, "content": table_json(name)}
                for name in names
            ],
        }
        headers = {"traceparent": traceparent} if traceparent else {}
        answer = client.post(
            f"/api/v2/trees/main@{branch['hash']}/history/commit", json=body, headers=headers
        )
        assert answer.status_code == 200, answer.text
        return str(answer.json()["targetBranch"]["hash"])
