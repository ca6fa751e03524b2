"""Use cases of a whole store: counting it, reading its rows, erasing a repository.

The rows of a store are all that its repositories and its users have, so reading them needs
MANAGE_ACCESS: who has it can take every other right too.
"""

from __future__ import annotations

from functools import partial

from lochan.access.policy import Action, Call, Policy, Resource
from lochan.base.errors import Invalid
from lochan.base.ids import INSTANCE_ID_BYTES
from lochan.base.limits.maintenance import COPY_PAGE_ROWS_MAX, ERASE_GRACE_S
from lochan.kv.store import Partition
from lochan.model.stores import CountPage, EraseStep, StoredPage, StoredRow
from lochan.service.repositories import Repositories
from lochan.transfer.counts import count_page
from lochan.transfer.erasure import erase_some, plan_erasure
from lochan.transfer.retried import Retried
from lochan.transfer.sources import StoreSource


class StoreControl:
    """What may be done with the store of a server; for any number of threads."""

    def __init__(self, repositories: Repositories, policy: Policy) -> None:
        self._repositories = repositories
        self._store = repositories.store
        self._source = StoreSource(repositories.store)
        self._ports = repositories.ports
        self._policy = policy

    def count(self, call: Call, exact: bool, token: str | None) -> CountPage:
        """Counts a part of the store; without a token the first one."""
        self._policy.decide(call, Action.READ_ACCESS, Resource(""))
        return count_page(self._source, exact=exact, token=token)

    def scan(
        self, call: Call, partition: bytes, start: bytes, end: bytes | None, limit: int
    ) -> StoredPage:
        """Returns rows of one partition, in the order of their keys."""
        self._policy.decide(call, Action.MANAGE_ACCESS, Resource(""))
        _check_prefix(partition)
        limit = min(limit, COPY_PAGE_ROWS_MAX)
        page = self._source.scan(Partition(partition), start, end, limit)
        rows = [StoredRow(partition, entry.key, entry.value) for entry in page.entries]
        return StoredPage(tuple(rows), page.next_start)

    def walk(self, call: Call, prefix: bytes, cursor: bytes, limit: int) -> StoredPage:
        """Returns rows of the partitions whose names begin so, in the order of the store."""
        self._policy.decide(call, Action.MANAGE_ACCESS, Resource(""))
        _check_prefix(prefix)
        page = self._source.walk(prefix, cursor, min(limit, COPY_PAGE_ROWS_MAX))
        rows = [StoredRow(place, entry.key, entry.value) for place, entry in page.rows]
        return StoredPage(tuple(rows), page.next_cursor)

    def erase(
        self, call: Call, repository: str, token: str | None, position: str = ""
    ) -> EraseStep:
        """Does a step of an erasure; without a token it only returns the token."""
        self._policy.decide(call, Action.DELETE_REPOSITORY, Resource(repository))
        if token is None:
            return plan_erasure(self._source, repository)
        delete = partial(self._repositories.delete, call)
        retried = Retried(self._ports, 0)
        return erase_some(
            self._store,
            self._ports.clock,
            retried,
            repository,
            token,
            delete,
            position=position,
            grace_s=ERASE_GRACE_S,
        )


def _check_prefix(prefix: bytes) -> None:
    if len(prefix) < INSTANCE_ID_BYTES:
        raise Invalid(f"a partition is named by at least {INSTANCE_ID_BYTES} bytes")
