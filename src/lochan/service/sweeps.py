"""Sweeps of a whole store, some rows at a time: branches, tombstones, claims, staging tokens.

A *round* goes through all repositories in the order of their names; a *turn* is a bounded part of
it, and the next turn goes on where it ended. The position is kept in memory only: a server that
starts begins a new round. Any number of servers may sweep one store at the same time.

A repository or a row that cannot be read is reported, once, and the round goes on behind it. If the
store is unavailable, the next turn continues at the same place.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from lochan.base.errors import LochanError, Unavailable
from lochan.base.ids import ROOT_INSTANCE
from lochan.base.limits.maintenance import (
    EMBEDDED_KEY_PACKS_BUILT_MAX,
    SWEEP_REPORTED_MAX,
    SWEEP_REPOSITORY_ROWS,
    SWEEP_ROWS_MAX,
)
from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.kernel.purge import Purged, Swept, sweep_claims_page
from lochan.kernel.repository import list_repositories, read_instance
from lochan.kv.store import Entry, Store
from lochan.service.repositories import Repositories
from lochan.service.repository import Repository


class SweepFailure(msgspec.Struct, frozen=True):
    """What a sweep could not do: of what, in which repository, at which row, for which error."""

    sweep: str
    repository: str
    what: str
    row: bytes
    error: str


Report = Callable[[SweepFailure], None]
Listed = tuple[str, Entry | None]
"""A repository and its row in the list of repositories; the list itself comes without."""

SweepOne = Callable[[Listed, bytes, int], Swept]


class Sweep:
    """One kind of sweep over all repositories of a store."""

    def __init__(self, store: Store, name: str, sweep_one: SweepOne, report: Report) -> None:
        self._store = store
        self._name = name
        self._sweep_one = sweep_one
        self._report = report
        # The list of repositories has rows of its own, and comes first.
        self._listed: list[Listed] = [("", None)]
        self._at = ""
        self._start = b""
        self._reported: set[SweepFailure] = set()

    def turn(self, rows_max: int = SWEEP_ROWS_MAX) -> bool:
        """Sweeps some rows; returns whether more of this round is left."""
        left = rows_max
        while left > 0:
            try:
                if not self._listed:
                    self._listed += list_repositories(self._store, self._at, PAGE_ENTRIES_MAX)
                if not self._listed:
                    self._listed, self._at = [("", None)], ""
                    return False
                left -= self._advance(min(left, PAGE_ENTRIES_MAX))
            except Unavailable as error:
                self._report_once(SweepFailure(self._name, self._at, "store", b"", error.kind))
                return False
        return True

    def _advance(self, limit: int) -> int:
        """Sweeps a page of the next repository; returns what it counts for."""
        listed = self._listed.pop(0)
        name, start = listed[0], self._start
        # Behind it already, so that whatever goes wrong here does not hold up the others.
        self._at, self._start = f"{name}\0", b""
        try:
            swept = self._sweep_one(listed, start, limit)
        except Unavailable:
            self._listed.insert(0, listed)
            self._start = start
            raise
        except LochanError as error:
            self._report_once(SweepFailure(self._name, name, "repository", b"", error.kind))
            return SWEEP_REPOSITORY_ROWS
        for one in swept.purged.skipped:
            self._report_once(SweepFailure(self._name, name, one.what, one.row, one.error))
        if swept.next_start is not None:
            self._listed.insert(0, listed)
            self._start = swept.next_start
        return max(swept.purged.looked_at, SWEEP_REPOSITORY_ROWS)

    def _report_once(self, failure: SweepFailure) -> None:
        if failure in self._reported:
            return
        if len(self._reported) >= SWEEP_REPORTED_MAX:
            self._reported.clear()
        self._reported.add(failure)
        self._report(failure)


def sweep_of_references(repositories: Repositories, report: Report) -> Sweep:
    """Returns the sweep of expired branches and old tombstones."""

    def sweep_one(listed: Listed, start: bytes, limit: int) -> Swept:
        name, row = listed
        if row is None:
            return Swept(Purged(), None)
        return repositories.look_into(name).sweep_references(start, limit)

    return Sweep(repositories.store, "references", sweep_one, report)


def sweep_of_tokens(repositories: Repositories, report: Report) -> Sweep:
    """Returns the sweep of dead staging tokens, and of uploads that were never finished."""

    def sweep_one(listed: Listed, start: bytes, limit: int) -> Swept:
        name, row = listed
        if row is None:
            return Swept(Purged(), None)
        return repositories.look_into(name).sweep_tokens(start, limit)

    return Sweep(repositories.store, "staging tokens", sweep_one, report)


def sweep_of_claims(repositories: Repositories, report: Report) -> Sweep:
    """Returns the sweep of old claims, those of the list of repositories too."""
    store, clock = repositories.store, repositories.clock

    def sweep_one(listed: Listed, start: bytes, limit: int) -> Swept:
        row = listed[1]
        instance = ROOT_INSTANCE if row is None else read_instance(row)
        return sweep_claims_page(store, instance, clock.now_us(), start, limit)

    return Sweep(store, "claims", sweep_one, report)


class KeyPackSweep:
    """Builds the key packs that are due in the repositories that are open.

    Which ones are due is in the memory of this server only, so it opens no repository.
    """

    def __init__(self, repositories: Repositories, report: Report) -> None:
        self._repositories = repositories
        self._report = report

    def turn(self) -> bool:
        """Builds some packs of each repository; returns whether more are due."""
        are_left = False
        for repository in self._repositories.list_open():
            try:
                are_left |= repository.context.key_packs.build_due()
            except LochanError as error:
                failure = SweepFailure("key packs", repository.name, "pack", b"", error.kind)
                self._report(failure)
        return are_left


class RepositorySweep:
    """The same for one repository that is open, where there is no server."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._references: bytes | None = b""
        self._claims: bytes | None = b""
        self._tokens: bytes | None = b""

    def turn(self, rows_max: int) -> None:
        """Sweeps some rows of references, tokens and claims; begins anew after the last.

        It builds key packs too, first, because these are due by what was just committed.
        """
        context = self._repository.context
        context.key_packs.build_due(EMBEDDED_KEY_PACKS_BUILT_MAX)
        swept = self._repository.sweep_tokens(self._tokens or b"", rows_max)
        self._tokens = swept.next_start
        swept = self._repository.sweep_references(self._references or b"", rows_max)
        self._references = swept.next_start
        now_us = context.clock.now_us()
        swept = sweep_claims_page(
            context.store, context.instance, now_us, self._claims or b"", rows_max
        )
        self._claims = swept.next_start
        if self._claims is None:
            sweep_claims_page(context.store, ROOT_INSTANCE, now_us, b"", rows_max)
