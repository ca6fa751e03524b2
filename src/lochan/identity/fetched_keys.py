"""Signing keys that are fetched: remembered, refreshed behind the requests, kept when that fails.

1. A key that is known is returned at once. If the keys are older than KEYS_REFRESH_MS, a thread
   fetches them again meanwhile.
2. A key id that is not known causes a fetch, at most one in KEY_FETCH_INTERVAL_MS however many
   requests name one. A few threads wait for it; all others are answered from what is known.
3. A fetch that fails changes nothing. Known keys are used for KEYS_AGE_MS_MAX; after that tokens
   can neither be accepted nor refused.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from lochan.access.signing_keys import SigningKey, parse_key_set
from lochan.base.errors import Invalid, Unavailable
from lochan.base.limits.credentials import (
    KEY_FETCH_INTERVAL_MS,
    KEY_FETCH_TIMEOUT_MS,
    KEY_FETCH_WAITERS_MAX,
    KEYS_REFRESH_MS,
)
from lochan.base.ports import Clock
from lochan.identity.known_keys import NS_PER_MS, KnownKeys, check_known, find_known
from lochan.process import after_fork

_LOG: Final = logging.getLogger("lochan.identity")


def start_thread(work: Callable[[], None]) -> None:
    """Runs a function in a thread that does not keep the process alive."""
    threading.Thread(target=work, name="lochan-signing-keys", daemon=True).start()


class FetchedKeys:
    """A source of keys; for any number of threads, but not for an event loop: it may wait."""

    def __init__(
        self,
        source: str,
        fetch: Callable[[], bytes],
        clock: Clock,
        start: Callable[[Callable[[], None]], None] = start_thread,
    ) -> None:
        self._source = source
        self._fetch = fetch
        self._clock = clock
        self._start = start
        self._known: KnownKeys | None = None
        self._tried_ns: int | None = None
        self._forget_threads()
        after_fork(self, FetchedKeys._forget_threads)

    def _forget_threads(self) -> None:
        self._lock = threading.Lock()
        self._waiters = threading.BoundedSemaphore(KEY_FETCH_WAITERS_MAX)

    def find_key(self, key_id: str) -> SigningKey | None:
        """Returns the key with an id, None if the issuer has none.

        Waits for a fetch if the id is not known; Unavailable if no keys are known at all.
        """
        known = self._known
        found = find_known(known, key_id, self._clock)
        if found is None:
            self.refresh()
            check_known(self._known, self._clock, self._source)
            return find_known(self._known, key_id, self._clock)
        if known is not None and known.age_ms(self._clock) > KEYS_REFRESH_MS:
            if self._may_try() and not self._lock.locked():
                self._start(self.refresh)
        return found

    def refresh(self) -> None:
        """Fetches the keys unless that was tried a short time ago; a failure is logged only."""
        # Locks of before a fork are not those of after it.
        waiters, lock = self._waiters, self._lock
        if not waiters.acquire(blocking=False):
            return
        try:
            if lock.acquire(timeout=KEY_FETCH_TIMEOUT_MS / 1_000):
                try:
                    if self._may_try():
                        self._fetch_once()
                finally:
                    lock.release()
        finally:
            waiters.release()

    def _may_try(self) -> bool:
        if self._tried_ns is None:
            return True
        passed_ns = self._clock.monotonic_ns() - self._tried_ns
        return passed_ns >= KEY_FETCH_INTERVAL_MS * NS_PER_MS

    def _fetch_once(self) -> None:
        began_ns = self._tried_ns = self._clock.monotonic_ns()
        try:
            keys = parse_key_set(self._fetch())
        except (Unavailable, Invalid) as error:
            age_ms = None if self._known is None else self._known.age_ms(self._clock)
            _LOG.error(
                "signing keys not fetched url=%s reason=%r known_age_ms=%s",
                self._source,
                error.message,
                age_ms,
            )
            return
        self._known = KnownKeys(keys, began_ns)
        _LOG.info("signing keys fetched url=%s keys=%d", self._source, len(keys.keys))
