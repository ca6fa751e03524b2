"""Faults drawn from a seed, on the connections between servers and their database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from threading import Event, Thread
from types import TracebackType
from typing import Final

from lochan.testing.tcp_faults import FaultyWire, Way, WireFault

FAULTS: Final = tuple(one for one in WireFault if one is not WireFault.NOTHING)

# A commit and its answer have some thousand bytes, so that a fault comes within a few of them.
_BYTES_MAX: Final = 6_000

# A wire on which nothing passes has no fault; the next one is drawn then.
_MET_S: Final = 1.0


class DrawnFaults:
    """Plans one fault after the other while the body of `with` runs; `met` counts them."""

    def __init__(
        self, wires: Sequence[FaultyWire], seed: int, *, apart_s: float, lasting_s: float
    ) -> None:
        self._wires = wires
        self._pick = Random(seed)
        self._apart_s = apart_s
        self._lasting_s = lasting_s
        self._ending = Event()
        self._thread = Thread(target=self._run, daemon=True)
        self.met: Counter[WireFault] = Counter()

    def __enter__(self) -> DrawnFaults:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ending.set()
        self._thread.join()
        for wire in self._wires:
            wire.release()

    def summary(self) -> str:
        """Returns how often each fault happened."""
        return ", ".join(f"{self.met[one]} {one.name.lower()}" for one in FAULTS)

    def _run(self) -> None:
        while not self._ending.wait(self._pick.uniform(0, self._apart_s)):
            wire = self._pick.choice(self._wires)
            fault = self._pick.choice(FAULTS)
            way = self._pick.choice(tuple(Way))
            wire.plan(fault, way, self._pick.randrange(_BYTES_MAX))
            if wire.happened.wait(_MET_S):
                self.met[fault] += 1
                if fault in (WireFault.DELAY, WireFault.DRIP):
                    self._ending.wait(self._pick.uniform(0, self._lasting_s))
            wire.release()
