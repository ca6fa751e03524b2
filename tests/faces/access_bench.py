"""The API of access without sockets, on a memory store: what a driver does, done at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from lochan.access.directory import Directory
from lochan.access.enforcement import EnforcedPolicy
from lochan.access.logins import Logins
from lochan.access.policy import ANYONE, Principal
from lochan.access.rights import OPEN_RIGHTS, compile_rights
from lochan.access.secrets import KeyRing
from lochan.base.errors import LochanError
from lochan.faces.access.face import AccessFace
from lochan.kernel.repository import Ports
from lochan.service.access import AccessControl
from lochan.stores.memory.store import MemoryStore
from lochan.testing.ports import ManualClock, RecordedWaiting, SeededRandom
from lochan.transport.exchange import Exchange, Request, RequestHeaders, Response
from lochan.transport.routes import Match

PREFIX = "/access/v1"

OPERATOR = Principal(rights=OPEN_RIGHTS)
"""Everyone on loopback before set-up."""


class Answered(msgspec.Struct, frozen=True):
    """A response as a test looks at it."""

    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> tuple[int, str]:
        return self.status, self.json["errorCode"]

    @property
    def message(self) -> str:
        return str(self.json["message"])


class AccessBench:
    """One server that was set up: the user `admin`, whose token is `token`."""

    def __init__(self, *, set_up: bool = True) -> None:
        self.store = MemoryStore()
        self.clock = ManualClock()
        ports = Ports(self.clock, SeededRandom(17), RecordedWaiting(self.clock))
        self.directory = Directory(self.store, ports)
        key_ring = KeyRing([b"k" * 32])
        logins = Logins(key_ring, self.clock)
        self.control = AccessControl(self.directory, ports, EnforcedPolicy(), key_ring, logins)
        self.face = AccessFace(self.control)
        self.secrets: list[str] = []
        """All secrets that were answered."""
        if set_up:
            made = self.send("POST", "/setup", {"user": "admin"}, caller=ANYONE).json
            self.token = made["token"]
            self.secrets.append(made["secret"])

    def caller(self, name: str, credential: str = "") -> Principal:
        """Returns a user with its rights as they are now."""
        roles = (*self.directory.groups_of(name), "everyone")
        rights = compile_rights(self.directory.policies_for(name, roles), name, roles)
        return Principal(name, roles, credential, rights)

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        caller: Principal | str = "admin",
        headers: Mapping[str, str] | None = None,
    ) -> Answered:
        """Sends a request; the body is JSON unless it is bytes."""
        raw = (
            b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        )
        target, _, query = path.partition("?")
        raw_headers = [(k.lower().encode(), v.encode()) for k, v in (headers or {}).items()]
        request = Request(
            method,
            (PREFIX + target).encode(),
            query.encode(),
            RequestHeaders(raw_headers),
            raw,
            "1",
        )
        self.clock.advance_us(1_000)
        response = self._answer(request, caller)
        shown = {name.decode(): value.decode() for name, value in response.headers}
        return Answered(response.status, response.body, shown)

    def _answer(self, request: Request, caller: Principal | str) -> Response:
        try:
            match = self.face.match(request)
            if isinstance(match, Response):
                return match
            return self._handle(match, request, caller)
        except LochanError as error:
            return self.face.problem(request, error)

    def _handle(self, match: Match, request: Request, caller: Principal | str) -> Response:
        principal = self.caller(caller) if isinstance(caller, str) else caller
        if match.route.is_open:
            principal = ANYONE
        no_repository: Any = None
        exchange = Exchange(request, no_repository, match.params, principal)
        outcome: Any = match.route.handler(exchange)
        assert isinstance(outcome, Response)
        return outcome

    def make(self, method: str, path: str, body: Any = None) -> Any:
        """Sends a request of the administrator that must succeed; returns what was answered."""
        answered = self.send(method, path, body)
        assert answered.status in (200, 204), answered.body
        return answered.json if answered.body else None
