"""Opening a repository in this process."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Self

from lochan.access.check import check_access
from lochan.access.policy import Call
from lochan.assembly import open_store
from lochan.assembly.events import EventRunner, StoreRepositories
from lochan.assembly.places import Places, TemporaryPlaces, data_directory
from lochan.assembly.subscribers import Registration
from lochan.catalog.types import ContentTypes
from lochan.client.groups.repository import RepositoryGroups
from lochan.client.methods import BlockingRunner
from lochan.embedded.access import StoreAccess
from lochan.embedded.lane_runner import LaneRunner
from lochan.events.subscribers import Subscriber
from lochan.kernel.check import Report, ReportProgress, check_repository
from lochan.kernel.check_store import CheckOptions
from lochan.kernel.check_store import check_store as check_stored_repositories
from lochan.kernel.context import Tuning
from lochan.kernel.purge import Purged
from lochan.kernel.repository import Ports
from lochan.kv.store import Store
from lochan.kv.url import parse_store_url
from lochan.service.repositories import Repositories
from lochan.service.repository import Repository
from lochan.system import SystemClock, SystemRandom, ThreadWaiting


def open_repository(
    store_url: str,
    repository: str = "default",
    *,
    who: str = "",
    data: str | Path = "",
    storage: str = "",
    imports: Sequence[str] = (),
    subscribers: Sequence[Subscriber] = (),
) -> Embedded:
    """Opens a repository, and creates it if the store has none of that name; close it after use.

    `who` is written into commits and ref-logs as their author. Bytes of files that are not small
    are below the directory `data`: by default the one that contains an embedded store, and for
    `memory:` one that exists until the repository is closed. `storage` is the URL of another place
    for them, if the repository is created. `imports` are URLs of prefixes that may be imported.
    `subscribers` get the events of what this process changes; those with a durable cursor get what
    every process changes in any repository of the store.
    """
    store = open_store(store_url)
    places = _places(store_url, str(data), storage, imports)
    events: EventRunner | None = None
    try:
        ports = _ports()
        if subscribers:
            events = EventRunner(ports)
        call = Call(who, repository=repository)
        tuning = Tuning(observer=None if events is None else events.hub)
        found = Repositories(store, ports, files=places.support(), tuning=tuning)
        if events is not None:
            events.register(
                [
                    Registration(name=type(one).__name__, load=partial(_given, one))
                    for one in subscribers
                ],
                StoreRepositories(found),
            )
        opened = found.open_or_create(call, repository, storage)
        store.flush(store.epoch())
        access = StoreAccess(store, store_url, ports)
        return Embedded(store, opened, who, access, places, events)
    except BaseException:
        if events is not None:
            events.close()
        places.close()
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
        places: Places | None = None,
        events: EventRunner | None = None,
    ) -> None:
        access = access or StoreAccess(store, "", _ports())
        self._lane_runner = LaneRunner(store, repository, who, access)
        super().__init__(self._lane_runner)
        self._store = store
        self._places = places
        self._events = events
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
        """Delivers events that are queued, then closes the store and the places of files."""
        if self._events is not None:
            self._events.close()
        if self._places is not None:
            self._places.close()
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _places(store_url: str, data: str, storage: str, imports: Sequence[str]) -> Places:
    # A program that can open a store may write where its process may.
    allowed = (storage,) if storage.startswith("file:") else ()
    if not data and parse_store_url(store_url).scheme == "memory":
        return TemporaryPlaces(imports=imports, allowed=allowed, elsewhere=True)
    root = data_directory(store_url, data)
    return Places(root, imports=imports, allowed=allowed, elsewhere=True)


def _given(subscriber: Subscriber) -> Subscriber:
    return subscriber


def _ports() -> Ports:
    return Ports(SystemClock(), SystemRandom(), ThreadWaiting())
