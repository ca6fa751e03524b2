"""One opened repository: its use cases, put together."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

import msgspec

from lochan.base.names import REFS_NAME, RefName
from lochan.catalog.types import ContentTypes
from lochan.kernel.parts import Parts
from lochan.kernel.publish import Publisher
from lochan.kernel.purge import (
    Purged,
    Swept,
    sweep_claims,
    sweep_references,
    sweep_references_page,
)
from lochan.kernel.references import Names
from lochan.service.calls import Gate, OpenGate
from lochan.service.claims import Claims
from lochan.service.commits import Commits
from lochan.service.contents import Contents
from lochan.service.history import History
from lochan.service.jobs import Jobs
from lochan.service.merges import Merges
from lochan.service.namespaces import Namespaces
from lochan.service.objects import ObjectExchange
from lochan.service.references import References
from lochan.service.resolve import Resolver
from lochan.service.settings import RepositorySettings


class RepositoryInfo(msgspec.Struct, frozen=True):
    """What a repository is."""

    name: str
    default_branch: str
    created_us: int


class Repository:
    """The use cases of one repository; synchronous, for any number of threads."""

    def __init__(
        self, parts: Parts, types: ContentTypes | None = None, gate: Gate | None = None
    ) -> None:
        types = types or ContentTypes()
        gate = gate or OpenGate()
        described = parts.description
        self.parts = parts
        self.types = types
        self.name = described.name
        self.info = RepositoryInfo(described.name, described.default_branch, described.created_us)
        self._names = Names(parts)
        resolver = self._resolver = Resolver(parts, self._names)
        claims = Claims(parts, self._names, gate)
        self.references = References(parts, self._names, resolver, claims, gate)
        self.contents = Contents(parts, types, resolver, gate)
        self.jobs = Jobs(parts, types, resolver, gate)
        self.history = History(parts, types, resolver, gate)
        self.commits = Commits(parts, types, resolver, claims, gate)
        self.merges = Merges(parts, types, self._names, resolver, claims, gate)
        self.namespaces = Namespaces(self.contents, self.commits)
        self.settings = RepositorySettings(parts, claims, gate)
        self.objects = ObjectExchange(parts, gate)

    def reading(self, references: Sequence[str]) -> AbstractContextManager[None]:
        """Reads the rows of references for all use cases that are called inside."""
        return self._resolver.reading(references)

    def sweep_references(self, start: bytes, limit: int) -> Swept:
        """Deletes expired branches and removes old tombstones, one page of them."""
        return sweep_references_page(self.parts, self._names, start, limit)

    def sweep(self) -> Purged:
        """Sweeps everything that has served its time: branches, tombstones and claims."""
        found = sweep_references(self.parts, self._names)
        claims = sweep_claims(self.parts)
        return found.plus(claims)

    def publisher(self, branch: RefName) -> Publisher:
        """Returns a publisher for a branch; whoever drives the lane keeps it while it is busy."""
        if branch == REFS_NAME:
            return self._names.publisher
        return Publisher(self.parts, branch, self._names.find)
