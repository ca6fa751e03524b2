"""A server without a network on which every request needs credentials; nothing here is a test.

Callers are known by their names: the header `Authorization: Bearer NAME` is a valid credential of
the caller of that name. Their rights are compiled from real policies.
"""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from threading import Lock
from typing import Any
from urllib.parse import quote

from lochan.access.directory import Directory
from lochan.access.enforcement import EnforcedPolicy
from lochan.access.logins import Logins
from lochan.access.policy import ANYONE, Call, Principal
from lochan.access.rights import AttachedPolicy, compile_rights
from lochan.access.secrets import KeyRing
from lochan.assembly.blocks import open_blocks
from lochan.base.errors import Unauthenticated
from lochan.catalog.types import ContentTypes
from lochan.events.builder import EventBuilder
from lochan.events.feeds import EventFeeds
from lochan.faces.access.face import AccessFace
from lochan.faces.events.face import EventsFace
from lochan.faces.files.face import FilesFace
from lochan.faces.nessie.face import nessie_faces
from lochan.faces.store.face import StoreFace
from lochan.kv.observe import ObservedStore
from lochan.model.access import AccessPolicy, Statement
from lochan.service.access import AccessControl
from lochan.service.file_places import FileSupport
from lochan.service.stores import StoreControl
from lochan.staging.block_store import (
    BlockAddress,
    BlockStore,
    MultipartId,
    PresignedParts,
    PresignedPut,
    build_address,
)
from lochan.stores.memory.store import MemoryStore
from lochan.testing.call_counts import CallCounts
from lochan.testing.ports import ManualClock
from lochan.transport.exchange import Request
from lochan.transport.routes import Authentication, Face, Match
from lochan.wire.events import encode_event
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


class PresigningPlace:
    """A local place that has URLs for its blocks, as S3 has; what they would store is stored."""

    signs_urls = True

    def __init__(self, place: BlockStore) -> None:
        self._place = place

    def __getattr__(self, name: str) -> Any:
        return getattr(self._place, name)

    def presign_parts(
        self, upload: MultipartId, numbers: Sequence[int], lifetime_s: int
    ) -> PresignedParts | None:
        for number in numbers:
            with self._place.begin_part(upload, number) as part:
                part.write(b"part %d" % number)
                part.finish()
        address = build_address(sha256(upload.encode()).digest()[:16])
        return PresignedParts(address, tuple(f"https://blocks.example/{n}" for n in numbers))

    def presign_get(self, address: BlockAddress, lifetime_s: int) -> str | None:
        return f"https://blocks.example/{address}?signed=1"

    def presign_put(self, lifetime_s: int) -> PresignedPut | None:
        with self._place.begin() as upload:
            upload.write(b"sent by the client itself")
            address = upload.finish().address
        return PresignedPut(address, f"https://blocks.example/{address}", {"if-none-match": "*"})


class GuardedWire(Wire):
    """The faces of Nessie with callers of their own; writes of the store are counted."""

    def __init__(self, callers: Sequence[Principal] = ()) -> None:
        admin = principal(ADMIN, [allow("*")])
        self.callers = {each.name: each for each in (admin, *callers)}
        self.counts = CallCounts()
        self.caller = Call(ADMIN, rights=admin.rights)
        store = ObservedStore(MemoryStore(), self.counts, ManualClock())
        folder = Path(mkdtemp(prefix="lochan-wire-"))
        weakref.finalize(self, shutil.rmtree, folder)
        self.blocks = folder / "blocks"
        self.imported = folder / "imported"
        self.imported.mkdir()
        super().__init__(store, EnforcedPolicy())

    def file_support(self) -> FileSupport:
        """Returns places in a folder that is removed with the wire."""
        place = open_blocks(self.blocks, imports=[f"file://{self.imported}"])
        return FileSupport(lambda url, instance: PresigningPlace(place))

    def faces(self) -> Sequence[Face]:
        """Returns what is served."""
        return (
            *nessie_faces(self.repositories, "default", self.authentication()),
            FilesFace("default", self.authentication()),
            EventsFace("default", self.feeds(), self.authentication()),
            AccessFace(self.control(), self.authentication()),
            StoreFace(StoreControl(self.repositories, EnforcedPolicy()), self.authentication()),
        )

    def feeds(self) -> EventFeeds:
        """Returns what reads for followers."""
        builder = EventBuilder(ContentTypes(), "")
        return EventFeeds(self.clock, Lock, builder, encode_event)

    def authentication(self) -> Authentication:
        """Returns how callers are found out."""
        return Authentication(self._authenticate, reads_store=False)

    def control(self) -> AccessControl:
        """Returns the use cases of access."""
        ring = KeyRing([bytes(range(32))])
        directory = Directory(self.repositories.store, self.ports)
        logins = Logins(ring, self.clock)
        return AccessControl(directory, self.ports, EnforcedPolicy(), ring, logins)

    def route_of(self, method: str, target: str) -> str:
        """Returns the name of the operation that serves a request, empty for none."""
        path = target.partition("?")[0]
        found = self.app.find(Request(method, quote(path, safe="/%@~^*:.-").encode()))
        return found.match.route.name if isinstance(found.match, Match) else ""

    def writes(self) -> int:
        """Returns how many writes of the store there were."""
        return sum(self.counts.calls[name] for name in WRITES) + self._blocks()

    def _blocks(self) -> int:
        return sum(path.is_file() for path in self.blocks.rglob("*"))

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
