"""The killed writer on a store with a planted fault, named by the first argument."""

from __future__ import annotations

import sys

from rocksdict import WriteOptions

from lochan.stores.rocksdb import database
from lochan.stores.rocksdb import store as rocks
from lochan.stores.rocksdb.directory import Directory
from lochan.testing import killed_writer

RocksStore = rocks.RocksStore


def no_log() -> None:
    """Writes stay in the memory of the process."""
    options = WriteOptions()
    options.disable_wal = True  # type: ignore[method-assign,assignment]

    def commit(self, batch):
        self._db.write(batch, options)
        self._writes += 1

    def options_without_log(parameters, *, create):
        built = build_options(parameters, create=create)
        built.set_recycle_log_file_num(0)
        return built

    build_options = database.build_options  # type: ignore[attr-defined]
    database.build_options = options_without_log  # type: ignore[attr-defined]
    RocksStore._commit = commit  # type: ignore[method-assign]
    # Else the store itself would notice at the next opening.
    Directory.mark_durable = lambda self, write: None  # type: ignore[method-assign]


def early_acknowledgement() -> None:
    """Writes are kept back and written ten at a time, yet each is acknowledged."""
    kept = []
    commit = RocksStore._commit

    def later(self, batch):
        kept.append(batch)
        self._writes += 1
        if len(kept) == 10:
            for each in kept:
                commit(self, each)
            kept.clear()

    RocksStore._commit = later  # type: ignore[method-assign]
    # Nobody else writes, and what was kept back cannot be read.
    vars(rocks)["matches"] = lambda expected, raw: True


def restarting_stamps() -> None:
    """Every opening counts from one again."""
    RocksStore._begin = lambda self, parameters: 1  # type: ignore[method-assign]


FAULTS = {fault.__name__: fault for fault in (no_log, early_acknowledgement, restarting_stamps)}

if __name__ == "__main__":
    FAULTS[sys.argv[1]]()
    killed_writer.main(sys.argv[2], int(sys.argv[3]))
