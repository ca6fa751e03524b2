"""Writes one marked value, flushes, acknowledges on standard output; for the trace of system calls.

The second argument names a planted fault, or is "honest".
"""

from __future__ import annotations

import os
import sys

from lochan.assembly import open_store
from lochan.kv.store import ABSENT, Adds, Partition, SetIf
from lochan.stores.rocksdb.group_flush import GroupFlush
from lochan.stores.rocksdb.store import RocksStore

MARKER = b"value-that-must-reach-the-disk"
ACKNOWLEDGEMENT = b"acknowledged-to-the-caller"
PLACE = Partition(b"traced")


def plant(fault: str) -> None:
    """Breaks the flush in one of the ways that no kill -9 would show."""
    if fault == "no_op_flush":
        RocksStore.flush = lambda self, epoch: None  # type: ignore[method-assign]
    elif fault == "no_op_synchronise":
        RocksStore._synchronise = lambda self: None  # type: ignore[method-assign]
    elif fault == "flush_without_sync":
        unsynced = lambda self: self._db.flush_wal(False)  # noqa: E731
        RocksStore._synchronise = unsynced  # type: ignore[method-assign]
    elif fault == "flush_of_the_last_epoch":
        up_to = GroupFlush.up_to
        earlier = lambda self, epoch: up_to(self, max(1, epoch - 1))  # noqa: E731
        GroupFlush.up_to = earlier  # type: ignore[method-assign]


def main(path: str, fault: str) -> None:
    """Does one acknowledged write."""
    plant(fault)
    store = open_store(f"rocksdb:{path}")
    store.flush(store.epoch())
    adds = Adds([(PLACE, b"object", MARKER)], 1)
    store.apply(adds, SetIf(PLACE, b"row", b"head", ABSENT))
    store.flush(store.epoch())
    os.write(1, ACKNOWLEDGEMENT)
    os._exit(0)  # closing would flush, and is not what was promised


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
