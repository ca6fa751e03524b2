"""A server in a process of its own, whose disk fails after so many flushes; started by tests."""

from __future__ import annotations

import sys

from lochan.stores.memory.store import MemoryStore
from lochan.transport.serve import run_until_stopped
from lochan.transport.server import Options, Server
from tests.transport.world import KernelRepositories, SmallFace


class FailingDisk(MemoryStore):
    """Flushes as often as it is allowed to."""

    def __init__(self, flushes_max: int) -> None:
        super().__init__()
        self._left = flushes_max

    def flush(self, epoch: int) -> None:
        if not self._left:
            raise OSError(28, "no space left")
        self._left -= 1
        super().flush(epoch)


def main() -> None:
    store = FailingDisk(int(sys.argv[1]))
    repositories = KernelRepositories(store)
    run_until_stopped(
        lambda: Server(store, repositories, [SmallFace()], Options(port=0)),
        lambda address: print(address, flush=True),
    )
    print(len(repositories.opened["default"].log()), flush=True)


if __name__ == "__main__":
    main()
