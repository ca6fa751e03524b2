"""One row that changes with every change of access, so that caches notice it with one read.

Code that changes a user, a group, a policy or a credential writes the row after the change, before
the change is acknowledged. What a cache has read before it saw a revision may be out of date, so a
cache reads the revision first and the rows after it.

A value is sent once and never again: if a reply is lost, the next attempt has another one. A write
that takes effect late can therefore not bring back a revision that a cache has seen before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from lochan.access.records import ACCESS_PARTITION
from lochan.base.errors import Exhausted, Unavailable, Unknown
from lochan.base.limits.access import ACCESS_READ_ATTEMPTS_MAX, ACCESS_STALE_MS
from lochan.kernel.repository import Ports
from lochan.kv.store import Store
from lochan.persist.retry import Retry, RetryPolicy
from lochan.persist.rows import Doubt

REVISION_KEY: Final = b"revision"

_NS_PER_MS: Final = 1_000_000
REVISION_BYTES: Final = 16
_NOTICED: Final = Doubt(
    "all servers notice the change of access at once",
    "it was made, and counts everywhere after a minute; send the request again to be sure",
)

_Found = TypeVar("_Found")


class Revision:
    """The revision of everything about access in one store; for any number of threads."""

    def __init__(self, store: Store, ports: Ports, retry_policy: RetryPolicy) -> None:
        self._store = store
        self._ports = ports
        self._retry_policy = retry_policy
        self._seen: tuple[int, bytes, object] | None = None
        self._own = object()
        """Another one after each change by this server; what was read under an older one is old."""

    def change(self) -> None:
        """Marks that something was changed; called after the change."""
        ports = self._ports
        retry = Retry(ports.clock, ports.random, ports.waiting, self._retry_policy)
        while True:
            value = ports.random.random_bytes(REVISION_BYTES)
            try:
                self._store.put_many([(ACCESS_PARTITION, REVISION_KEY, value)])
            except (Exhausted, Unavailable, Unknown) as trouble:
                try:
                    retry.again()
                except Exhausted as error:
                    raise _NOTICED.error(error.message) from trouble
                continue
            finally:
                self._own = object()
            return

    def find_known(self) -> bytes | None:
        """Returns the revision if it was read a short time ago; reads nothing."""
        seen = self._seen
        now_ns = self._ports.clock.monotonic_ns()
        if seen is None or now_ns - seen[0] > ACCESS_STALE_MS * _NS_PER_MS:
            return None
        return seen[1] if seen[2] is self._own else None

    def read(self) -> bytes:
        """Returns the revision, as it was a short time ago at most."""
        known = self.find_known()
        return self.fetch() if known is None else known

    def fetch(self) -> bytes:
        """Reads the revision from the store."""
        own, began_ns = self._own, self._ports.clock.monotonic_ns()
        entry = self._store.get(ACCESS_PARTITION, REVISION_KEY)
        value = b"" if entry is None else entry.value
        self._seen = (began_ns, value, own)
        return value

    def read_unchanged(self, read: Callable[[], _Found]) -> _Found:
        """Returns what a function reads while the revision stays the same.

        So no change is seen without those that were acknowledged before it began: the members of a
        group as they were before one was removed never meet the policies that the group got after
        that. If there are too many changes, the last attempt counts, as old as any read may be.
        """
        before = self.fetch()
        for _ in range(ACCESS_READ_ATTEMPTS_MAX - 1):
            found = read()
            after = self.fetch()
            if after == before:
                return found
            before = after
        return read()
