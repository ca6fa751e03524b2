"""What all changes of the directory share: tables, retries, and the revision that ends a change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from lochan.access.revision import Revision
from lochan.access.rows import AccessRows
from lochan.base.errors import Invalid, NotFound, TooLarge
from lochan.base.limits.access import ACCESS_DESCRIPTION_CHARACTERS_MAX
from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.kernel.repository import Ports
from lochan.kv.store import Store
from lochan.persist.retry import Retry, RetryPolicy

_ID_BYTES: Final = 16


class DirectoryBase:
    """The tables of one store and how they are changed."""

    def __init__(self, store: Store, ports: Ports, retry_policy: RetryPolicy) -> None:
        self._ports = ports
        self._retry_policy = retry_policy.for_steps()
        self._rows = AccessRows(store, ports.clock)
        self.revision = Revision(store, ports, self._retry_policy)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Ends a change with a new revision.

        An answer that something is absent may be the second one to a request whose first reply
        was lost, so it ends with one, too.
        """
        try:
            yield
        except NotFound:
            self.revision.change()
            raise
        self.revision.change()

    def _retry(self) -> Retry:
        ports = self._ports
        return Retry(ports.clock, ports.random, ports.waiting, self._retry_policy)

    def _now_us(self) -> int:
        return self._ports.clock.now_us()

    def _new_id(self) -> bytes:
        return self._ports.random.random_bytes(_ID_BYTES)


def page_limit(limit: int | None) -> int:
    """Returns how many entries a page has."""
    if limit is not None and limit < 1:
        raise Invalid(f"a page has at least one entry, not {limit}")
    return PAGE_ENTRIES_MAX if limit is None else min(limit, PAGE_ENTRIES_MAX)


def description_of(text: str) -> str:
    """Checks a description."""
    if len(text) > ACCESS_DESCRIPTION_CHARACTERS_MAX:
        raise TooLarge(f"a description has at most {ACCESS_DESCRIPTION_CHARACTERS_MAX} characters")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Invalid("a description is not text: it holds half of a surrogate pair") from None
    return text
