"""One of the processes that race for rows: `python -m tests.stores.postgres.racer URL NAME`.

For each round number on standard input it tries to create that round's row, and to advance a
counter once; it prints whether it created the row.
"""

from __future__ import annotations

import sys

from lochan.assembly import open_store
from lochan.kv.store import ABSENT, Won
from lochan.testing.contracts.sample_rows import REFERENCES, fetch


def main(url: str, name: str) -> None:
    store = open_store(url)
    print("ready", flush=True)
    for line in sys.stdin:
        row = b"round %d" % int(line)
        won = isinstance(store.set_if(REFERENCES, row, name.encode(), ABSENT), Won)
        while True:
            entry = fetch(store, b"counter")
            value = b"%d" % (int(entry.value) + 1)
            if isinstance(store.set_if(REFERENCES, b"counter", value, entry.stamp), Won):
                break
        print(int(won), flush=True)
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
