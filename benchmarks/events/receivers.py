"""The subscribers that are measured, as a package that is installed for one run.

Each counts in a file of eight bytes, which the measuring process reads without asking the server.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lochan.events.subscribers import EventListener, Registrar
from lochan.model.events import Event

_BYTES = 8


class Counting(EventListener):
    """Accepts everything at once."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def register(self, registrar: Registrar) -> None:
        with self._path.open("r+b") as file:
            self._counter = memoryview(mmap.mmap(file.fileno(), _BYTES)).cast("Q")
        registrar.subscribe(self)

    def on_event(self, event: Event) -> None:  # noqa: ARG002 - counted, whatever it is
        self._counter[0] += 1


class Blocked(Counting):
    """Never returns from its first call."""

    def on_event(self, event: Event) -> None:
        super().on_event(event)
        threading.Event().wait()


def open_counting(given: Mapping[str, Any]) -> Counting:
    return Counting(Path(given["counter"]))


def open_blocked(given: Mapping[str, Any]) -> Blocked:
    return Blocked(Path(given["counter"]))


def install(folder: Path) -> None:
    """Makes the two types known to servers that have the folder in PYTHONPATH."""
    declared = folder / "lochan_benchmark_receivers-1.dist-info"
    declared.mkdir(parents=True)
    (declared / "METADATA").write_text("Name: lochan-benchmark-receivers\nVersion: 1\n")
    (declared / "entry_points.txt").write_text(
        "[lochan.subscribers]\n"
        f"benchmark-counting = {__name__}:open_counting\n"
        f"benchmark-blocked = {__name__}:open_blocked\n"
    )


def new_counter(path: Path) -> Path:
    path.write_bytes(bytes(_BYTES))
    return path


def counted(path: Path) -> int:
    """Returns how many events a subscriber has got."""
    return int.from_bytes(path.read_bytes(), "little")
