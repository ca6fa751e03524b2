"""The requests of the rows, as bytes to be sent, and what the rows read from their answers.

`FilesApi` is what the rows know; `LochanFiles` is `/files/v1`, and `lakefs_api.py` has the API of
lakeFS over the same files.
"""

from __future__ import annotations

import json
from typing import NamedTuple, Protocol

from benchmarks.http_load.connection import Requests

BINARY = "Content-Type: application/octet-stream\r\n"
FRESH = "If-None-Match: *\r\n"


class Branch(NamedTuple):
    """A branch, and its commit when it was last looked at."""

    name: str
    hash: str


class FilesApi(Protocol):
    """Builds requests about branches and files; paths have no character that is to be encoded."""

    requests: Requests

    def at(self, commit: str) -> str:
        """Returns the reference that means a commit, whatever branch has it."""
        ...

    def upload(self, branch: str, path: str, body: bytes, *, fresh: bool = False) -> bytes:
        """Writes a file, on the condition that there is none if it is a fresh one."""
        ...

    def stage_copy(self, branch: str, path: str, source: str, source_path: str) -> bytes:
        """Stages a file whose bytes are stored already, by one request."""
        ...

    def stat(self, ref: str, path: str) -> bytes:
        """Asks what a file is."""
        ...

    def get(self, ref: str, path: str) -> bytes:
        """Reads the bytes of a file."""
        ...

    def list_files(self, ref: str, limit: int) -> bytes:
        """Lists the first files."""
        ...

    def list_uncommitted(self, branch: str) -> bytes:
        """Lists what is staged."""
        ...

    def diff(self, left: str, right: str) -> bytes:
        """Compares two references as they are."""
        ...

    def log(self, ref: str, limit: int, token: str = "") -> bytes:
        """Lists the newest commits."""
        ...

    def log_of_files(self, ref: str, limit: int, token: str = "") -> bytes:
        """Lists the newest commits that changed a file; an empty commit is none of them."""
        ...

    def find_branch(self, name: str) -> bytes:
        """Asks for a branch."""
        ...

    def create_branch(self, name: str, source: Branch) -> bytes:
        """Makes a branch."""
        ...

    def commit(self, branch: str, message: str, *, allow_empty: bool = False) -> bytes:
        """Commits what is staged."""
        ...

    def merge(self, source: Branch, target: Branch) -> bytes:
        """Merges a branch into another one."""
        ...

    def read_branch(self, name: str, body: bytes) -> Branch:
        """Returns a branch by the answer to `find_branch`, `create_branch` or `commit`."""
        ...

    def read_page(self, body: bytes) -> tuple[int, str]:
        """Returns how many commits a page of a log has, and the token of the next one."""
        ...


class LochanFiles:
    """The requests to `/files/v1`, and those about branches to `/api/v2`."""

    def __init__(self, address: str) -> None:
        self.requests = Requests(address, "")

    def at(self, commit: str) -> str:
        return f"@{commit}"

    def upload(self, branch: str, path: str, body: bytes, *, fresh: bool = False) -> bytes:
        more = BINARY + (FRESH if fresh else "")
        return self.requests.put(f"/files/v1/refs/{branch}/file?path={path}", body, more)

    def stage_copy(self, branch: str, path: str, source: str, source_path: str) -> bytes:
        body = f'{{"path":"{path}","sourceRef":"{source}","sourcePath":"{source_path}"}}'
        return self.requests.post(f"/files/v1/refs/{branch}/copy", body.encode())

    def stat(self, ref: str, path: str) -> bytes:
        return self.requests.get(f"/files/v1/refs/{ref}/stat?path={path}")

    def get(self, ref: str, path: str) -> bytes:
        return self.requests.get(f"/files/v1/refs/{ref}/file?path={path}")

    def list_files(self, ref: str, limit: int) -> bytes:
        return self.requests.get(f"/files/v1/refs/{ref}/files?max-records={limit}")

    def list_uncommitted(self, branch: str) -> bytes:
        return self.requests.get(f"/files/v1/refs/{branch}/uncommitted?max-records=1000")

    def diff(self, left: str, right: str) -> bytes:
        return self.requests.get(f"/files/v1/refs/{left}/diff/{right}?max-records=1000")

    def log(self, ref: str, limit: int, token: str = "") -> bytes:
        return self.requests.get(f"/api/v2/trees/{ref}/history?{_page(limit, token)}")

    def log_of_files(self, ref: str, limit: int, token: str = "") -> bytes:
        return self.requests.get(f"/files/v1/refs/{ref}/log?prefix=&{_page(limit, token)}")

    def find_branch(self, name: str) -> bytes:
        return self.requests.get(f"/api/v2/trees/{name}")

    def create_branch(self, name: str, source: Branch) -> bytes:
        body = f'{{"type":"BRANCH","name":"{source.name}","hash":"{source.hash}"}}'
        return self.requests.post(f"/api/v2/trees?name={name}&type=BRANCH", body.encode())

    def commit(self, branch: str, message: str, *, allow_empty: bool = False) -> bytes:
        body = f'{{"commitMeta":{{"message":"{message}"}},"operations":[]}}'
        option = "?allow-empty=true" if allow_empty else ""
        return self.requests.post(f"/files/v1/refs/{branch}/commit{option}", body.encode())

    def merge(self, source: Branch, target: Branch) -> bytes:
        body = f'{{"fromRefName":"{source.name}","fromHash":"{source.hash}","message":"merged"}}'
        path = f"/api/v2/trees/{target.name}@{target.hash}/history/merge"
        return self.requests.post(path, body.encode())

    def read_branch(self, name: str, body: bytes) -> Branch:
        answer = json.loads(body)
        found = answer.get("reference") or answer["targetBranch"]
        return Branch(name, found["hash"])

    def read_page(self, body: bytes) -> tuple[int, str]:
        answer = json.loads(body)
        return len(answer["logEntries"]), answer["token"] or ""


def _page(limit: int, token: str) -> str:
    return f"max-records={limit}" + (f"&page-token={token}" if token else "")
