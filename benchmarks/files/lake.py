"""A repository of files on RocksDB, filled by staging and committing."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from threading import Event, Lock, Thread

from benchmarks.http_load.usage import resident_mb
from benchmarks.kernel import PORTS
from lochan.access.policy import Call
from lochan.assembly import open_store
from lochan.base.keys import file_key
from lochan.base.names import ref_name
from lochan.codec.elements import encode_file
from lochan.embedded import Embedded
from lochan.kernel.references import ReferenceIndex
from lochan.kv.store import Store
from lochan.model.entries import FileEntry
from lochan.service.repositories import Repositories
from lochan.staging.staging import Staging

_STAGED_TOGETHER = 1_000

Records = list[tuple[bytes, bytes]]


class Paths:
    """Paths of data files in 365 directories; names are random, so new ones come between old."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def interleaved(self) -> str:
        pick = self._random
        day, name = pick.randrange(365), pick.randbytes(8).hex()
        return f"warehouse/facts/day={day:03}/part-{name}.parquet"

    def appended(self, number: int) -> str:
        """A path of a new directory, as a job that writes one partition makes them."""
        return f"warehouse/facts/day=180/run=1/part-{number:08}.parquet"

    def records(self, count: int, layout: str = "interleaved") -> Records:
        """Returns records of files as a client's upload makes them."""
        pick, found = self._random, {}
        for number in range(count):
            path = self.interleaved() if layout == "interleaved" else self.appended(number)
            entry = FileEntry(
                f"{pick.randbytes(1).hex()}/{pick.randbytes(16).hex()}",
                pick.randrange(1 << 30),
                1_700_000_000_000_000 + number,
                pick.randbytes(32),
                etag=pick.randbytes(16).hex(),
                content_type="application/octet-stream",
                operation=pick.randbytes(16),
            )
            found[bytes(file_key(path))] = encode_file(entry)
        return list(found.items())


class FileLake:
    """The repository, as the embedded library has it, and its staging area."""

    def __init__(self, store: Store) -> None:
        repository = Repositories(store, PORTS).open_or_create(Call("benchmark"), "default", "")
        self.store = store
        self.context = repository.context
        self.client = Embedded(store, repository, "benchmark")
        self.staging = Staging(self.context, ReferenceIndex(self.context), Lock)

    def stage(self, branch: str, records: Sequence[tuple[bytes, bytes]]) -> None:
        writer, name = self.staging.writer, ref_name(branch)
        for start in range(0, len(records), _STAGED_TOGETHER):
            writer.put_records(name, records[start : start + _STAGED_TOGETHER])
        self.store.flush(self.store.epoch())

    def fill(self, branch: str, records: Records) -> None:
        self.stage(branch, records)
        self.client.files.commit(branch, "fill")


@contextmanager
def new_lake() -> Iterator[FileLake]:
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"rocksdb:{folder}/db")
        lake = FileLake(store)
        try:
            yield lake
        finally:
            lake.client.close()


class PeakMemory:
    """The largest resident memory of this process in a `with` block, sampled."""

    def __enter__(self) -> PeakMemory:
        self.before_mb = self.peak_mb = resident_mb([os.getpid()])
        self._done = Event()
        self._thread = Thread(target=self._sample)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._done.wait(0.2):
            self.peak_mb = max(self.peak_mb, resident_mb([os.getpid()]))


def spent(begin: float) -> float:
    """Returns the seconds since a reading of `time.perf_counter`."""
    return time.perf_counter() - begin
