"""Opening a repository in this process."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from lochan.assembly import open_store
from lochan.base.ids import EMPTY_ID
from lochan.catalog.types import ContentTypes
from lochan.client.values import Config
from lochan.embedded.lane_runner import LaneRunner
from lochan.embedded.reading import Contents, History
from lochan.embedded.references import References
from lochan.embedded.writing import Commits, Merges, Namespaces, RepositorySettings
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
    """Opens a repository, and makes it if the store has none of that name; close it after use.

    `who` is written into commits and ref-logs as the one who made them.
    """
    store = open_store(store_url)
    try:
        ports = Ports(SystemClock(), SystemRandom(), ThreadWaiting())
        opened = Repositories(store, ports).open_or_create(repository)
        store.flush(store.epoch())
        return Embedded(store, opened, who)
    except BaseException:
        store.close()
        raise


def check_store(
    store_url: str,
    repositories: Sequence[str] | None = None,
    *,
    history: bool = False,
    tell: ReportProgress | None = None,
) -> Report:
    """Checks these repositories of a store, or all of them, and what belongs to none.

    Nothing is written, and no repository is made. NotFound if one that is named is not there.
    """
    store = open_store(store_url, any_format=True)
    try:
        ports = Ports(SystemClock(), SystemRandom(), ThreadWaiting())
        options = CheckOptions(
            names=repositories,
            decode=ContentTypes().decode,
            history=history,
            unreferenced=history,
        )
        return check_stored_repositories(store, ports, options, tell)
    finally:
        store.close()


class Embedded:
    """A repository in this process."""

    def __init__(self, store: Store, repository: Repository, who: str = "") -> None:
        doing = self._doing = LaneRunner(store, repository, who)
        self._store = store
        self._repository = repository
        self.repository = repository.name
        self.references = References(doing)
        self.contents = Contents(doing)
        self.history = History(doing)
        self.commits = Commits(doing)
        self.merges = Merges(doing)
        self.namespaces = Namespaces(doing)
        self.settings = RepositorySettings(doing)

    def config(self) -> Config:
        """Returns what the repository says of itself."""
        info = self._repository.info
        return Config(
            default_branch=info.default_branch,
            created_us=info.created_us,
            empty_hash=EMPTY_ID.hex(),
            spec_version="",
        )

    def check(
        self,
        tell: ReportProgress | None = None,
        *,
        history: bool = False,
        unreferenced: bool = False,
    ) -> Report:
        """Reads everything that is referred to and reports what is damaged; repairs nothing.

        With `history` it reads the contents of all commits, not only where references are and were;
        with `unreferenced` then also objects that nothing refers to.
        """
        return check_repository(
            self._repository.context,
            tell,
            decode=self._repository.types.decode,
            history=history,
            unreferenced=unreferenced,
        )

    def sweep(self) -> Purged:
        """Deletes expired branches, and tombstones and claims that are older than a day: all.

        Writes do the same by themselves, some rows now and then.
        """
        return self._doing.durably(self._repository.sweep)

    def close(self) -> None:
        """Closes the store."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
