"""Calls of a store that may be made again without harm, repeated while a database does not answer.

Only for calls whose repetition changes nothing: reads, `add_many`, `put_many` and `delete` of rows
that no other process writes, `flush`; and for a conditional write whose caller reads afterwards
what is there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from lochan.base.errors import Exhausted, LochanError, StoreClosed, Unavailable, Unknown
from lochan.base.limits.maintenance import STORE_WORK_TIMEOUT_MS
from lochan.kernel.repository import Ports
from lochan.kv.store import Page, Partition
from lochan.kv.walk import WalkPage
from lochan.persist.retry import Retry, RetryPolicy
from lochan.transfer.sources import RowSource

_Result = TypeVar("_Result")
_Arguments = ParamSpec("_Arguments")


class Retried:
    """Makes calls; one that fails for a passing reason is made again, for a bounded time."""

    def __init__(self, ports: Ports, timeout_ms: int = STORE_WORK_TIMEOUT_MS) -> None:
        self._ports = ports
        self._policy = RetryPolicy(timeout_ms)

    def call(
        self,
        function: Callable[_Arguments, _Result],
        *arguments: _Arguments.args,
        **named: _Arguments.kwargs,
    ) -> _Result:
        """Returns what the function returns; its last error when the time is over."""
        retry: Retry | None = None
        while True:
            try:
                return function(*arguments, **named)
            except StoreClosed:
                raise
            except (Exhausted, Unavailable, Unknown) as error:
                ports = self._ports
                retry = retry or Retry(ports.clock, ports.random, ports.waiting, self._policy)
                _again(retry, error)


def _again(retry: Retry, error: LochanError) -> None:
    try:
        retry.again()
    except Exhausted:
        raise error from None


class RetriedSource:
    """A source whose reads are repeated."""

    def __init__(self, source: RowSource, retried: Retried) -> None:
        self._source = source
        self._retried = retried

    def scan(self, partition: Partition, start: bytes, end: bytes | None, limit: int) -> Page:
        """Passes on."""
        return self._retried.call(self._source.scan, partition, start, end, limit)

    def walk(self, prefix: bytes, cursor: bytes, limit: int) -> WalkPage:
        """Passes on."""
        return self._retried.call(self._source.walk, prefix, cursor, limit)
