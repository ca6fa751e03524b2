"""What is done with a whole store that this process opens: count, copy, erase a repository."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Final, Protocol

from lochan.access.policy import Call
from lochan.assembly import open_store
from lochan.base.errors import AlreadyExists
from lochan.base.limits.maintenance import ERASE_GRACE_S
from lochan.client import Client
from lochan.kernel.repository import Ports
from lochan.kv.store import Entry, Page, Partition, Stamp, Store
from lochan.kv.url import parse_store_url
from lochan.kv.walk import WalkPage
from lochan.model.stores import CountPage, EraseStep, StoredRow
from lochan.service.repositories import Repositories
from lochan.system import SystemClock, SystemRandom, ThreadWaiting
from lochan.transfer.counts import count_page
from lochan.transfer.erasure import erase_some, plan_erasure
from lochan.transfer.retried import Retried, RetriedSource
from lochan.transfer.sources import RowSource, StoreSource
from lochan.transfer.store_copy import CopyReport, ReportCopy, StoreCopy

_SOURCE_ID_BYTES: Final = 16
_WAIT_MS: Final = 1_000


def count_store(store_url: str, *, exact: bool = False) -> Iterator[CountPage]:
    """Yields what a store contains, step by step; `transfer.counts.add_counts` adds the steps."""
    with _opened(store_url) as store:
        source = RetriedSource(StoreSource(store), Retried(_ports()))
        page = count_page(source, exact=exact)
        yield page
        while page.token is not None:
            page = count_page(source, exact=exact, token=page.token)
            yield page


def copy_store(
    source_url: str,
    target_url: str,
    report: ReportCopy | None = None,
    source: RowSource | None = None,
) -> CopyReport:
    """Copies a store to an empty one, or continues a copy that was stopped.

    `source` reads the store at the first address in another way, as through its server. Not copied:
    the bytes of files in blocks, and the secret keys of the servers.
    """
    name, target_name = str(parse_store_url(source_url)), str(parse_store_url(target_url))
    if name == target_name:
        raise AlreadyExists("a store cannot be copied to itself: name another target")
    source_id = sha256(b"source\0" + name.encode()).digest()[:_SOURCE_ID_BYTES]
    if source is None:
        with _opened(source_url) as opened:
            return copy_store_from(StoreSource(opened), target_url, source_id, report)
    return copy_store_from(source, target_url, source_id, report)


def copy_store_from(
    source: RowSource, target_url: str, source_id: bytes, report: ReportCopy | None
) -> CopyReport:
    """Copies the rows of a source to the store at an address."""
    with _opened(target_url) as target:
        return StoreCopy(source, target, _ports(), source_id, report).run()


def plan_erasure_of(store_url: str, repository: str) -> EraseStep:
    """Returns the token that confirms the erasure of a repository; erases nothing."""
    with _opened(store_url) as store:
        return plan_erasure(StoreSource(store), repository)


def erase_repository(store_url: str, repository: str, token: str) -> Iterator[EraseStep]:
    """Erases a repository step by step, and waits until no server can write to it any more."""
    ports = _ports()
    with _opened(store_url, any_format=False) as store:
        repositories = Repositories(store, ports)
        # What is inline belongs to this process alone.
        grace_s = 0 if store.capabilities.inline else ERASE_GRACE_S

        def delete(name: str) -> None:
            repositories.delete(Call(repository=name), name)

        def step(*, position: str) -> EraseStep:
            retried = Retried(ports)
            return erase_some(
                store,
                ports.clock,
                retried,
                repository,
                token,
                delete,
                position=position,
                grace_s=grace_s,
            )

        yield from erase_step_by_step(step)


class NextStep(Protocol):
    """Does the step of an erasure that follows a position."""

    def __call__(self, *, position: str) -> EraseStep:
        """Returns what it has done."""
        ...


def erase_step_by_step(do: NextStep) -> Iterator[EraseStep]:
    """Does the steps of an erasure until one is the last, and waits where one requires it."""
    step = do(position="")
    yield step
    while not step.done:
        if step.wait_ms:
            ThreadWaiting().sleep_ms(min(step.wait_ms, _WAIT_MS))
        step = do(position=step.position)
        yield step


class ServerSource:
    """The rows of the store of a server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def scan(self, partition: Partition, start: bytes, end: bytes | None, limit: int) -> Page:
        """Reads rows of one partition."""
        page = self._client.store.scan(partition, start, end, limit)
        return Page([_entry(row) for row in page.rows], page.further)

    def walk(self, prefix: bytes, cursor: bytes, limit: int) -> WalkPage:
        """Reads rows of several partitions."""
        page = self._client.store.walk(prefix, cursor, limit)
        return WalkPage(
            [(Partition(row.partition), _entry(row)) for row in page.rows], page.further
        )


def _entry(row: StoredRow) -> Entry:
    # A copy has stamps of its own.
    return Entry(row.key, row.value, Stamp(b""))


@contextmanager
def _opened(store_url: str, *, any_format: bool = True) -> Iterator[Store]:
    store = open_store(store_url, any_format=any_format)
    try:
        yield store
    finally:
        store.close()


def _ports() -> Ports:
    return Ports(SystemClock(), SystemRandom(), ThreadWaiting())
