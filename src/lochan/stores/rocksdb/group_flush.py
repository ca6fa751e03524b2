"""Group flush: one synchronisation of the log for all who wait for one.

Steps of `up_to(epoch)`:

1. if everything up to the epoch is durable, return;
2. wait for the turn; who had it before may have made the epoch durable: then return;
3. note the last write, synchronise, and only then call everything up to the noted write durable.

Writes that arrive during step 3 are not covered: the next in turn covers them all at once. After a
failed synchronisation nobody knows what the disk holds, and trying again may succeed without having
written the lost pages; so the failure is final, its cause is logged and `failed` is told once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Lock
from typing import Final

from lochan.base.errors import StoreClosed
from lochan.stores.rocksdb.failures import errno_of

_LOG: Final = logging.getLogger("lochan.stores.rocksdb")


class GroupFlush:
    """Makes writes durable, many waiters at a time."""

    def __init__(
        self,
        synchronise: Callable[[], None],
        last_write: Callable[[], int],
        failed: Callable[[str], None],
        store: str = "",
    ) -> None:
        self._store = store
        self._synchronise = synchronise
        self._last_write = last_write
        self._failed = failed
        self._turn = Lock()
        self._durable = 0
        self._failure: str | None = None

    def up_to(self, epoch: int) -> None:
        """Returns when every write up to that number is durable."""
        if epoch <= self._durable:
            return
        with self._turn:
            if self._failure is not None:
                raise StoreClosed(self._failure)
            if epoch > self._durable:
                self._flush()

    def _flush(self) -> None:
        covered = self._last_write()
        try:
            self._synchronise()
        except Exception as error:
            _LOG.critical(
                "flush failed store=%s errno=%s error=%s: %s",
                self._store,
                errno_of(error),
                type(error).__name__,
                error,
            )
            self._failure = f"the store stopped because a flush failed: {error}"
            self._failed(self._failure)
            raise StoreClosed(self._failure) from error
        self._durable = covered
