"""A server of several: `python -m tests.stores.postgres.committer URL NAME THREADS COMMITS HELD`.

Threads commit to one branch through one lane; the ids of what was acknowledged are printed as JSON.
"""

from __future__ import annotations

import json
import sys
from threading import Thread

from lochan.assembly import open_store
from lochan.kernel.publish import Publisher
from lochan.system import ThreadLane
from tests.stores.postgres.kernel_bench import MAIN, Write, connect


class AlwaysHolds(Publisher):
    """Holds the row at every publish, as after a swap that was lost."""

    def publish(self, proposals, join=tuple):
        self._cautious_rounds = 8
        return super().publish(proposals, join)


def main(url: str, name: str, threads: str, commits: str, held: str) -> None:
    store = open_store(url)
    context = connect(store)
    kind = AlwaysHolds if held == "held" else Publisher
    lane = ThreadLane(kind(context, MAIN))
    acknowledged: dict[str, str] = {}

    def work(thread: int) -> None:
        for number in range(int(commits)):
            operation = f"{name} {thread} {number}"
            (view,) = lane.commit(Write(operation, operation)).commits
            acknowledged[operation] = view.obj_id.hex()

    print("ready", flush=True)
    sys.stdin.readline()
    workers = [Thread(target=work, args=(number,)) for number in range(int(threads))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(json.dumps(acknowledged))
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
