"""One of each change of the directory; holds no test of its own."""

from __future__ import annotations

from collections.abc import Callable

from lochan.kv.store import Store
from tests.access.bench import DirectoryBench, policy, setup_row

CHANGES: dict[str, Callable[[DirectoryBench], object]] = {
    "set_up": lambda one: one.directory.set_up(setup_row()),
    "create_user": lambda one: one.directory.create_user("new"),
    "delete_user": lambda one: one.directory.delete_user("bob"),
    "create_group": lambda one: one.directory.create_group("new"),
    "delete_group": lambda one: one.directory.delete_group("g"),
    "put_policy": lambda one: one.directory.put_policy(policy("p")),
    "delete_policy": lambda one: one.directory.delete_policy("p"),
    "add_member": lambda one: one.directory.add_member("alice", "g"),
    "remove_member": lambda one: one.directory.remove_member("bob", "g"),
    "attach": lambda one: one.directory.attach("user", "bob", "p"),
    "detach": lambda one: one.directory.detach("group", "g", "p"),
    "add_token": lambda one: one.directory.add_token(one.token("alice", "t2")),
    "delete_token": lambda one: one.directory.delete_token("t1"),
    "add_credential": lambda one: one.directory.add_credential(one.access_key("bob", "k2")),
    "delete_credential": lambda one: one.directory.delete_credential("k1"),
    "replace_credential": lambda one: one.directory.replace_credential(
        one.access_key("bob", "k1"), one.access_key("bob", "k1", b"new")
    ),
}


def small_office(store: Store | None = None) -> DirectoryBench:
    """Two users, a group with a policy, a token and an access key."""
    one = DirectoryBench(store)
    for user in ("alice", "bob"):
        one.directory.create_user(user)
    one.directory.create_group("g")
    one.directory.put_policy(policy("p"))
    one.directory.add_member("bob", "g")
    one.directory.attach("group", "g", "p")
    one.directory.add_token(one.token("alice", "t1"))
    one.directory.add_credential(one.access_key("bob", "k1"))
    return one
