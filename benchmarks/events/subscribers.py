"""Part `subscribers`: commits beside subscribers that accept everything, or nothing, or durably."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.events.receivers import counted, install, new_counter
from benchmarks.http_load.connection import Requests
from benchmarks.http_load.drive import Measured, drive, run
from benchmarks.http_load.preparation import Preparation
from benchmarks.http_load.processes import Served
from benchmarks.http_load.rows import Committer
from benchmarks.http_load.testbed import Testbed
from benchmarks.http_load.usage import between, look, resident_mb
from benchmarks.measure import emit

ACCEPTING_BAR = 0.80
NOTHING_BAR = 0.97
_BARS = (ACCEPTING_BAR, NOTHING_BAR, ACCEPTING_BAR)

SUBSCRIBERS = 5

_UNMATCHED: tuple[Mapping[str, Any], ...] = (
    {"references": ["other-*"]},
    {"types": ["REFERENCE_DELETED"]},
    {"roles": ["nobody"]},
    {"repositories": ["other"]},
    {"types": ["CONTENT_STORED"], "keys": ["other.*"]},
)

_WARM_S = 0.5
_LOOK_EVERY_S = 0.2
_DRAIN_S = 120


class _Variant:
    """One server with its subscribers, and what its windows gave."""

    def __init__(
        self, testbed: Testbed, name: str, tables: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self.name = name
        self.counters = [new_counter(testbed.folder / f"{name}-{one}.count") for one in tables]
        full = {
            one: {**table, "counter": str(path)}
            for (one, table), path in zip(tables.items(), self.counters, strict=True)
        }
        more = ("--subscribers", json.dumps(full)) if full else ()
        self.server: Served = testbed.start("lochan", more=more)
        self.first_mb = resident_mb([self.server.pid])
        self.rates: list[float] = []
        self.cpu_us: list[float] = []
        self.deliveries: list[float] = []

    def events(self) -> int:
        return sum(map(counted, self.counters))

    def window(self, number: int, seconds: float, committers: int) -> None:
        """Commits for a while, then waits until all that is queued is delivered."""
        first, before = look([self.server.pid]), self.events()
        measured = run(lambda: self._commit(f"w{number}", seconds, committers))
        in_window = self.events() - before
        drain_s = self._drain()
        used = between(first, look([self.server.pid]))
        delivered = self.events() - before
        self.rates.append(measured.operations / measured.seconds)
        # The accounts of the server cover what it did before the window opened too.
        commits = measured.operations * (seconds + _WARM_S) / seconds
        self.cpu_us.append(used.server * used.wall_s / commits * 1e6)
        self.deliveries.append(delivered / commits)
        emit(
            "event_subscribers",
            variant=self.name,
            round=number + 1,
            **measured.figures(),
            **measured.costs(),
            delivered=delivered,
            delivered_in_window=in_window,
            drain_s=drain_s,
            cpu_us_with_drain=self.cpu_us[-1],
        )

    async def _commit(self, name: str, seconds: float, committers: int) -> Measured:
        preparation = Preparation(Requests(self.server.address), name)
        branch = await preparation.branch("commits")
        numbers, prefix = count(), f"{preparation.name('k')}x"
        clients = [
            Committer(preparation.requests, branch, 1, prefix, numbers) for _ in range(committers)
        ]
        measured = await drive(
            preparation.requests,
            clients,
            seconds=seconds,
            warm_s=_WARM_S,
            pids=[self.server.pid],
        )
        preparation.caller.close()
        return measured

    def _drain(self) -> float:
        """Returns after how long the last event was delivered."""
        begin = still = time.monotonic()
        seen = self.events()
        while time.monotonic() - still < 3 * _LOOK_EVERY_S:
            time.sleep(_LOOK_EVERY_S)
            now = self.events()
            if now != seen:
                seen, still = now, time.monotonic()
            if time.monotonic() - begin > _DRAIN_S:
                raise RuntimeError(f"{self.name}: events still arrive after {_DRAIN_S} s")
        return still - begin


def measure(*, rounds: int, seconds: float, committers: int) -> None:
    """Lets the variants take turns, then compares them."""
    with Testbed("rocksdb") as testbed:
        install(testbed.folder / "packages")
        _add_to_path(testbed.folder / "packages")
        variants = _start(testbed)
        for number in range(rounds):
            for shift in range(len(variants)):
                variants[(number + shift) % len(variants)].window(number, seconds, committers)
        _compare(variants)


def _add_to_path(folder: Path) -> None:
    known = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = f"{folder}{os.pathsep}{known}" if known else str(folder)


def _start(testbed: Testbed) -> list[_Variant]:
    counting = {"type": "benchmark-counting"}
    accepting = {f"counting-{number}": counting for number in range(SUBSCRIBERS - 1)}
    accepting["blocked"] = {"type": "benchmark-blocked"}
    nothing = {f"nothing-{number}": {**counting, **one} for number, one in enumerate(_UNMATCHED)}
    return [
        _Variant(testbed, "none", {}),
        _Variant(testbed, "accepting", accepting),
        _Variant(testbed, "nothing", nothing),
        _Variant(testbed, "durable", {"durable": {**counting, "delivery": "at-least-once"}}),
    ]


def _compare(variants: list[_Variant]) -> None:
    none = variants[0]
    for variant, bar in zip(variants[1:], _BARS, strict=True):
        shares = [one / other for one, other in zip(variant.rates, none.rates, strict=True)]
        emit(
            "event_subscribers_relative",
            variant=variant.name,
            none_commits_s=median(none.rates),
            commits_s=median(variant.rates),
            share=median(shares),
            shares=[round(one, 3) for one in shares],
            # Less disturbed by others: what the server needs of a processor without and with.
            cpu_share=median(none.cpu_us) / median(variant.cpu_us),
            none_cpu_us=median(none.cpu_us),
            cpu_us=median(variant.cpu_us),
            cpu_us_per_delivery=_per_delivery(variant, none),
            resident_mb_first=variant.first_mb,
            resident_mb_last=resident_mb([variant.server.pid]),
            within_bar=median(shares) >= bar,
        )


def _per_delivery(variant: _Variant, none: _Variant) -> float:
    """Returns what the processor did more for each event that was handed over."""
    more_us = median(variant.cpu_us) - median(none.cpu_us)
    deliveries = median(variant.deliveries)
    return more_us / deliveries if deliveries else 0.0
