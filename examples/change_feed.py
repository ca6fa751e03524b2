"""A change feed: the changes of all tables with their authors, as a stream into a table.

    python examples/change_feed.py --catalog http://127.0.0.1:19120

Follows `main` and appends a row for each key that a commit touched to `ops.changes` on the branch
`ops`. It ends when it has caught up; start it again and it goes on where it was: the checkpoint
knows the last commit, and a batch that comes twice is written once. Keep the checkpoint: with
another one the feed would begin again, and `append_to` refuses that.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from pathlib import Path

from lochan.base.errors import AlreadyExists
from lochan.spark import Lake, append_to, catch_up, session

COLUMNS = ("seq", "commit", "time", "author", "message", "operation", "name", "type")


def follow(lake: Lake, checkpoint: Path) -> int:
    """Appends the changes on main since the last call; returns the number of rows."""
    with suppress(AlreadyExists):
        lake.client.references.create("ops")
    changes = lake.changes("main", follow=True).select(*COLUMNS)
    writer = (
        changes.writeStream.foreachBatch(
            append_to(lake, "ops.changes", branch="ops", query="change-feed")
        )
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
    )
    catch_up(lake, "main", writer)
    return lake.read("ops.changes", ref="ops").count()


def main() -> int:
    """Runs the feed as a command."""
    words = argparse.ArgumentParser(description="Keep the changes of main in a table.")
    words.add_argument("--catalog", default="rocksdb:catalog", help="a server or a store")
    words.add_argument("--warehouse", default="warehouse")
    words.add_argument("--checkpoint", type=Path, default=Path("checkpoints/change-feed"))
    given = words.parse_args()
    with Lake(session("change-feed"), given.catalog, warehouse=given.warehouse) as lake:
        print(f"{follow(lake, given.checkpoint)} changes are known")
        lake.read("ops.changes", ref="ops").orderBy("seq", "name").show(truncate=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
