"""Streams into tables, each micro-batch exactly once.

    stream.writeStream.foreachBatch(append_to(lake, "shop.orders", branch="main", query="orders"))

Spark repeats a batch whose end it did not write down. A batch is written under the name
`query/number`; a table remembers the names of what was written into it, so a batch that comes again
does nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from lochan.base.errors import Invalid

if TYPE_CHECKING:
    from lochan.spark.lake import Lake


def append_to(
    lake: Lake, table: str, branch: str | None = None, *, query: str, **more: Any
) -> BatchWriter:
    """Returns what `foreachBatch` takes to write a stream into a table.

    `query` names the stream for ever, as its checkpoint does: another stream into the same table
    needs another name, and so does the same stream with a new checkpoint. `more` goes to
    `lake.write`, for example `mode="merge", keys=["id"]`.
    """
    if not query or "/" in query:
        raise Invalid(f"a stream has a name without slashes, not {query!r}")
    return BatchWriter(lake, table, branch or lake.default_branch, query, more)


class BatchWriter:
    """Writes the batches of one stream.

    Through Connect it runs beside the server of the session, so it travels as addresses and opens
    the lake there again.
    """

    def __init__(
        self, lake: Lake, table: str, branch: str, query: str, more: Mapping[str, Any]
    ) -> None:
        self._lake: Lake | None = lake
        self._place: dict[str, Any] = {
            "address": lake.uri,
            "warehouse": lake.warehouse,
            "repository": lake.repository,
            "files": lake.files,
        }
        self._table = table
        self._branch = branch
        self._query = query
        self._more = dict(more)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lake": None}

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Writes one batch, unless it was written before."""
        if self._lake is not None:
            self._write(self._lake, frame, batch)
            return
        from lochan.spark.lake import Lake

        with Lake(frame.sparkSession, **self._place) as lake:
            self._write(lake, frame, batch)

    def _write(self, lake: Lake, frame: DataFrame, batch: int) -> None:
        job = f"{self._query}/{batch}"
        lake.write(frame, self._table, branch=self._branch, job=job, **self._more)
