"""Signals to a whole program: a process and everything that it has started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from signal import Signals


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


def is_running(pid: int) -> bool:
    """Returns whether there is such a process, and it has not ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("X", "Z")


def _processes() -> Iterator[tuple[int, int]]:
    """Yields the id of every process and that of its parent."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                yield int(folder.name), int(fields[1])
