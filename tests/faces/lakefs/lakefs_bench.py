"""A server with the lakeFS API and its first user, and requests to it; nothing here is a test."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx

from lochan.access.policy import Call
from lochan.access.rights import OPEN_RIGHTS
from lochan.assembly import open_store
from lochan.assembly.access import open_access
from lochan.assembly.places import Places
from lochan.faces.lakefs.face import LakefsFace
from lochan.faces.nessie.face import nessie_faces
from lochan.kernel.repository import Ports
from lochan.persist.retry import RetryPolicy
from lochan.service.file_places import FileSupport
from lochan.service.repositories import Repositories
from lochan.settings import Settings
from lochan.system import SystemClock, SystemRandom, ThreadWaiting
from lochan.transport.listener import ListenerOptions
from lochan.transport.server import Options, Server
from tests.security.guarded_wire import PresigningPlace

KEY = "AKIAIOSFODNN7EXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
SETUP = {"username": "ada", "key": {"access_key_id": KEY, "secret_access_key": SECRET}}

_numbers = count(1)


class LakefsBench:
    """One server; `url` is its port for files, `main` its other one."""

    def __init__(self, main: str, url: str, folder: Path) -> None:
        self.main = main
        self.url = url
        self.folder = folder
        self.anonymous = httpx.Client(base_url=f"{url}/api/v1")
        self.http = httpx.Client(base_url=f"{url}/api/v1", auth=(KEY, SECRET))

    def close(self) -> None:
        """Closes the connections."""
        self.anonymous.close()
        self.http.close()

    def repository(self, **more: Any) -> LakefsRepository:
        """Creates a repository with a name of its own."""
        name = f"repository-{next(_numbers)}"
        body = {"name": name, "storage_namespace": f"local://place/{name}", **more}
        made = self.http.post("/repositories", json=body)
        assert made.status_code == 201, made.text
        return LakefsRepository(self, name)


class LakefsRepository:
    """Requests to one repository."""

    def __init__(self, bench: LakefsBench, name: str) -> None:
        self.bench = bench
        self.name = name

    def send(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Sends a request."""
        return self.bench.http.request(method, f"/repositories/{self.name}{path}", **more)

    def done(self, method: str, path: str, **more: Any) -> Any:
        """Sends a request that has to succeed; returns its JSON."""
        answer = self.send(method, path, **more)
        assert answer.status_code < 300, (method, path, answer.status_code, answer.text)
        return (
            answer.json() if answer.content and "json" in answer.headers["content-type"] else None
        )

    def upload(self, path: str, data: bytes, branch: str = "main", **headers: str) -> Any:
        """Writes an object; headers are written with underscores."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        params = {"path": path}
        return self.done(
            "POST", f"/branches/{branch}/objects", params=params, content=data, headers=named
        )

    def commit(self, message: str = "m", branch: str = "main", **more: Any) -> str:
        """Commits what is staged; returns the id."""
        body = {"message": message, **more}
        digits = self.done("POST", f"/branches/{branch}/commits", json=body)["id"]
        assert isinstance(digits, str)
        return digits

    def put(self, path: str, data: bytes, branch: str = "main") -> str:
        """Writes an object and commits it."""
        self.upload(path, data, branch)
        return self.commit(f"put {path}", branch)

    def branch(self, name: str, source: str = "main", **more: Any) -> None:
        """Creates a branch."""
        self.done("POST", "/branches", json={"name": name, "source": source, **more})

    def head(self, branch: str = "main") -> str:
        """Returns the id of the last commit."""
        digits = self.done("GET", f"/branches/{branch}")["commit_id"]
        assert isinstance(digits, str)
        return digits

    def read(self, path: str, ref: str = "main") -> bytes | None:
        """Returns the bytes of an object, None if there is none."""
        answer = self.send("GET", f"/refs/{ref}/objects", params={"path": path})
        assert answer.status_code in (200, 404), answer.text
        return answer.content if answer.status_code == 200 else None

    def paged(self, path: str, amount: int, **params: Any) -> list[Any]:
        """Returns all items of a listing, page by page."""
        found: list[Any] = []
        after = ""
        while True:
            page = self.done("GET", path, params={**params, "amount": amount, "after": after})
            shown = page["pagination"]
            assert shown["results"] == len(page["results"]) <= amount
            assert shown["max_per_page"] == 1_000
            found += page["results"]
            if not shown["has_more"]:
                assert shown["next_offset"] == ""
                return found
            after = shown["next_offset"]
            assert after


@contextmanager
def lakefs_bench(
    folder: Path, *, set_up: bool = True, signs: bool = False, **options: Any
) -> Iterator[LakefsBench]:
    """Runs a server in a thread; its first user has the access key above.

    With `signs` places have URLs, as S3 has; `options` are those of places.
    """
    ready, urls = Event(), []
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def run() -> None:
        store = open_store("memory:")
        places = Places(folder, **options)
        try:
            ports = Ports(SystemClock(), SystemRandom(), ThreadWaiting())
            access = open_access(Settings(store="memory:"), store, ports, RetryPolicy(), None)
            files = places.support()
            opening = files.open_place
            if signs:
                files = FileSupport(
                    lambda url, instance: PresigningPlace(opening(url, instance)), files.new_lock
                )
            opened = Repositories(store, ports, policy=access.policy, files=files)
            opened.open_or_create(Call(rights=OPEN_RIGHTS), "default")
            face = LakefsFace(opened, access.control, "default", access.authentication)
            server = Server(
                store,
                opened,
                nessie_faces(opened, "default", access.authentication),
                Options(port=0),
                listeners=[ListenerOptions(faces=[face])],
            )
            await server.start()
            urls.extend(each.address for each in server.listeners)
            ready.set()
            await stop.wait()
            await server.stop()
        finally:
            places.close()
            store.close()
            ready.set()

    thread = Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    try:
        assert ready.wait(30)
        one = LakefsBench(urls[0], urls[1], folder)
        with closing(one):
            if set_up:
                assert one.anonymous.post("/setup_lakefs", json=SETUP).status_code == 200
            yield one
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        assert not thread.is_alive()
        loop.close()
