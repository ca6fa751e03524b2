"""Opening a repository in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from lochan.access.check import check_access
from lochan.access.policy import Call
from lochan.assembly import open_store
from lochan.catalog.types import ContentTypes
from lochan.client.groups.repository import RepositoryGroups
from lochan.client.methods import BlockingRunner
from lochan.embedded.access import StoreAccess
from lochan.embedded.lane_runner import LaneRunner
from lochan.kernel.check import Report, ReportProgress, check_repository
from lochan.kernel.check_store import CheckOptions
from lochan.kernel.check_store import check_store as check_stored_repositories
from lochan.kernel.purge import Purged
from lochan.kernel.repository import Ports
from lochan.kv.store import Store
from lochan.service.repositories import Repositories
from lochan.service.repository import Repository
from lochan.system import SystemClock, SystemRandom, ThreadWaiting


def open_repository(store_url: str, repository: str = "default", *, who: str = "") -> Embedded:
    """Opens a repository, and creates it if the store has none of that name; close it after use.

    `who` is written into commits and ref-logs as their author.
    """
    store = open_store(store_url)
    try:
        ports = _ports()
        opened = Repositories(store, ports).open_or_create(
            Call(who, repository=repository), repository
        )
        store.flush(store.epoch())
        return Embedded(store, opened, who, StoreAccess(store, store_url, ports))
    except BaseException:
        store.close()
        raise


def check_store(
    store_url: str,
    repositories: Sequence[str] | None = None,
    *,
    history: bool = False,
    report_progress: ReportProgress | None = None,
) -> Report:
    """Checks these repositories of a store, or all of them, and what belongs to none.

    Nothing is written, and no repository is created. NotFound if a named one does not exist.
    """
    store = open_store(store_url, any_format=True)
    try:
        ports = _ports()
        options = CheckOptions(
            names=repositories,
            decode=ContentTypes().decode,
            history=history,
            unreferenced=history,
            others=(check_access,),
        )
        return check_stored_repositories(store, ports, options, report_progress)
    finally:
        store.close()


class Embedded(RepositoryGroups[BlockingRunner]):
    """A repository in this process."""

    def __init__(
        self,
        store: Store,
        repository: Repository,
        who: str = "",
        access: StoreAccess | None = None,
    ) -> None:
        access = access or StoreAccess(store, "", _ports())
        self._lane_runner = LaneRunner(store, repository, who, access)
        super().__init__(self._lane_runner)
        self._store = store
        self._repository = repository
        self.repository = repository.name

    def check(
        self,
        report_progress: ReportProgress | None = None,
        *,
        history: bool = False,
        unreferenced: bool = False,
    ) -> Report:
        """Reads everything that is referred to and reports damage; repairs nothing.

        With `history` it reads the contents of all commits, not only where references are and were;
        with `unreferenced` then also objects that nothing refers to.
        """
        return check_repository(
            self._repository.context,
            report_progress,
            decode=self._repository.types.decode,
            history=history,
            unreferenced=unreferenced,
        )

    def sweep(self) -> Purged:
        """Deletes expired branches, and tombstones and claims that are older than a day: all.

        Writes do the same at intervals, some rows at a time.
        """
        return self._lane_runner.durably(self._repository.sweep)

    def close(self) -> None:
        """Closes the store."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _ports() -> Ports:
    return Ports(SystemClock(), SystemRandom(), ThreadWaiting())
