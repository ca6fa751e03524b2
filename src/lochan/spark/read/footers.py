"""Which files of a table lack field ids: looked up in executors, and only where there may be some.

Files that were imported rather than written for a table have no ids; the table then has a name
mapping. A table without one has no such files, and nothing is looked up. A file never changes, so
what was found is kept for the next read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.table import Table
from pyiceberg.table.name_mapping import parse_mapping_from_json
from pyspark.sql import functions as F  # noqa: N812

from lochan.base.pipeline_limits import (
    FOOTERS_KEPT_MAX,
    FOOTERS_PER_TASK,
)

if TYPE_CHECKING:
    from lochan.spark.lake import Lake

_ANSWER: Final = "path string, held string"
_FIELD_ID: Final = b"PARQUET:field_id"


def find_named(lake: Lake, table: Table, paths: Sequence[str]) -> Mapping[str, str]:
    """Returns the files without ids, each with its schema in JSON: its names, the mapping's ids."""
    mapping = table.metadata.name_mapping()
    if mapping is None or not paths:
        return {}
    names_json = mapping.model_dump_json()
    kept = lake.footers
    missing = [path for path in paths if (names_json, path) not in kept]
    if missing:
        look = _Look(names_json, dict(lake.files))
        parts = -(-len(missing) // FOOTERS_PER_TASK)
        rows = [(number % parts, path) for number, path in enumerate(missing)]
        frame = lake.spark.createDataFrame(rows, "part int, path string")
        spread = frame.repartitionById(parts, F.col("part")).select("path")
        for row in spread.mapInArrow(look, _ANSWER).toLocalIterator():
            kept[names_json, row["path"]] = row["held"]
    found = {path: kept[names_json, path] for path in paths}
    while len(kept) > FOOTERS_KEPT_MAX:
        del kept[next(iter(kept))]
    return {path: held for path, held in found.items() if held is not None}


@dataclass(frozen=True)
class _Look:
    """Reads footers in an executor; a dataclass, as Spark pickles it."""

    names_json: str
    files: dict[str, str]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            paths = batch.column("path").to_pylist()
            held = [self._held(path) for path in paths]
            yield pa.RecordBatch.from_arrays(
                [pa.array(paths, pa.string()), pa.array(held, pa.string())], ["path", "held"]
            )

    def _held(self, path: str) -> str | None:
        with load_file_io(self.files, path).new_input(path).open() as stream:
            schema = pq.ParquetFile(stream).schema_arrow
        if all(_has_id(field) for field in schema):
            return None
        mapping = parse_mapping_from_json(self.names_json)
        # What the mapping does not name is no column of the table.
        known = {name for field in mapping for name in field.names}
        named = pa.schema([field for field in schema if field.name in known])
        held = pyarrow_to_schema(named, mapping, downcast_ns_timestamp_to_us=True)
        return held.model_dump_json()


def _has_id(field: Any) -> bool:
    return field.metadata is not None and _FIELD_ID in field.metadata
