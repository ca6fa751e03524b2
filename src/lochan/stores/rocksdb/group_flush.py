"""Group flush: one synchronisation of the log serves all callers that wait for one.

Steps of `up_to(epoch)`:

1. if everything up to the epoch is durable, return;
2. wait for the lock; if the previous owner has made the epoch durable, return;
3. note the last write, synchronise, and only then count everything up to the noted write as
   durable.

Writes that arrive during step 3 are not covered; the next owner of the lock covers all of them at
once. After a failed synchronisation it is unknown what is on the disk, and a second attempt may
succeed without having written the lost pages. So the failure is final: its cause is logged and
`on_failure` is called once.
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
    """Makes writes durable, for many waiting callers at a time."""

    def __init__(
        self,
        synchronise: Callable[[], None],
        last_write: Callable[[], int],
        on_failure: Callable[[str], None],
        store: str = "",
    ) -> None:
        self._store = store
        self._synchronise = synchronise
        self._last_write = last_write
        self._on_failure = on_failure
        self._lock = Lock()
        self._durable = 0
        self._failure: str | None = None

    def up_to(self, epoch: int) -> None:
        """Returns when every write up to that number is durable."""
        if epoch <= self._durable:
            return
        with self._lock:
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
            self._on_failure(self._failure)
            raise StoreClosed(self._failure) from error
        self._durable = covered
