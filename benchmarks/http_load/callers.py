"""Callers of a server with authentication: users in groups with policies, and a token of each.

The decisions are real ones: every group has ten policies, most of which cover other references or
other keys than those that are measured, and one of which has a condition. Nothing that is measured
is denied. Of the ten groups, four may do everything everywhere else than on `main`; for three,
some keys are hidden and some may not be written, so that keys are looked at one by one; two have a
condition on every key that they write or read, one has a condition on the name of the reference.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.http_load.connection import Requests
from benchmarks.http_load.preparation import Caller, Preparation
from lochan.access.secrets import new_key_text
from lochan.system import SystemRandom

USERS = 50
GROUPS = 10
POLICIES = 100

AUTHENTICATED = f"{USERS} users in {GROUPS} groups with {POLICIES} policies, a token for each"
"""What the option of that name does, for the help of the commands."""

_TOKEN = "token"
_POLICIES_EACH = POLICIES // GROUPS

# The first group is that of the first user, and so of a row with one client.
_LIMITED = range(3)
_BY_KEY = {
    3: ("write_content", "path.startsWith('private.')"),
    4: ("read_content", "path.endsWith('.private')"),
}
_BY_REFERENCE = 5


def setup_flags(folder: Path) -> list[str]:
    """Returns the flags with which a new server of ours sets up access when it starts."""
    key = folder / "key"
    if not key.exists():
        key.write_text(f"{new_key_text(SystemRandom())}\n")
        key.chmod(0o600)
    flags = ["--secret-key-file", str(key), "--setup-user", "admin"]
    return [*flags, "--setup-token-file", str(folder / _TOKEN)]


def admin_token(folder: Path) -> str:
    """Returns the token of the first user of the servers that were started with these flags."""
    return (folder / _TOKEN).read_text("ascii").strip()


class Administrator:
    """Makes callers by the API of access, as the first user."""

    def __init__(self, address: str, token: str) -> None:
        self._catalog = Requests(address, token=token)
        self._requests = Requests(address, "/access/v1", token=token)
        self._caller = Caller(self._requests)

    async def add_user(self, name: str, group: str) -> str:
        """Creates a user in a group that there is, and returns a token of it."""
        await self._caller.post("/users", {"id": name})
        await self.put(f"/groups/{group}/members/{name}")
        return str((await self._caller.post(f"/users/{name}/tokens", {}))["secret"])

    async def add_group(self, name: str) -> None:
        await self._caller.post("/groups", {"id": name})

    async def add_policy(self, name: str, group: str, statement: dict[str, Any]) -> None:
        """Creates a policy of one statement and attaches it to a group."""
        await self.put(f"/policies/{name}", {"statements": [statement]})
        await self.put(f"/groups/{group}/policies/{name}")

    async def create_repository(self, name: str) -> None:
        body = json.dumps({"name": name}).encode()
        await self._caller.request(self._catalog.post("/repositories", body))

    async def put(self, path: str, body: object = None) -> None:
        content = b"" if body is None else json.dumps(body).encode()
        await self._caller.request(self._requests.put(path, content))

    def close(self) -> None:
        self._caller.close()


async def prepare(address: str, run: str, token: str = "") -> Preparation:
    """Returns the preparation of a server; with the token of its first user, for many callers."""
    callers = await add_callers(address, token) if token else []
    return Preparation(Requests(address, token=token), run, callers)


async def add_callers(address: str, token: str) -> list[Requests]:
    """Makes users, groups and policies; returns how each user sends requests.

    The users are of all groups in turn.
    """
    administrator = Administrator(address, token)
    for group in range(GROUPS):
        await administrator.add_group(f"group-{group}")
        for number, statement in enumerate(statements_of(group)):
            await administrator.add_policy(f"policy-{group}-{number}", f"group-{group}", statement)
    tokens = [
        await administrator.add_user(f"user-{number}", f"group-{number % GROUPS}")
        for number in range(USERS)
    ]
    administrator.close()
    return [Requests(address, token=each) for each in tokens]


def statements_of(group: int) -> Iterator[dict[str, Any]]:
    """Yields the statement of each policy of a group."""
    yield {"effect": "allow", "actions": ["read"]}
    yield {"effect": "allow", "actions": ["write"]}
    protected = ["commit", "assign_reference", "delete_reference"]
    yield {"effect": "deny", "actions": protected, "references": ["main"]}
    keys = [f"hidden{group}.*", "salaries.*"]
    limited = group in _LIMITED
    yield {
        "effect": "deny",
        "actions": ["read_content", "read_entries"],
        "keys": keys,
        "references": ["*" if limited else "release/*"],
    }
    yield {
        "effect": "deny",
        "actions": ["write_content", "delete_content"],
        "keys": [*keys, f"frozen{group}.*"],
        "references": ["*" if limited else "release/*"],
    }
    for team in range(_POLICIES_EACH - 6):
        yield {"effect": "allow", "actions": ["fs:*"], "references": [f"team-{group}-{team}/*"]}
    yield _conditional(group)


def _conditional(group: int) -> dict[str, Any]:
    """Returns the statement of a group that has a condition."""
    if group in _BY_KEY:
        action, rule = _BY_KEY[group]
        return {"effect": "deny", "actions": [action], "rule": rule}
    if group == _BY_REFERENCE:
        return {"effect": "deny", "actions": ["commit"], "rule": "ref.startsWith('release-')"}
    rule = f"'group-{group}' in roles && role.startsWith('user-')"
    return {"effect": "allow", "actions": ["read", "write"], "rule": rule}
