"""A session with pynessie's command line, `nessie --json …`, against one server.

Runs the program as people run it, a process for each command, and reads what it prints.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class Commands:
    """Runs `nessie` with a configuration of its own."""

    def __init__(
        self, program: Path, address: str, folder: Path, variables: Mapping[str, str] | None = None
    ) -> None:
        self._words = [str(program), "--json", "--endpoint", f"{address}/api/v1"]
        # Otherwise it would use the configuration of the user that runs the tests.
        self._environment = {**os.environ, "NESSIE_CLIENTDIR": str(folder), **(variables or {})}
        self.ran = 0

    def text(self, *words: str, given: str = "") -> str:
        """Returns what a command prints; it must succeed."""
        done = self._run(*words, given=given)
        assert done.returncode == 0, f"nessie {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def read(self, *words: str, given: str = "") -> Any:
        """Returns the JSON that a command prints."""
        return json.loads(self.text(*words, given=given))

    def refused(self, *words: str, given: str = "") -> str:
        """Returns what a command prints that must fail."""
        done = self._run(*words, given=given)
        assert done.returncode != 0, f"nessie {' '.join(words)} succeeded"
        return done.stdout + done.stderr

    def _run(self, *words: str, given: str) -> subprocess.CompletedProcess[str]:
        self.ran += 1
        return subprocess.run(
            [*self._words, *words],
            input=given,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )


def table(location: str, snapshot: int, content_id: str | None = None) -> str:
    content = {
        "type": "ICEBERG_TABLE",
        "id": content_id,
        "metadataLocation": location,
        "snapshotId": snapshot,
        "schemaId": 1,
        "specId": 1,
        "sortOrderId": 1,
    }
    return json.dumps(content)


def run_all(nessie: Commands) -> None:
    """Branches, tags, commits, logs, differences, merges, picks and deletes; asserts each."""
    namespace = json.dumps({"type": "NAMESPACE", "id": None, "elements": ["db"]})
    commit(nessie, "main", "db", namespace, "begin", "ada")
    nessie.text("branch", "dev", "main")
    nessie.text("tag", "v1", "main")
    assert set(heads(nessie, "branch")) == {"main", "dev"}
    assert set(heads(nessie, "tag")) == {"v1"}
    _commits_and_logs(nessie)
    _differences_and_merges(nessie)
    assert '"status_code": 404' in nessie.refused("branch", "-d", "nobody")
    for name in ("dev", "side"):
        nessie.text("branch", "-d", name)
    nessie.text("tag", "-d", "v1")
    assert set(heads(nessie, "branch")) == {"main"}
    assert heads(nessie, "tag") == {}


def look_around(nessie: Commands, branches: Sequence[str], tags: Sequence[str]) -> None:
    """Runs every command on references that version 2 made in every way; asserts that it reads."""
    assert set(branches) <= set(heads(nessie, "branch"))
    assert set(heads(nessie, "tag")) == set(tags)
    for kind in ("branch", "tag"):
        extended = nessie.read(kind, "-x", "--list")
        assert all(one["metadata"] is not None for one in extended)
    for name in (*branches, *tags):
        assert nessie.read("log", name)
        assert nessie.read("log", "-x", name)[-1]["operations"]
        assert "one.table" in keys(nessie, name)
        for key in ("one", "one.table", "one.view", "one.delta"):
            nessie.read("content", "view", "-r", name, key)
        nessie.read("diff", "main", name)
    # A branch that was made bare and never committed to.
    assert nessie.read("content", "list", "-r", "busy/empty") == []
    assert nessie.text("log", "busy/empty").strip() in ("", "[]")
    _change(nessie)


def _change(nessie: Commands) -> None:
    commit(nessie, "busy/expiring", "one.more", table("s3://m", 1), "more", "ada")
    nessie.text("branch", "copy", "busy/v1")
    nessie.text("tag", "mark", "busy/bare")
    picked = commit(nessie, "copy", "one.copied", table("s3://n", 2), "copied", "bo")
    nessie.text("merge", "-b", "main", "-c", heads(nessie, "branch")["main"], "busy/expiring")
    nessie.text("cherry-pick", "-b", "main", "--force", "-s", "copy", picked)
    assert {"one.more", "one.copied"} <= keys(nessie, "main")
    assert messages(nessie, "main", "-n", "1") == ["copied"]
    assert nessie.read("log", "-x", "main")
    nessie.text("tag", "--force", "busy/v1", "main")
    assert heads(nessie, "tag")["busy/v1"] == heads(nessie, "branch")["main"]
    for name in ("copy", "busy/bare", "busy/expiring", "busy/empty"):
        nessie.text("branch", "-d", name)
    for name in ("mark", "busy/v1", "busy/v2"):
        nessie.text("tag", "-d", name)
    assert heads(nessie, "tag") == {}


def _commits_and_logs(nessie: Commands) -> None:
    stale = commit(nessie, "dev", "db.orders", table("s3://a", 1), "orders", "ada")
    viewed = nessie.read("content", "view", "-r", "dev", "db.orders")
    orders = viewed[0] if isinstance(viewed, list) else viewed
    assert orders["metadataLocation"] == "s3://a"
    changed = table("s3://b", 2, orders["id"])
    commit(nessie, "dev", "db.orders", changed, "orders again", "bo")
    late = ["content", "commit", "-i", "-r", "dev", "-m", "late", "-c", stale, "db.orders"]
    assert '"status_code": 409' in nessie.refused(*late, given=table("s3://z", 9, orders["id"]))
    assert keys(nessie, "dev") == {"db", "db.orders"}
    tables = "entry.contentType == 'ICEBERG_TABLE'"
    assert keys(nessie, "dev", "--filter", tables) == {"db.orders"}
    assert messages(nessie, "dev") == ["orders again", "orders", "begin"]
    assert messages(nessie, "dev", "-n", "1") == ["orders again"]
    assert messages(nessie, "dev", "--author", "bo") == ["orders again"]
    assert messages(nessie, "dev", "--author", "ada") == ["orders", "begin"]
    assert messages(nessie, "dev", "--filter", "commit.message == 'begin'") == ["begin"]
    assert messages(nessie, "dev", "--since", "2001-01-01T00:00:00+00:00") != []
    assert messages(nessie, "dev", "--until", "2001-01-01T00:00:00+00:00") == []
    full = nessie.read("log", "-x", "-n", "1", "dev")
    assert [one["type"] for one in full[0]["operations"]] == ["PUT"]
    newest, older = (one["hash"] for one in nessie.read("log", "-n", "2", "dev"))
    assert messages(nessie, "dev", "-r", older) == ["orders", "begin"]
    # In contrast to its help, both ends are shown.
    both = ["orders again", "orders"]
    assert messages(nessie, "dev", "-r", f"{older}..{newest}") == both


def _differences_and_merges(nessie: Commands) -> None:
    assert len(nessie.read("diff", "main", "dev")["diffs"]) == 1
    nessie.text("merge", "-b", "main", "-c", heads(nessie, "branch")["main"], "dev")
    assert keys(nessie, "main") == {"db", "db.orders"}
    assert nessie.read("diff", "main", "dev")["diffs"] == []
    nessie.text("branch", "side", "main")
    picked = commit(nessie, "side", "db.customers", table("s3://c", 3), "customers", "ada")
    commit(nessie, "side", "db.other", table("s3://d", 4), "never picked", "ada")
    nessie.text("cherry-pick", "-b", "main", "--force", "-s", "side", picked)
    assert keys(nessie, "main") == {"db", "db.orders", "db.customers"}
    condition = heads(nessie, "branch")["main"]
    nessie.text("content", "commit", "-R", "-r", "main", "-m", "gone", "-c", condition, "db.orders")
    assert keys(nessie, "main") == {"db", "db.customers"}
    # The reference is moved to where another one stands.
    nessie.text("branch", "--force", "dev", "main")
    assert heads(nessie, "branch")["dev"] == heads(nessie, "branch")["main"]


def commit(nessie: Commands, branch: str, key: str, content: str, message: str, author: str) -> str:
    """Commits one content and returns the new head of the branch."""
    condition = heads(nessie, "branch")[branch]
    words = ["content", "commit", "-i", "-r", branch, "-c", condition]
    nessie.text(*words, "-m", message, "--author", author, key, given=content)
    head: str = heads(nessie, "branch")[branch]
    assert head != condition
    return head


def heads(nessie: Commands, kind: str) -> dict[str, str]:
    listed = nessie.read(kind, "--list")
    return {one["name"]: one["hash"] for one in listed if one["type"] == kind.upper()}


def keys(nessie: Commands, branch: str, *words: str) -> set[str]:
    listed = nessie.read("content", "list", "-r", branch, *words)
    return {".".join(one["name"]["elements"]) for one in listed}


def messages(nessie: Commands, branch: str, *words: str) -> list[str]:
    return [one["message"] for one in nessie.read("log", *words, branch)]
