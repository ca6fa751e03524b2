"""Checking rows that nothing refers to, and counting those that a check cannot judge.

A claim can be read and held against its key; that one is missing cannot be known, because claims
are swept after a day. An object that nothing refers to can be held against its id; whether it
should be there cannot be known, because a writer may be about to refer to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from lochan.base.ids import ObjId
from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.codec.commits import check_any_object
from lochan.codec.rows import SETTINGS_FORM
from lochan.kernel.check_findings import Findings, Problem, RowKind, Unjudged
from lochan.kernel.context import RepositoryContext
from lochan.kernel.repository import DESCRIPTION_KEY, SETTINGS_KEY
from lochan.kv.store import Kind, partition
from lochan.persist.claims import ClaimRows
from lochan.persist.rows import scan_all

_SPREAD: Final = 65_536
_PROGRESS_PARTITIONS: Final = 1_024
_OBJECTS_READ: Final = 100


def check_settings(context: RepositoryContext, findings: Findings) -> None:
    """Checks the row of settings, which is there from the beginning."""
    entry = context.store.get(partition(context.instance, Kind.META), SETTINGS_KEY)
    if entry is None:
        what = "the row of settings is missing though every repository has one"
        findings.add(RowKind.SETTINGS, "settings", Problem.MISSING, what, "repository")
        return
    findings.count("settings")
    row = findings.attempt(RowKind.SETTINGS, "settings", SETTINGS_FORM.decode, entry.value)
    if row is not None and row.instance != context.instance:
        what = "the row of settings is that of another repository"
        findings.add(RowKind.SETTINGS, "settings", Problem.CORRUPT, what)


def check_claims(context: RepositoryContext, findings: Findings) -> Unjudged:
    """Checks every claim by itself and counts them."""
    count = 0
    claims = ClaimRows(context.store, context.instance)
    start: bytes | None = b""
    while start is not None:
        page = claims.scan(start, PAGE_ENTRIES_MAX)
        count += len(page.rows) + len(page.unreadable)
        for bad in page.unreadable:
            findings.add_error(RowKind.CLAIM, bad.key.hex(), bad.error)
        start = page.next_start
    findings.count("claims", count)
    return Unjudged(
        "claims", count, "each was read; whether one is missing is unknown, they live for a day"
    )


def check_objects(
    context: RepositoryContext, findings: Findings, has_read: Callable[[ObjId], bool]
) -> Unjudged:
    """Goes through all objects; those that nothing refers to are held against their ids."""
    count = 0
    for number in range(_SPREAD):
        place = partition(context.instance, Kind.OBJECTS, number.to_bytes(2, "big"))
        for entry in scan_all(context.store, place, limit=_OBJECTS_READ):
            findings.count("objects")
            obj_id = ObjId(entry.key)
            if has_read(obj_id):
                continue
            count += 1
            findings.attempt(RowKind.OBJECT, obj_id.hex(), check_any_object, obj_id, entry.value)
        if number % _PROGRESS_PARTITIONS == 0:
            findings.report_progress()
    why = "nothing refers to them: left by writes that lost, or about to be referred to"
    return Unjudged("unreferenced objects", count, why)


def count_others(context: RepositoryContext) -> Iterator[Unjudged]:
    """Counts rows of kinds that this Lochan never writes."""
    known = (DESCRIPTION_KEY, SETTINGS_KEY)
    for kind in (Kind.META, Kind.ACCESS):
        place = partition(context.instance, kind)
        count = sum(entry.key not in known for entry in scan_all(context.store, place))
        if count:
            yield Unjudged(f"unknown {kind.name.lower()} rows", count, "another Lochan wrote them")
