"""A directory on any store, with time and randomness in hand; holds no test of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lochan.access.directory import Directory
from lochan.access.names import EVERYONE
from lochan.access.records import ACCESS_PARTITION, CredentialRow, SetupRow, TokenRow
from lochan.kernel.repository import Ports
from lochan.kv.store import Entry, Store
from lochan.model.access import AccessPolicy, Statement, SubjectKind
from lochan.model.results import Page
from lochan.persist.rows import scan_all
from lochan.stores.memory.store import MemoryStore
from lochan.testing.ports import ManualClock, RecordedWaiting, SeededRandom

EVERYONE_PAIR: tuple[SubjectKind, str] = ("group", EVERYONE)
ALLOW = Statement(effect="allow", actions=("read",))
DENY = Statement(effect="deny", actions=("write",), references=("main",))


class DirectoryBench:
    """One server's directory."""

    partition = ACCESS_PARTITION

    def __init__(self, store: Store | None = None, *, seed: int = 1) -> None:
        self.store: Store = MemoryStore() if store is None else store
        self.clock = ManualClock()
        self.random = SeededRandom(seed)
        self.ports = Ports(self.clock, self.random, RecordedWaiting(self.clock))
        self.directory = Directory(self.store, self.ports)

    def again(self, store: Store | None = None, *, seed: int = 2) -> DirectoryBench:
        """Another server on the same store, or on a wrapper of it."""
        return DirectoryBench(self.store if store is None else store, seed=seed)

    def token(self, user: str, name: str = "tok1", **more: Any) -> TokenRow:
        """A token of a user as it is now; not added."""
        row = self.directory.find_user_row(user)
        assert row is not None
        return TokenRow(
            1, name, user, row.incarnation, digest=b"digest of " + name.encode(), **more
        )

    def access_key(self, user: str, name: str = "key1", sealed: bytes = b"secret") -> CredentialRow:
        """An access key of a user as it is now; not added."""
        row = self.directory.find_user_row(user)
        assert row is not None
        return CredentialRow(1, name, user, row.incarnation, sealed=sealed)

    def entries(self) -> list[Entry]:
        """Everything that is stored about access."""
        return list(scan_all(self.store, ACCESS_PARTITION))

    def keys(self, *prefixes: str) -> list[str]:
        """The keys of rows that begin so."""
        keys = [entry.key.decode() for entry in self.entries()]
        return [key for key in keys if key.startswith(prefixes)]


def policy(name: str, *statements: Statement, **more: Any) -> AccessPolicy:
    return AccessPolicy(name, statements or (ALLOW,), **more)


def setup_row(admin: str = "root", token: str = "firsttoken", **more: Any) -> SetupRow:
    fields = {"created_us": 5, "key_check": b"check", "incarnation": b"i" * 16, **more}
    return SetupRow(1, admin, token, b"digest of " + token.encode(), **fields)


def ids(items: Any) -> list[str]:
    return [one.id for one in items]


def all_pages(read: Any, limit: int) -> Iterator[Page[Any]]:
    """Reads page after page to the end."""
    page = read(limit, "")
    yield page
    while page.token is not None:
        page = read(limit, page.token)
        yield page


def state(one: Directory) -> dict[str, Any]:
    """Everything that counts, as callers see it; a server looks for set-up before it serves."""
    is_set_up = one.find_setup() is not None
    users, groups = ids(one.list_users().items), ids(one.list_groups().items)
    subjects: list[tuple[SubjectKind, str]] = [("user", name) for name in users]
    subjects += [("group", name) for name in groups]
    return {
        "set up": is_set_up,
        "users": users,
        "groups": groups,
        "policies": {found.id: found.version for found in one.list_policies().items},
        "members": {name: one.groups_of(name) for name in users},
        "of groups": {name: ids(one.list_members(name).items) for name in groups},
        "attached": {pair: ids(one.attached_to(*pair)) for pair in [*subjects, EVERYONE_PAIR]},
        "tokens": {name: ids(one.list_tokens(name).items) for name in users},
        "keys": {
            name: [(row.id, row.sealed) for row in one.list_credentials(name).items]
            for name in users
        },
    }
