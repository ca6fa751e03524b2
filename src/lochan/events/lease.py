"""The lease of a subscriber: of several servers that share a store, one delivers.

The row of the subscriber names the owner. The owner renews it, and another server takes it:

1. The owner measures the time, then renews the row by compare-and-swap. From the measured time on
   the lease lasts one and a half times as long as a call of the listener may take. In its first
   third the owner begins calls and moves cursors without a further look; then it renews it first.
2. Another server notes when it saw the row for the first time. If it is unchanged after the whole
   duration, by the clock of that server, it makes itself the owner and raises the fence.

So no clocks are compared: the duration of 2 begins after that of 1. An owner that was paused
somewhere finds the row of another one when it renews, and stops (`LeaseLost`). Its last call may
still be under way when another server takes over: then an event is delivered twice.
"""

from __future__ import annotations

from typing import Final

import msgspec

from lochan.base.errors import LochanError
from lochan.base.limits.events import EVENT_LEASE_CALLS
from lochan.codec.cursors import SubscriberRow
from lochan.kernel.repository import Ports
from lochan.kv.store import Stamp, Store
from lochan.persist.cursors import SubscriberRows, exchange
from lochan.persist.retry import Retry, RetryPolicy
from lochan.persist.rows import Stamped

_NS_OF_MS: Final = 1_000_000
_OWNER_BYTES: Final = 16


class LeaseLost(Exception):
    """Another server delivers to this subscriber."""


class Lease:
    """The lease of one subscriber, as one worker sees it."""

    def __init__(
        self, store: Store, name: str, ports: Ports, call_ms_max: int, retry_policy: RetryPolicy
    ) -> None:
        self._rows = SubscriberRows(store)
        self._name = name
        self._ports = ports
        self._owner = ports.random.random_bytes(_OWNER_BYTES)
        self._duration_ms = int(call_ms_max * EVENT_LEASE_CALLS)
        self._sure_ms = self._duration_ms - call_ms_max
        self._retry_policy = retry_policy
        self._sure_until_ns = 0
        self._seen: tuple[Stamp, int] | None = None
        self.is_held = False
        self.fence = 0

    def has_begun(self) -> bool:
        """Returns whether the subscriber has cursors, from this start or an earlier one."""
        found = self._rows.fetch(self._name)
        return found is not None and found.row.has_begun

    def mark_begun(self) -> None:
        """Notes that every repository has a cursor; the owner stays the same."""
        retry = self._retry()
        while True:
            found = self._rows.fetch(self._name)
            row = None if found is None else found.row
            base = row or SubscriberRow(1, self._name, b"", 0, 0, self._duration_ms, 0)
            begun = msgspec.structs.replace(base, has_begun=True)
            if exchange(self._rows, self._name, row, begun, self._retry()):
                return
            retry.again(at_once=True)

    def hold(self) -> bool:
        """Takes the lease, or renews it if that is due; returns whether this worker has it."""
        begin_ns = self._now_ns()
        if self.is_held and begin_ns < self._sure_until_ns:
            return True
        retry = self._retry()
        while True:
            found = self._rows.fetch(self._name)
            wanted = self._wanted(found)
            if wanted is None:
                self.is_held = False
                return False
            row = None if found is None else found.row
            if exchange(self._rows, self._name, row, wanted, self._retry()):
                break
            retry.again(at_once=True)
        self.is_held, self.fence, self._seen = True, wanted.fence, None
        self._sure_until_ns = begin_ns + self._sure_ms * _NS_OF_MS
        return True

    def check(self) -> None:
        """Raises LeaseLost unless this worker has had the lease without a break."""
        fence = self.fence
        if not self.is_held or not self.hold() or self.fence != fence:
            raise LeaseLost

    def pause_ms(self) -> float:
        """Returns after how long the lease has to be looked at again."""
        if not self.is_held:
            return self._sure_ms
        return max(0.0, (self._sure_until_ns - self._now_ns()) / _NS_OF_MS)

    def release(self) -> None:
        """Gives the lease back, so that another server need not wait; a failure changes nothing."""
        if not self.is_held:
            return
        self.is_held = False
        try:
            found = self._rows.fetch(self._name)
            if found is not None and found.row.owner == self._owner:
                free = msgspec.structs.replace(found.row, owner=b"")
                exchange(self._rows, self._name, found.row, free, self._retry())
        except LochanError:
            # It ends by itself.
            return

    def _wanted(self, found: Stamped[SubscriberRow] | None) -> SubscriberRow | None:
        """Returns the row with this worker as its owner, None while another one has the lease."""
        duration_ms = self._duration_ms
        expires_us = self._ports.clock.now_us() + duration_ms * 1_000
        if found is None:
            return SubscriberRow(1, self._name, self._owner, 1, 0, duration_ms, expires_us)
        row = found.row
        if row.owner not in (self._owner, b"") and not self._has_ended(found):
            return None
        return msgspec.structs.replace(
            row,
            owner=self._owner,
            fence=row.fence + (row.owner != self._owner),
            renewals=row.renewals + 1,
            duration_ms=duration_ms,
            expires_us=expires_us,
        )

    def _has_ended(self, found: Stamped[SubscriberRow]) -> bool:
        """Returns whether the row of another owner was the same for as long as its lease lasts."""
        now_ns = self._now_ns()
        if self._seen is None or self._seen[0] != found.stamp:
            self._seen = (found.stamp, now_ns)
        return now_ns - self._seen[1] >= found.row.duration_ms * _NS_OF_MS

    def _retry(self) -> Retry:
        ports = self._ports
        return Retry(ports.clock, ports.random, ports.waiting, self._retry_policy)

    def _now_ns(self) -> int:
        return self._ports.clock.monotonic_ns()
