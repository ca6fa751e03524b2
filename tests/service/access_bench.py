"""Access control on the memory store, set up, as administrators have it; holds no test."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from lochan.access.directory import Directory
from lochan.access.logins import Logins
from lochan.access.policy import Call, OpenPolicy, Policy
from lochan.access.secrets import KeyRing
from lochan.kernel.repository import Ports
from lochan.kv.store import Store
from lochan.model.access import AccessPolicy, NewToken, Statement
from lochan.service.access import AccessControl
from lochan.stores.memory.store import MemoryStore
from lochan.testing.ports import ManualClock, RecordedWaiting, SeededRandom

ADMIN = Call("root", roles=("admins", "everyone"), credential="oidc")
OLD_KEY, NEW_KEY = b"k" * 32, b"n" * 32
READ = Statement(effect="allow", actions=("read",))


class AccessBench:
    """One server's access control."""

    def __init__(
        self,
        store: Store | None = None,
        policy: Policy | None = None,
        *,
        keys: tuple[bytes, ...] = (OLD_KEY,),
        seed: int = 1,
    ) -> None:
        self.store: Store = MemoryStore() if store is None else store
        self.clock = ManualClock()
        ports = Ports(self.clock, SeededRandom(seed), RecordedWaiting(self.clock))
        self.directory = Directory(self.store, ports)
        ring = KeyRing(keys) if keys else None
        self.logins = None if ring is None else Logins(ring, self.clock)
        policy = policy or OpenPolicy()
        self.access = AccessControl(self.directory, ports, policy, ring, self.logins)

    def again(
        self, store: Store | None = None, policy: Policy | None = None, **more: Any
    ) -> AccessBench:
        """Another server on the same store."""
        return AccessBench(self.store if store is None else store, policy, **{"seed": 2, **more})


def office() -> tuple[AccessBench, NewToken]:
    """Set up by root; Ada writes, and has a token and an access key; `sales` is a policy."""
    bench = AccessBench()
    first = bench.access.set_up(Call(), "root")
    access = bench.access
    access.create_user(ADMIN, "ada", "analyst")
    access.add_member(ADMIN, "ada", "writers")
    access.put_policy(ADMIN, AccessPolicy("sales", (READ,)))
    access.attach(ADMIN, "user", "ada", "sales")
    return bench, first


def access_use_cases() -> dict[str, Callable[..., Any]]:
    """All public methods of access control."""
    return {
        name: method
        for name, method in inspect.getmembers(AccessControl, inspect.isfunction)
        if not name.startswith("_")
    }
