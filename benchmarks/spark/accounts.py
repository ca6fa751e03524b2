"""CPU time of many processes, some of which end meanwhile; from the process table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import psutil


class Account(NamedTuple):
    """The processor time of a process: its own, and that of ended children it waited for."""

    parent: int
    own_s: float
    waited_s: float


Accounts = Mapping[int, Account]


def look() -> Accounts:
    """Returns the accounts of this process and of everything below it."""
    found = {}
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        try:
            times, parent = process.cpu_times(), process.ppid()
        except psutil.NoSuchProcess:
            continue
        waited = times.children_user + times.children_system
        found[process.pid] = Account(parent, times.user + times.system, waited)
    return found


def used_between(before: Accounts, after: Accounts) -> float:
    """Returns the CPU seconds that were used between two looks.

    A process that has ended is in the account of a parent that waited, with all its time; its time
    before the first look is subtracted there. Spark ends idle workers whose parent does not wait:
    their time was never added, so nothing is subtracted.
    """
    used = 0.0
    came_in = {}
    for pid, account in after.items():
        earlier = before.get(pid, Account(0, 0.0, 0.0))
        came_in[pid] = account.waited_s - earlier.waited_s
        used += account.own_s - earlier.own_s + came_in[pid]
    for pid, account in before.items():
        heir, lost = account.parent, account.own_s + account.waited_s
        while heir not in after and heir in before:
            heir = before[heir].parent
        if pid not in after and came_in.get(heir, 0.0) >= lost:
            came_in[heir] -= lost
            used -= lost
    return used
