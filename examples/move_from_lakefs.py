"""Moves a lakeFS repository to Lochan through the lakeFS API of both: commits, branches and tags.

    python examples/move_from_lakefs.py SOURCE_URL TARGET_URL REPOSITORY

The keys are those of LAKEFS_SOURCE_KEY, LAKEFS_SOURCE_SECRET, LAKEFS_TARGET_KEY and
LAKEFS_TARGET_SECRET. The repository must not exist in the target. Needs httpx, and nothing else.

1. Every commit that a branch or a tag reaches by first parents is made again, the oldest first,
   with its message, metadata and date: what differs from its parent is uploaded or deleted. The id
   of the original is kept in its metadata, as `lakefs-commit`. A merge becomes one commit with its
   changes.
2. Branches and tags are created where they were.
3. All objects of every branch and tag are compared: path, size, checksum and metadata.

What was staged and not committed is not moved. A run that was interrupted is started again with
another name, or after the repository was deleted in the target.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx

_PAGE = 1_000
_WORK = "lakefs-move"
_ORIGIN = "lakefs-commit"


class Lake:
    """One repository of a server that speaks the lakeFS API."""

    def __init__(self, url: str, key: str, secret: str, repository: str) -> None:
        self.repository = repository
        self.http = httpx.Client(
            base_url=f"{url.rstrip('/')}/api/v1", auth=(key, secret), timeout=600
        )

    def send(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Sends a request about the repository; raises if it is refused."""
        answer = self.http.request(method, f"/repositories/{self.repository}{path}", **more)
        answer.raise_for_status()
        return answer

    def pages(self, path: str, **params: Any) -> Iterator[dict[str, Any]]:
        """Yields all items of a listing."""
        after = ""
        while True:
            page = self.send("GET", path, params={**params, "amount": _PAGE, "after": after}).json()
            yield from page["results"]
            if not page["pagination"]["has_more"]:
                return
            after = page["pagination"]["next_offset"]

    def objects(self, ref: str) -> dict[str, tuple[Any, ...]]:
        """Returns what the objects of a reference are, by their paths."""
        listed = self.pages(f"/refs/{quote(ref, safe='')}/objects/ls")
        return {one["path"]: _identity(one) for one in listed}


def _identity(item: dict[str, Any]) -> tuple[Any, ...]:
    return item["size_bytes"], item["checksum"], tuple(sorted((item.get("metadata") or {}).items()))


def move(source: Lake, target: Lake) -> int:
    """Moves a repository; returns how many commits were made."""
    info = source.send("GET", "").json()
    namespace = f"local://{target.repository}"
    body = {"name": target.repository, "storage_namespace": namespace}
    body["default_branch"] = info["default_branch"]
    target.http.post("/repositories", json=body).raise_for_status()
    branches = {one["id"]: one["commit_id"] for one in source.pages("/branches")}
    tags = {one["id"]: one["commit_id"] for one in source.pages("/tags")}
    moved = _first_commits(target)
    for head in (*branches.values(), *tags.values()):
        _move_line(source, target, head, moved)
    _create_references(target, info["default_branch"], branches, tags, moved)
    for name in (*branches, *tags):
        if source.objects(f"{name}@" if name in branches else name) != target.objects(name):
            raise SystemExit(f"{name} is not the same on both sides")
    return len(set(moved.values())) - 1


def _first_commits(target: Lake) -> dict[str, str]:
    """Returns which commit stands for the one that a repository begins with: key "" is it."""
    branches = list(target.pages("/branches"))
    return {"": branches[0]["commit_id"]}


def _move_line(source: Lake, target: Lake, head: str, moved: dict[str, str]) -> None:
    """Makes the commits of one line of first parents again that were not made yet."""
    missing: list[dict[str, Any]] = []
    for commit in source.pages(f"/refs/{head}/commits", first_parent="true"):
        if commit["id"] in moved:
            break
        missing.append(commit)
    for commit in reversed(missing):
        if not commit["parents"]:
            # The commit that a repository begins with: every repository has its own.
            moved[commit["id"]] = moved[""]
            continue
        moved[commit["id"]] = _make_again(source, target, commit, moved[commit["parents"][0]])


def _make_again(source: Lake, target: Lake, commit: dict[str, Any], parent: str) -> str:
    """Makes one commit again on a branch that exists for that long only."""
    target.send("POST", "/branches", json={"name": _WORK, "source": parent, "hidden": True})
    try:
        path = f"/refs/{commit['parents'][0]}/diff/{commit['id']}"
        for change in source.pages(path, type="two_dot"):
            _carry(source, target, commit["id"], change)
        body = {
            "message": commit["message"],
            "metadata": {**(commit.get("metadata") or {}), _ORIGIN: commit["id"]},
            "date": commit["creation_date"],
            "allow_empty": True,
        }
        made: str = target.send("POST", f"/branches/{_WORK}/commits", json=body).json()["id"]
    finally:
        target.send("DELETE", f"/branches/{_WORK}")
    return made


def _carry(source: Lake, target: Lake, commit: str, change: dict[str, Any]) -> None:
    """Makes one change again: the bytes of an object go from one server to the other."""
    params, objects = {"path": change["path"]}, f"/branches/{_WORK}/objects"
    if change["type"] == "removed":
        target.send("DELETE", objects, params=params)
        return
    stat = source.send("GET", f"/refs/{commit}/objects/stat", params=params).json()
    headers = {f"x-lakefs-meta-{name}": value for name, value in (stat["metadata"] or {}).items()}
    headers["content-type"] = stat.get("content_type") or "application/octet-stream"
    path = f"/repositories/{source.repository}/refs/{commit}/objects"
    with source.http.stream("GET", path, params=params) as answer:
        answer.raise_for_status()
        headers["content-length"] = str(stat["size_bytes"])
        made = target.send(
            "POST", objects, params=params, headers=headers, content=answer.iter_bytes()
        ).json()
    if _identity(made) != _identity(stat):
        raise SystemExit(f"{change['path']} of {commit} was not stored as it is")


def _create_references(
    target: Lake,
    default: str,
    branches: dict[str, str],
    tags: dict[str, str],
    moved: dict[str, str],
) -> None:
    for name, head in branches.items():
        if name == default:
            params = {"ref": moved[head]}
            target.send("PUT", f"/branches/{quote(name, safe='')}/hard_reset", params=params)
        else:
            target.send("POST", "/branches", json={"name": name, "source": moved[head]})
    for name, commit in tags.items():
        target.send("POST", "/tags", json={"id": name, "ref": moved[commit]})


def main() -> None:
    """Moves what the command line names."""
    source_url, target_url, repository = sys.argv[1:]
    sides = [
        Lake(
            url,
            os.environ[f"LAKEFS_{side}_KEY"],
            os.environ[f"LAKEFS_{side}_SECRET"],
            repository,
        )
        for side, url in (("SOURCE", source_url), ("TARGET", target_url))
    ]
    count = move(*sides)
    sys.stdout.write(f"moved {count} commits of {repository}\n")


if __name__ == "__main__":
    main()
