"""Writers beside a commit write again at most twice, however many files are committed."""

from __future__ import annotations

from collections import Counter
from threading import Event, Thread
from typing import Any

import pytest

from lochan.base.ids import StagingToken
from lochan.base.keys import file_key
from lochan.codec.elements import decode_file, encode_file
from tests.profile import counted
from tests.staging.workbench import StagingBench, entry_of

MANY = counted(20_000, 1_000_000)
WRITERS = 4
BATCH = 1_000

# Of one writer; more show nothing more, and each is read at the end.
WRITES_MAX = 20_000


class CountedWriters:
    """Threads that write until they are stopped, and the number of rounds of every write."""

    def __init__(self, bench: StagingBench) -> None:
        self.written: list[str] = []
        self.rounds: Counter[str] = Counter()
        self._bench = bench
        self._stop = Event()
        self._seen: set[tuple[bytes, bytes]] = set()
        self._put_each = bench.context.staged.put_each
        bench.context.staged.put_each = self._counted  # type: ignore[method-assign]
        self._threads = [Thread(target=self._write, args=(who,)) for who in range(WRITERS)]

    def _counted(self, token: StagingToken, writes: Any) -> Any:
        for one in writes:
            # To put a record over another one of the same token is no further round.
            if (token, one.value) not in self._seen:
                self._seen.add((token, one.value))
                self.rounds[decode_file(one.value).address] += 1
        return self._put_each(token, writes)

    def _write(self, who: int) -> None:
        number = 0
        while not self._stop.is_set() and number < WRITES_MAX:
            path = f"writer {who}/{number}"
            self._bench.put(path)
            self.written.append(path)
            number += 1

    def __enter__(self) -> CountedWriters:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def stage_directly(bench: StagingBench, count: int) -> None:
    """Puts many records into the staging token at once, which no writer could do so fast."""
    token = StagingToken(bench.row().staging_token)
    place = bench.records.place(token)
    for start in range(0, count, BATCH):
        numbers = range(start, min(start + BATCH, count))
        bench.store.put_many(
            [
                (place, file_key(f"many/{one:07}"), encode_file(entry_of(str(one))))
                for one in numbers
            ]
        )


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("files", [1, MANY])
def test_a_writer_beside_a_commit_writes_again_twice_at_most(
    files: int, record_property: Any
) -> None:
    bench = StagingBench()
    bench.put("first")
    stage_directly(bench, files)
    with CountedWriters(bench) as writers:
        before = len(writers.written)
        bench.commit_files("many")
        beside = len(writers.written) - before
    again = Counter(writers.rounds[path] - 1 for path in writers.written)
    record_property(
        "counted",
        f"commit of {files} files: {beside} writes beside it, written again "
        f"{dict(sorted(again.items()))}",
    )
    assert max(again) <= 2
    assert sum(times * count for times, count in again.items()) <= 2 * WRITERS
    for path in writers.written:
        assert bench.read(path) == path
