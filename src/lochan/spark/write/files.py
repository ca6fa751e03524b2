"""Data files of a frame: written by tasks, then listed and counted by executors.

Every write has a directory of its own, `<table>/data/<job>-<attempt>/`. What a failed or abandoned
write leaves there is in no snapshot. Nothing is deleted here, not even then: whether a commit was
made may be unknown, and a later sweep, which looks at what all references need, knows better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

import msgspec
import pyarrow as pa
from pyiceberg.types import FixedType, ListType, MapType, UUIDType
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812

from lochan.base.checks import check
from lochan.base.errors import Corrupt, Invalid, TooLarge, Unavailable
from lochan.base.limits.spark_writes import SPARK_FOOTER_TASKS_MAX, SPARK_WRITE_FILES_MAX
from lochan.spark.schemas import has_types
from lochan.spark.storage import find_access, native_options, native_path
from lochan.spark.write.arrow_files import write_task
from lochan.spark.write.bounds import FileFacts
from lochan.spark.write.element_ids import add_element_ids, is_local
from lochan.spark.write.frame_shape import free_name, missing_values, with_ids
from lochan.spark.write.parquet_footers import EncryptedError
from lochan.spark.write.statistics import Layout, read_facts
from lochan.spark.write.transforms import group_of

if TYPE_CHECKING:
    from lochan.spark.lake import Lake

_ROWS: Final = "rows"
_LEGACY: Final = "spark.sql.parquet.writeLegacyFormat"
_NO_FILES: Final = {"PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"}
_FACTS: Final = pa.schema([("facts", pa.binary())])
_FACTS_DDL: Final = "facts binary"
_encode: Final = msgspec.msgpack.Encoder().encode

_ENCRYPTED: Final = "write lists and maps without Parquet's encryption, or encrypt their disk"

Batches = Iterable[pa.RecordBatch]
Measures = Callable[[DataFrame], Sequence[Column]]
"""Returns what is to be computed of rows while they are written, each column under its name."""


class Stored(msgspec.Struct, frozen=True):
    """The files of a frame, and what was measured of its rows meanwhile."""

    facts: list[FileFacts]
    measured: Mapping[str, Any] = {}


def write_files(
    lake: Lake,
    frame: DataFrame,
    layout: Layout,
    table: str,
    keys: Sequence[str] = (),
    measures: Measures | None = None,
) -> Stored:
    """Writes a frame that has a table's shape; the files are all checked and none is empty.

    NULL is refused in what the table requires, and in `keys`. Rows are counted where they are
    written: there a task that is run again does not count twice.
    """
    schema = layout.schema
    group = ""
    expression = group_of(schema, layout.spec)
    if expression is not None:
        group = free_name("lochan_partition", [field.name for field in schema.fields])
        frame = _clustered(frame.withColumn(group, expression), group)
    missing = missing_values(schema, keys)
    rows = F.count(F.lit(1)).alias(_ROWS)
    counts = [count.alias(f"missing_{number}") for number, count in enumerate(missing.values())]
    measured_columns = [] if measures is None else measures(frame)
    observed = Observation()
    frame = frame.observe(observed, rows, *counts, *measured_columns)
    if _is_for_pyarrow(lake, frame, layout):
        facts = _by_pyarrow(frame, layout, group)
        counted = observed.get or _lost()
    else:
        _by_spark(lake, frame, layout, group)
        counted = observed.get or _count_again(lake, layout, [rows, *counts], measures)
        # Without a row there may be no directory.
        facts = _read(lake, layout) if counted[_ROWS] else []
    for number, path in enumerate(missing):
        if counted[f"missing_{number}"]:
            why = "by which it is merged" if path in keys else f"which {table} requires"
            raise Invalid(f"the frame has NULL in {path}, {why}")
    own = {_ROWS, *(f"missing_{number}" for number in range(len(missing)))}
    measured = {name: value for name, value in counted.items() if name not in own}
    return Stored(_checked(facts, counted[_ROWS]), measured)


def _count_again(
    lake: Lake, layout: Layout, counts: Sequence[Column], measures: Measures | None
) -> dict[str, Any]:
    """Counts what is in the files, because a server of Spark Connect lost what it had observed.

    Such a server waits a tenth of a second for it (SPARK-54279); a busy one needs longer.
    """
    reader = lake.spark.read.options(**native_options(lake, layout.directory))
    try:
        frame = reader.parquet(native_path(layout.directory))
        measured = [] if measures is None else measures(frame)
        (row,) = frame.agg(*counts, *measured).collect()
    except AnalysisException as error:
        if error.getCondition() in _NO_FILES:
            _lost()
        raise
    return row.asDict(recursive=False)


def _lost() -> NoReturn:
    raise Unavailable(
        "Spark did not say how many rows it wrote, so nothing was committed: write again"
    )


def _is_for_pyarrow(lake: Lake, frame: DataFrame, layout: Layout) -> bool:
    """Returns whether Spark cannot write the files itself."""
    is_typed = has_types(layout.schema, UUIDType, FixedType)
    if is_typed or find_access(lake, layout.directory) == "arrow":
        return True
    if not has_types(layout.schema, ListType, MapType):
        return False
    # In the old layout elements have other names, and nothing between them and their list.
    is_legacy = frame.sparkSession.conf.get(_LEGACY) == "true"
    return is_legacy or not is_local(layout.directory)


def _clustered(frame: DataFrame, group: str) -> DataFrame:
    """Brings the rows of a partition together, so that a task does not write a file for each.

    While it runs, Spark splits what is large and joins what is small, if it may.
    """
    if frame.sparkSession.conf.get("spark.sql.adaptive.enabled") == "true":
        return frame.hint("rebalance", F.col(group))
    return frame.repartition(F.col(group))


def _by_spark(lake: Lake, frame: DataFrame, layout: Layout, group: str) -> None:
    columns = with_ids(layout.schema)
    writer = (
        frame.select(*columns, *([F.col(group)] if group else []))
        .write.format("parquet")
        .option("compression", layout.codec)
        # Files of tasks come to their place when the job has succeeded, and not before.
        .option("mapreduce.fileoutputcommitter.algorithm.version", "1")
        .option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    )
    writer = writer.options(**native_options(lake, layout.directory))
    (writer.partitionBy(group) if group else writer).save(native_path(layout.directory))


def _read(lake: Lake, layout: Layout) -> list[FileFacts]:
    """Lists the directory by Spark, as only the cluster may reach it, and reads footers."""
    listing = (
        lake.spark.read.format("binaryFile")
        .option("recursiveFileLookup", "true")
        .option("pathGlobFilter", "*.parquet")
        .option("__globPaths__", "false")
        .options(**native_options(lake, layout.directory))
        .load(native_path(layout.directory))
        .select("path")
    )
    # Spark shows a path in its own way; what is below the directory has plain letters only.
    marker = f"/{layout.directory.rpartition('/')[2]}/"

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for spark_path in batch.column(0).to_pylist():
                path = layout.directory + "/" + spark_path.rpartition(marker)[2]
                yield _row(_with_element_ids(layout, path) or read_facts(layout, path))

    return _collect(listing.coalesce(SPARK_FOOTER_TASKS_MAX).mapInArrow(read, _FACTS_DDL))


def _with_element_ids(layout: Layout, path: str) -> FileFacts | None:
    """Adds the ids to a file that Spark does not write; returns facts with the problem if any."""
    if not has_types(layout.schema, ListType, MapType):
        return None
    try:
        add_element_ids(layout.schema, path)
    except EncryptedError as error:
        return FileFacts(path=path, size=0, refused=f"{path}: {error}; {_ENCRYPTED}")
    except ValueError as error:
        return FileFacts(path=path, size=0, problem=f"{path}: {error}")
    return None


def _by_pyarrow(frame: DataFrame, layout: Layout, group: str) -> list[FileFacts]:
    if group:
        frame = frame.sortWithinPartitions(group)

    def write(batches: Batches) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task = TaskContext.get()
        number, attempt = (task.partitionId(), task.taskAttemptId()) if task else (0, 0)
        for facts in write_task(layout, f"{number:05d}-{attempt}", bool(group), batches):
            yield _row(facts)

    # By position from here on: `mapInArrow` cannot find a column whose name has a dot.
    plain = frame.toDF(*[f"c{number}" for number in range(len(frame.columns))])
    return _collect(plain.mapInArrow(write, _FACTS_DDL))


def _row(facts: FileFacts) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([_encode(facts)], pa.binary())], schema=_FACTS)


def _collect(frame: DataFrame) -> list[FileFacts]:
    # Never with a limit: Spark would then run a few tasks at a time.
    rows = frame.toArrow().column(0).to_pylist()
    if len(rows) > SPARK_WRITE_FILES_MAX:
        raise TooLarge(
            f"the frame makes more than {SPARK_WRITE_FILES_MAX} files; write it with fewer "
            "partitions, or in parts"
        )
    decoder = msgspec.msgpack.Decoder(FileFacts)
    return sorted((decoder.decode(row) for row in rows), key=lambda facts: facts.path)


def _checked(facts: list[FileFacts], rows: int) -> list[FileFacts]:
    for each in facts:
        if each.refused:
            raise Invalid(f"the frame does not fit: {each.refused}")
        check(not each.problem, f"files that cannot be used: {each.problem}")
    total = sum(each.rows for each in facts)
    if total != rows:
        raise Corrupt(f"{rows} rows were written and {total} are in the files")
    return [each for each in facts if each.rows]
