"""The first row of every store: which storage format its other rows are written in.

A store of a newer format is refused before anything in it is touched; a fresh one is marked. Two
processes that open a fresh store together agree, because the mark is a conditional write.
"""

from __future__ import annotations

import re
from typing import Final

from lochan.base.checks import check_stored
from lochan.base.errors import Corrupt, NewerFormat
from lochan.base.ids import ROOT_INSTANCE
from lochan.kv.store import ABSENT, Entry, Kind, Store, Won, partition

STORAGE_FORMAT: Final = 1

FORMAT_PARTITION: Final = partition(ROOT_INSTANCE, Kind.META)
FORMAT_KEY: Final = b"format"

_NUMBER: Final = re.compile(rb"[1-9][0-9]{0,8}\Z")


def check_format(store: Store) -> None:
    """Marks a fresh store with the current format, refuses one of a newer format."""
    entry = store.get(FORMAT_PARTITION, FORMAT_KEY)
    if entry is None:
        mark = str(STORAGE_FORMAT).encode()
        outcome = store.set_if(FORMAT_PARTITION, FORMAT_KEY, mark, ABSENT)
        if isinstance(outcome, Won):
            return
        # Somebody else marked it in between; nobody ever removes the mark.
        entry = store.get(FORMAT_PARTITION, FORMAT_KEY)
        check_stored(entry is not None, "the mark of the storage format does not vanish")
    if entry is not None:
        _check_mark(entry)


def _check_mark(entry: Entry) -> None:
    if not _NUMBER.match(entry.value):
        raise Corrupt(f"the mark of the storage format is {entry.value[:40]!r}, not a number")
    found = int(entry.value)
    if found > STORAGE_FORMAT:
        raise NewerFormat(
            f"the store has storage format {found}, this Lochan knows {STORAGE_FORMAT}; "
            "use the newer Lochan that wrote it"
        )
