"""The requests of the rows to the lakeFS API, as its clients send them, with authentication."""

from __future__ import annotations

import json
from http.client import HTTPConnection

from benchmarks.http_files.api import BINARY, FRESH, Branch
from benchmarks.http_load.connection import Requests

_USER = {"username": "admin"}


class LakefsFiles:
    """The requests to `/api/v1` of the port for files, by an access key of the first user."""

    def __init__(self, address: str, credentials: str, repository: str = "default") -> None:
        self.requests = Requests(address, f"/api/v1/repositories/{repository}", basic=credentials)

    def at(self, commit: str) -> str:
        return commit

    def upload(self, branch: str, path: str, body: bytes, *, fresh: bool = False) -> bytes:
        more = BINARY + (FRESH if fresh else "")
        return self.requests.post(f"/branches/{branch}/objects?path={path}", body, more)

    def stage_copy(self, branch: str, path: str, source: str, source_path: str) -> bytes:
        body = f'{{"src_ref":"{source}","src_path":"{source_path}"}}'
        url = f"/branches/{branch}/objects/copy?dest_path={path}"
        return self.requests.post(url, body.encode())

    def stat(self, ref: str, path: str) -> bytes:
        return self.requests.get(f"/refs/{ref}/objects/stat?path={path}")

    def get(self, ref: str, path: str) -> bytes:
        return self.requests.get(f"/refs/{ref}/objects?path={path}")

    def list_files(self, ref: str, limit: int) -> bytes:
        return self.requests.get(f"/refs/{ref}/objects/ls?prefix=data/&amount={limit}")

    def list_uncommitted(self, branch: str) -> bytes:
        return self.requests.get(f"/branches/{branch}/diff?amount=1000")

    def diff(self, left: str, right: str) -> bytes:
        return self.requests.get(f"/refs/{left}/diff/{right}?type=two_dot&amount=1000")

    def log(self, ref: str, limit: int, token: str = "") -> bytes:
        return self.requests.get(f"/refs/{ref}/commits?amount={limit}&after={token}")

    def log_of_files(self, ref: str, limit: int, token: str = "") -> bytes:
        return self.requests.get(f"/refs/{ref}/commits?prefixes=&amount={limit}&after={token}")

    def find_branch(self, name: str) -> bytes:
        return self.requests.get(f"/branches/{name}")

    def create_branch(self, name: str, source: Branch) -> bytes:
        body = f'{{"name":"{name}","source":"{source.name}"}}'
        return self.requests.post("/branches", body.encode())

    def commit(
        self,
        branch: str,
        message: str,
        *,
        allow_empty: bool = False,  # noqa: ARG002
    ) -> bytes:
        # A client of lakeFS does not send it; its commit is empty if another one took its files.
        body = f'{{"message":"{message}"}}'
        return self.requests.post(f"/branches/{branch}/commits", body.encode())

    def merge(self, source: Branch, target: Branch) -> bytes:
        return self.requests.post(f"/refs/{source.name}/merge/{target.name}", b"{}")

    def read_branch(self, name: str, body: bytes) -> Branch:
        if not body.startswith(b"{"):
            return Branch(name, body.decode("ascii"))
        answer = json.loads(body)
        # A branch has its name as its id, a commit its hash.
        return Branch(name, answer.get("commit_id") or answer["id"])

    def read_page(self, body: bytes) -> tuple[int, str]:
        answer = json.loads(body)
        paging = answer["pagination"]
        return len(answer["results"]), paging["next_offset"] if paging["has_more"] else ""


def set_up(address: str) -> str:
    """Makes the first user of a new server; returns the access key and its secret."""
    connection = HTTPConnection(address.removeprefix("http://"), timeout=30)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/api/v1/setup_lakefs", json.dumps(_USER), headers)
        answer = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    return f"{answer['access_key_id']}:{answer['secret_access_key']}"
