"""A server without a network on which every request needs credentials; nothing here is a test.

Callers are known by their names: the header `Authorization: Bearer NAME` is a valid credential of
the caller of that name. Their rights are compiled from real policies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from lochan.access.directory import Directory
from lochan.access.enforcement import EnforcedPolicy
from lochan.access.logins import Logins
from lochan.access.policy import ANYONE, Call, Principal
from lochan.access.rights import AttachedPolicy, compile_rights
from lochan.access.secrets import KeyRing
from lochan.base.errors import Unauthenticated
from lochan.faces.access.face import AccessFace
from lochan.faces.nessie.face import nessie_faces
from lochan.kv.observe import ObservedStore
from lochan.model.access import AccessPolicy, Statement
from lochan.service.access import AccessControl
from lochan.stores.memory.store import MemoryStore
from lochan.testing.call_counts import CallCounts
from lochan.testing.ports import ManualClock
from lochan.transport.exchange import Request
from lochan.transport.routes import Authentication, Face, Match
from tests.wire.harness import NO_BODY, Answer, Wire

ADMIN = "ada"
WRITES = ("add_many", "put_many", "set_if", "delete", "delete_if", "apply", "drop_partition")


def principal(name: str, statements: Iterable[Statement]) -> Principal:
    """Returns a caller with the rights of one policy."""
    policy = AccessPolicy(f"of-{name}", tuple(statements))
    attached = [AttachedPolicy(policy, f"user:{name}")]
    return Principal(name, ("everyone",), "token", compile_rights(attached, name, ("everyone",)))


def allow(*actions: str, **patterns: tuple[str, ...]) -> Statement:
    """Returns a statement that allows actions."""
    return Statement(effect="allow", actions=actions, **patterns)  # type: ignore[arg-type]


class GuardedWire(Wire):
    """The faces of Nessie with callers of their own; writes of the store are counted."""

    def __init__(self, callers: Sequence[Principal] = ()) -> None:
        admin = principal(ADMIN, [allow("*")])
        self.callers = {each.name: each for each in (admin, *callers)}
        self.counts = CallCounts()
        self.caller = Call(ADMIN, rights=admin.rights)
        store = ObservedStore(MemoryStore(), self.counts, ManualClock())
        super().__init__(store, EnforcedPolicy())

    def faces(self) -> Sequence[Face]:
        """Returns what is served."""
        authentication = Authentication(self._authenticate, reads_store=False)
        ring = KeyRing([bytes(range(32))])
        directory = Directory(self.repositories.store, self.ports)
        logins = Logins(ring, self.clock)
        control = AccessControl(directory, self.ports, EnforcedPolicy(), ring, logins)
        return (
            *nessie_faces(self.repositories, "default", authentication),
            AccessFace(control, authentication),
        )

    def route_of(self, method: str, target: str) -> str:
        """Returns the name of the operation that serves a request, empty for none."""
        path = target.partition("?")[0]
        found = self.app.find(Request(method, quote(path, safe="/%@~^*:.-").encode()))
        return found.match.route.name if isinstance(found.match, Match) else ""

    def writes(self) -> int:
        """Returns how many writes of the store there were."""
        return sum(self.counts.calls[name] for name in WRITES)

    def send_as(
        self,
        name: str | None,
        method: str,
        target: str,
        body: Any = NO_BODY,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Sends a request with the credentials of a caller, or without any."""
        credentials = {} if name is None else {"authorization": f"Bearer {name}"}
        return super().send(method, target, body, {**(headers or {}), **credentials})

    def send(
        self,
        method: str,
        target: str,
        body: Any = NO_BODY,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Sends a request of the administrator."""
        return self.send_as(ADMIN, method, target, body, headers)

    def _authenticate(self, request: Request, match: Match) -> Principal:
        if match.route.is_open:
            return ANYONE
        text = request.headers.get("authorization") or ""
        found = self.callers.get(text.removeprefix("Bearer "))
        if found is None:
            raise Unauthenticated("these credentials are not valid")
        return found
