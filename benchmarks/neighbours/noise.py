"""The noisy callers, in a process of their own; driven by lines of JSON on standard input.

The first line is what to do; every further line is one window of noise, answered with its figures.
Half of the connections commit on one branch, a quarter each on a branch of its own, and a quarter
list pages of keys.
"""

from __future__ import annotations

import json
import os
import sys
from itertools import count
from typing import Any

from benchmarks.http_load.connection import Requests
from benchmarks.http_load.drive import Client, drive, run
from benchmarks.http_load.preparation import Preparation
from benchmarks.http_load.rows import Committer, RandomReader

# The noise stands for clients on machines of their own: where the processors are short, it gives
# way to the server and to the quiet caller.
NICENESS = 19


class Crowd:
    """The callers of one run."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._order = order
        address, prefix = order["address"], order["prefix"]
        self._requests = [Requests(address, prefix, token=token) for token in order["tokens"]]
        self._preparation = Preparation(self._requests[0], "noise")
        self._numbers = count()

    async def prepare(self) -> None:
        await self._preparation.filled(self._order["keys"])

    async def clients(self) -> list[Client]:
        shared = await self._preparation.branch("shared")
        filled, _ = await self._preparation.filled(self._order["keys"])
        made: list[Client] = []
        for requests in self._requests:
            pages = [requests.get(f"/trees/{filled}/entries?max-records=250")]
            for number in range(self._order["connections"]):
                if number % 4 == 3:
                    made.append(RandomReader(pages))
                    made[-1].kind = "list"
                    continue
                own = number % 4 == 2
                branch = await self._preparation.branch("own") if own else shared
                made.append(Committer(requests, branch, 1, "k", self._numbers))
                made[-1].kind = "commit"
        return made

    async def window(self) -> dict[str, Any]:
        """Makes noise for the time of the order; a client's requests carry its own token."""
        measured = await drive(
            self._requests[0], await self.clients(), seconds=self._order["seconds"]
        )
        figures = measured.figures()
        kinds = {
            f"{kind}s_s": len(times) / measured.seconds for kind, times in measured.times.items()
        }
        return {**figures, **kinds, "errors": measured.errors, "conflicts": measured.conflicts}


async def main() -> None:
    os.nice(NICENESS)
    crowd = Crowd(json.loads(sys.stdin.readline()))
    await crowd.prepare()
    print("{}", flush=True)
    while sys.stdin.readline():
        print(json.dumps(await crowd.window()), flush=True)


if __name__ == "__main__":
    run(main)
