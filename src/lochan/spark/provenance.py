"""Which snapshots of which tables a frame reads, found in the frame's own plan.

`lake.read` puts a mark into the plan of its frame: a filter on a constant that is always true. It
names the table, its snapshot and the reference. Spark's optimizer removes such a filter, so it
costs nothing when the frame runs; but the plan before optimization keeps it through select, join,
union, views, subqueries and cached frames, for classic sessions and for those through Connect. The
text of that plan is what EXPLAIN returns.

A frame loses its marks where Spark forgets how it was made: by `checkpoint` and `localCheckpoint`,
by `createDataFrame` of rows that were collected, and by files that were written in between.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import msgspec
from pyiceberg.table import Table
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from lochan.base.errors import Invalid

if TYPE_CHECKING:
    from lochan.spark.lake import Lake

_MARK: Final = re.compile(
    r"lochan-read:(?P<place>[0-9a-f]{32}):(?P<uuid>[0-9a-f-]{36})"
    r":(?P<snapshot>-?[0-9]+|none):(?P<ref>(?:[0-9a-f]{2})+)\b"
)
_PLACE_CHARACTERS: Final = 32

# The last heading of what EXPLAIN returns; without it the text was cut.
_LAST_HEADING: Final = "== Physical Plan =="


class TableRead(msgspec.Struct, frozen=True):
    """One table that a frame reads, as it was on a reference."""

    place: str
    """A digest of the server, the repository and the name of the table."""
    table_uuid: str
    snapshot_id: int | None
    ref: str

    def is_of(self, place: str, table_uuid: str | None) -> bool:
        """Returns whether this is the read of a table, by its id or by its place."""
        return place == self.place or table_uuid == self.table_uuid


def place_of(lake: Lake, table: str) -> str:
    """Returns a digest of the server, the repository and the name of a table."""
    named = f"{lake.uri}\n{lake.repository}\n{table}"
    return hashlib.sha256(named.encode()).hexdigest()[:_PLACE_CHARACTERS]


def with_read_mark(frame: DataFrame, lake: Lake, table: Table, *, name: str, ref: str) -> DataFrame:
    """Returns the same rows in a frame whose plan contains the snapshot that they are of."""
    metadata = table.metadata
    snapshot = metadata.current_snapshot_id
    table_read = TableRead(place_of(lake, name), str(metadata.table_uuid), snapshot, ref)
    return frame.where(F.lit(_text(table_read)).isNotNull())


def find_table_reads(frame: DataFrame) -> set[TableRead]:
    """Returns the tables that a frame reads by `lake.read`; plans the frame, starts no job."""
    # A mark of our own shows that the text can be relied on: a session may hide what it likes.
    probe = TableRead(uuid4().hex, str(uuid4()), None, "probe")
    # Not the frame itself: the view that Spark makes of it would take its cache along when it goes.
    probed = frame.where(F.lit(_text(probe)).isNotNull()).select(F.lit(1).alias("one"))
    try:
        (row,) = frame.sparkSession.sql("EXPLAIN EXTENDED SELECT 1 FROM {it}", it=probed).collect()
    except AnalysisException as error:
        reason = str(error).strip().partition("\n")[0]
        raise Invalid(f"Spark cannot plan the frame: {reason}") from error
    text = str(row[0])
    found = {_table_read(match) for match in _MARK.finditer(text)}
    if probe not in found or _LAST_HEADING not in text:
        raise Invalid(
            "what the frame reads cannot be found, because the session cuts or hides the text of "
            "plans: unset spark.sql.maxPlanStringLength and spark.sql.redaction.string.regex, or "
            'write with on_change="replace"'
        )
    return found - {probe}


def _text(table_read: TableRead) -> str:
    snapshot = "none" if table_read.snapshot_id is None else table_read.snapshot_id
    ref = table_read.ref.encode().hex()
    return f"lochan-read:{table_read.place}:{table_read.table_uuid}:{snapshot}:{ref}"


def _table_read(match: re.Match[str]) -> TableRead:
    snapshot = match["snapshot"]
    return TableRead(
        place=match["place"],
        table_uuid=match["uuid"],
        snapshot_id=None if snapshot == "none" else int(snapshot),
        ref=bytes.fromhex(match["ref"]).decode(),
    )
