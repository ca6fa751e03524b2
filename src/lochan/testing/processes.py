"""Signals to a whole program: a process and everything that it has started."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from signal import SIGKILL, Signals, pidfd_send_signal


def family_of(pid: int) -> list[int]:
    """Returns a process and all processes that descend from it, a parent before its children."""
    children: dict[int, list[int]] = {}
    for child, parent in _processes():
        children.setdefault(parent, []).append(child)
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


def signal_family(pid: int, signal: Signals) -> None:
    """Sends a signal to a process and its descendants, the first process first."""
    for one in family_of(pid):
        # It may have ended since it was listed.
        with suppress(ProcessLookupError):
            os.kill(one, signal)


def kill_family(pid: int) -> None:
    """Kills a process and its descendants; returns when all have ended, zombies included."""
    descriptors: list[int] = []
    try:
        for one in family_of(pid):
            with suppress(ProcessLookupError):
                descriptors.append(os.pidfd_open(one))
        for descriptor in descriptors:
            with suppress(ProcessLookupError):
                pidfd_send_signal(descriptor, SIGKILL)
        for descriptor in descriptors:
            # The descriptor of a process can be read when the process has ended.
            select.select([descriptor], [], [])
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _processes() -> Iterator[tuple[int, int]]:
    """Yields the id of every process and that of its parent."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                yield int(folder.name), int(fields[1])
