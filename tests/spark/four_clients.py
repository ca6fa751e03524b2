"""Four kinds of client of one server: Nessie's REST, the lakeFS API, boto3, the pipeline on Spark.

Each commits, and reads what it can of a commit: tables, files, or the log. Nothing here is a test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Protocol

import httpx
import lakefs
from lakefs.client import Client as LakefsClient

from lochan.base.ids import EMPTY_ID
from lochan.client import Client
from lochan.spark.lake import Lake
from tests.faces.s3.process import GatewayProcess

REPOSITORY = "default"

Logged = list[tuple[str, str]]
"""The id and the message of each commit, the newest first."""

Tables = dict[str, dict[str, Any]]
"""The content of each table, as JSON has it."""

Files = dict[str, bytes]


class Committer(Protocol):
    """A client that changes something and commits it."""

    def commit(self, branch: str, number: int) -> tuple[str, str]:
        """Makes one commit; returns its id and its message."""


class NessieRest:
    """Version 2 of Nessie's API, by bare requests."""

    def __init__(self, server: GatewayProcess) -> None:
        bearer = {"authorization": f"Bearer {server.token}"}
        self._http = httpx.Client(base_url=f"{server.catalog}/api/v2", headers=bearer)

    def close(self) -> None:
        self._http.close()

    def _done(self, method: str, path: str, **more: Any) -> Any:
        answer = self._http.request(method, path, **more)
        assert answer.status_code < 300, (method, path, answer.status_code, answer.text)
        return answer.json()

    def head(self, branch: str) -> str:
        return str(self._done("GET", f"/trees/{branch}")["reference"]["hash"])

    def branch(self, name: str, source: str = "main") -> None:
        body = {"type": "BRANCH", "name": source, "hash": self.head(source)}
        self._done("POST", "/trees", params={"name": name, "type": "BRANCH"}, json=body)

    def commit(self, branch: str, number: int) -> tuple[str, str]:
        message = f"rest {number}"
        content = {
            "type": "ICEBERG_TABLE",
            "metadataLocation": f"s3://elsewhere/rest_{number}.json",
            "snapshotId": number,
            "schemaId": 1,
            "specId": 2,
            "sortOrderId": 3,
        }
        put = {"type": "PUT", "key": {"elements": [f"rest_{number}"]}, "content": content}
        body = {"commitMeta": {"message": message}, "operations": [put]}
        path = f"/trees/{branch}@{self.head(branch)}/history/commit"
        return self._done("POST", path, json=body)["targetBranch"]["hash"], message

    def merge(self, branch: str, source: str, message: str) -> tuple[str, str]:
        body = {"fromRefName": source, "fromHash": self.head(source), "message": message}
        path = f"/trees/{branch}@{self.head(branch)}/history/merge"
        return self._done("POST", path, json=body)["resultantTargetHash"], message

    def log(self, branch: str) -> Logged:
        found = self._pages(f"/trees/{branch}/history", "logEntries", {"max-records": 3})
        metas = [each["commitMeta"] for each in found]
        return [(meta["hash"], meta["message"]) for meta in metas]

    def tables(self, ref: str) -> Tables:
        options = {"content": "true", "max-records": 3}
        # A commit is written with an @ here.
        named = f"@{ref}" if len(ref) == len(EMPTY_ID.hex()) else ref
        found = self._pages(f"/trees/{named}/entries", "entries", options)
        return {
            ".".join(each["name"]["elements"]): each["content"]
            for each in found
            if each["type"] != "NAMESPACE"
        }

    def _pages(self, path: str, name: str, params: dict[str, Any]) -> Iterator[dict[str, Any]]:
        token: dict[str, str] = {}
        while True:
            page = self._done("GET", path, params={**params, **token})
            yield from page[name]
            if not page["hasMore"]:
                return
            token = {"page-token": page["token"]}


class Lakefs:
    """The package `lakefs` with an access key."""

    def __init__(self, server: GatewayProcess) -> None:
        self._client = LakefsClient(host=server.url, username=server.key, password=server.secret)
        self._repository = lakefs.Repository(REPOSITORY, self._client)

    def close(self) -> None:
        self._client.sdk_client._api.rest_client.pool_manager.clear()

    def commit(self, branch: str, number: int) -> tuple[str, str]:
        message = f"lakefs {number}"
        one = self._repository.branch(branch)
        one.object(f"lakefs/{number}").upload(f"by lakefs {number}".encode() * 9_000)
        one.object("shared").upload(b"lakefs %d" % number)
        return one.commit(message).get_commit().id, message

    def merge(self, branch: str, source: str, message: str) -> tuple[str, str]:
        made = self._repository.branch(source).merge_into(branch, message=message)
        return made, message

    def revert(self, branch: str, commit: str) -> tuple[str, str]:
        made = self._repository.branch(branch).revert(commit, 1)
        return made.id, made.message

    def log(self, branch: str) -> Logged:
        found = self._repository.branch(branch).log(first_parent=True, amount=3)
        *commits, first = [(each.id, each.message) for each in found]
        assert first[1] == "Repository created"
        return commits

    def files(self, ref: str) -> Files:
        at = self._repository.ref(ref)
        found: Files = {}
        for each in at.objects():
            with at.object(each.path).reader("rb") as reader:
                read = reader.read()
            assert isinstance(read, bytes)
            found[each.path] = read
        return found


class Boto3:
    """The S3 gateway by boto3; the commit is one of `/files/v1`, because S3 has none."""

    def __init__(self, server: GatewayProcess) -> None:
        self._s3 = server.s3()
        self._client = Client(server.catalog, access_key=(server.key, server.secret))

    def close(self) -> None:
        self._client.close()

    def commit(self, branch: str, number: int) -> tuple[str, str]:
        message = f"boto3 {number}"
        for key, body in ((f"boto3/{number}", b"by boto3 " * 9_000), ("shared", b"%d" % number)):
            self._s3.put_object(Bucket=REPOSITORY, Key=f"{branch}/{key}", Body=body)
        return str(self._client.files.commit(branch, message).hash), message

    def revert(self, branch: str, commit: str) -> tuple[str, str]:
        message = f"undo {commit[:8]}"
        done = self._client.merges.revert(branch, [commit], message)
        return str(done.hash), message

    def log(self, branch: str) -> Logged:
        found = self._client.history.iterate(branch)
        return [(str(each.meta.hash), each.meta.message) for each in found]

    def files(self, ref: str) -> Files:
        pages = self._s3.get_paginator("list_objects_v2").paginate(
            Bucket=REPOSITORY, Prefix=f"{ref}/", PaginationConfig={"PageSize": 3}
        )
        keys = [each["Key"] for page in pages for each in page.get("Contents", ())]
        return {key.removeprefix(f"{ref}/"): self._read(key) for key in keys}

    def _read(self, key: str) -> bytes:
        with self._s3.get_object(Bucket=REPOSITORY, Key=key)["Body"] as body:
            read: bytes = body.read()
            return read


class Pipeline:
    """`lochan.spark`; its workers find the token in their environment."""

    TABLE = "shop.orders"

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def commit(self, branch: str, number: int) -> tuple[str, str]:
        message = f"spark {number}"
        frame = self._lake.spark.createDataFrame([(number,)], "id bigint")
        self._lake.write(frame, self.TABLE, branch=branch, message=message)
        return self._lake.client.references.get(branch).hash, message

    def log(self, branch: str) -> Logged:
        rows = self._lake.log(branch).orderBy("seq", ascending=False).collect()
        return [(row["commit"], row["message"]) for row in rows]

    def tables(self, ref: str) -> Tables:
        rows = self._lake.entries(ref).where("type <> 'NAMESPACE'").collect()
        return {row["name"]: json.loads(row["content"]) for row in rows}

    def rows(self, ref: str) -> list[int]:
        return sorted(row["id"] for row in self._lake.read(self.TABLE, ref=ref).collect())
