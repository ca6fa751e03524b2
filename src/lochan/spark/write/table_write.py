"""The write of one frame to one table: its files, what they replace, and whether they still fit.

A write goes through these steps; only the commit after the last one changes what others see:

1. `find_done`: the job is looked for among those that commits record for the table, see `jobs`.
2. `begin`: what removes rows finds the snapshot that it may remove them from, see `bases`.
3. `prepare`: the table is loaded, or a new one is designed; the frame is checked and written as
   files; a merge finds and rewrites what it replaces.
4. `fits`: the table, as the commit would meet it, is one that the files were written for, and what
   is removed has not been changed by others since.
5. `stage`: manifests are written and the snapshot is added to the block that becomes one commit.

A crash between the steps leaves files that are in no snapshot, for a later sweep.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import msgspec
from pyiceberg.exceptions import NoSuchNamespaceError, TableAlreadyExistsError
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table, TableProperties
from pyspark.sql import DataFrame

from lochan.base.checks import check
from lochan.base.errors import AlreadyExists, Bug, ContentNotFound, Invalid
from lochan.spark.provenance import find_table_reads, place_of
from lochan.spark.schemas import to_iceberg
from lochan.spark.write.arrow_files import find_unwritable
from lochan.spark.write.bases import Base, OnChange, find_base
from lochan.spark.write.bounds import FileFacts
from lochan.spark.write.existing_tables import check_as_requested, find_table, is_readable
from lochan.spark.write.files import Measures, write_files
from lochan.spark.write.frame_shape import check_shape, shape
from lochan.spark.write.jobs import (
    JobFacts,
    check_same,
    columns_text,
    find_job,
    is_in_table,
)
from lochan.spark.write.snapshots import all_files, files_of_partitions, replace_files
from lochan.spark.write.statistics import (
    ColumnFacts,
    Layout,
    build_data_file,
    build_layout,
    column_facts,
)
from lochan.spark.write.transforms import build_spec
from lochan.spark.write.upsert import check_keys, check_unique, find_matching, keys_of, survivors

if TYPE_CHECKING:
    from lochan.iceberg import LochanCatalog, Many
    from lochan.spark.lake import Lake

Mode = Literal["append", "overwrite", "overwrite_partitions", "merge"]
MODES: Final = get_args(Mode)

# The property of a snapshot with the name of the job that made it.
JOB: Final = "lochan.job"
_ROWS: Final = "lochan.rows"

# What pyiceberg can write manifests of.
_FORMAT_MAX: Final = 2
_PLAIN: Final = re.compile(r"[^A-Za-z0-9]+")
_SLUG_CHARACTERS: Final = 60

Steps = Callable[[str], None]
"""Called with the name of a step when it is done; an error that it raises stops the write."""


class Written(msgspec.Struct, frozen=True):
    """The result of a write: the commit, and what it added to the table.

    Where the job was done before, `commit` is one that holds it, and the figures are those of the
    snapshot that it made then. `rows` are those of the frame; a merge adds files with others too.
    For a delete and an update `rows` are those that it deleted or changed, `files` the new ones
    with the other rows of theirs. `files_removed` is how many files new ones took the place of.
    Where measures were given, `measured` has their results and `columns` the facts of columns that
    the statistics of the files have; both are empty where the job was done before.
    """

    table: str
    commit: str
    snapshot_id: int
    rows: int
    files: int
    bytes: int
    was_done_before: bool = False
    files_removed: int = 0
    columns: Mapping[str, ColumnFacts] = {}
    measured: Mapping[str, Any] = {}


class WriteRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of one write: a frame, a table, and how rows are written."""

    frame: DataFrame
    table: str
    mode: Mode = "append"
    keys: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = {}
    required: tuple[str, ...] = ()
    create: bool = True
    measures: Measures | None = None
    on_change: OnChange = "conflict"


class _Files(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a frame, and the table as it was when they were written."""

    table: Table
    is_new: bool
    layout: Layout
    facts: tuple[FileFacts, ...]
    measured: Mapping[str, Any]

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.facts)

    def entries(self) -> list[DataFile]:
        spec = self.table.spec()
        return [build_data_file(each, self.layout.schema, spec) for each in self.facts]


class _Merge(msgspec.Struct, frozen=True, kw_only=True):
    """What a merge replaces in one snapshot of a table, and the rows that stay."""

    snapshot_id: int | None
    removed: tuple[DataFile, ...] = ()
    kept: tuple[FileFacts, ...] = ()


class TableWrite:
    """The write of one frame to one table."""

    def __init__(self, lake: Lake, job: str, request: WriteRequest, steps: Steps) -> None:
        self._lake = lake
        self._job = job
        self._request = request
        self._steps = steps
        self._files: _Files | None = None
        self._merge: _Merge | None = None
        self._base: Base | None = None
        self._result = Written(
            table=request.table, commit="", snapshot_id=0, rows=0, files=0, bytes=0
        )
        self.done: Written | None = None

    @property
    def table(self) -> str:
        """The table's name."""
        return self._request.table

    @property
    def mode(self) -> str:
        """The mode of the write."""
        return self._request.mode

    def find_done(self, catalog: LochanCatalog, commit: str) -> Written | None:
        """Returns the result of the job for the table, if a commit records it.

        What was rolled back is not there, so the job is not done. Conflict if the job has written
        something else than what it would write now.
        """
        table = find_table(catalog, self.table)
        facts = None if table is None else find_job(self._lake, self.table, commit, self._job)
        if table is None or facts is None or not is_in_table(table.metadata, facts):
            return None
        check_same(
            self.table, self._job, facts, mode=self.mode, columns=self._columns(), rows=self._rows()
        )
        return Written(
            table=self.table,
            commit=commit,
            snapshot_id=facts.snapshot,
            rows=facts.rows,
            files=facts.files,
            bytes=facts.bytes,
            was_done_before=True,
        )

    def _columns(self) -> str:
        """Returns the columns that are written, as the record of the job has them."""
        return columns_text(self._request.frame.schema)

    def _rows(self) -> int | None:
        """Returns how many rows the job would write, to be compared with what it has written.

        None if that cannot be compared: a frame of the table itself has other rows after its job.
        """
        if self._files is not None:
            return self._files.rows
        frame, place = self._request.frame, place_of(self._lake, self.table)
        is_own = any(each.is_of(place, None) for each in find_table_reads(frame))
        return None if is_own else frame.count()

    def begin(self, catalog: LochanCatalog) -> None:
        """Finds the snapshot whose rows may be replaced; Conflict if others have changed it."""
        request = self._request
        if request.mode == "append" or request.on_change == "replace":
            return
        table = find_table(catalog, request.table)
        base = find_base(self._lake, catalog.ref, request.table, table, request.frame)
        if request.mode == "merge" and not base.was_read:
            return
        self._base = base
        if request.mode == "overwrite" and table is not None:
            base.check_all(table, self._lake.client.references.get(catalog.ref).hash)

    def prepare(self, catalog: LochanCatalog) -> None:
        """Writes the files that a commit needs and that no earlier attempt has left."""
        # Each time: what the caller sets on a session in between would change the files.
        for session in (self._lake.spark, self._request.frame.sparkSession):
            self._lake.settings.apply(session)
        table, is_new = self._open(catalog)
        if self._files is None or not self._is_same_shape(table, is_new=is_new):
            self._files, self._merge = self._write(table, is_new=is_new), None
            self._steps("written")
        if self._request.mode == "merge":
            self._merge = self._prepare_merge(table, self._files)
            self._steps("merged")

    def fits(self, many: Many) -> bool:
        """Returns whether the files can be added to the table that a block sees.

        Raises Conflict if that would remove what others have changed since the base.
        """
        if self._files is None:
            return False
        table = find_table(many, self.table)
        if table is None:
            if self._base is not None and self._base.table is not None:
                raise self._base.conflict(many.expected)
            return self._files.is_new
        if not self._is_same_shape(table, is_new=False):
            return False
        snapshot = table.metadata.current_snapshot_id
        if self._merge is not None and self._merge.snapshot_id != snapshot:
            return False
        self._check_base(table, many.expected)
        return True

    def _check_base(self, table: Table, commit: str) -> None:
        base = self._base
        if base is None:
            return
        match self._request.mode:
            case "overwrite":
                base.check_all(table, commit)
            case "overwrite_partitions":
                base.check_partitions(table, self._written().entries(), commit)
            case "merge" if self._merge is not None:
                base.check_merge(table, self._merge.removed, commit)

    def stage(self, many: Many) -> None:
        """Adds the snapshot to a block; what it replaces is what the block's table has."""
        files = self._written()
        table = self._create(many, files) if files.is_new else many.load_table(self.table)
        added = files.entries()
        removed: list[DataFile] = []
        match self._request.mode:
            case "overwrite":
                removed = all_files(table)
            case "overwrite_partitions":
                removed = files_of_partitions(table, added)
            case "merge" if self._merge is not None:
                spec, schema = table.spec(), files.layout.schema
                added += [build_data_file(each, schema, spec) for each in self._merge.kept]
                removed = list(self._merge.removed)
        self._replace(many, table, files.rows, added, removed)
        if self._request.measures:
            columns = column_facts(files.layout.schema, files.facts)
            self._result = msgspec.structs.replace(
                self._result, columns=columns, measured=files.measured
            )

    def _replace(
        self,
        many: Many,
        table: Table,
        rows: int,
        added: Sequence[DataFile],
        removed: Sequence[DataFile],
    ) -> None:
        """Replaces files by a new snapshot in a block, whose commit gets the record of the job."""
        replace_files(table, added, removed, {JOB: self._job, _ROWS: str(rows)})
        snapshot = table.current_snapshot()
        if snapshot is None:
            raise Bug("a write makes a snapshot")
        self._result = Written(
            table=self.table,
            commit="",
            snapshot_id=snapshot.snapshot_id,
            rows=rows,
            files=len(added),
            bytes=sum(each.file_size_in_bytes for each in added),
            files_removed=len(removed),
        )
        facts = JobFacts(
            mode=self.mode,
            columns=self._columns(),
            rows=rows,
            files=self._result.files,
            bytes=self._result.bytes,
            snapshot=snapshot.snapshot_id,
            sequence=snapshot.sequence_number or 0,
            time_ms=snapshot.timestamp_ms,
        )
        many.record_job(self.table, self._job, facts.texts())

    def result(self, commit: str) -> Written:
        """Returns the result for a commit that was made."""
        return msgspec.structs.replace(self._result, commit=commit)

    def _written(self) -> _Files:
        if self._files is None:
            raise Bug("files are written before they are committed")
        return self._files

    def _open(self, catalog: LochanCatalog) -> tuple[Table, bool]:
        """Returns the table, or the design of a new one, and whether it is new."""
        request = self._request
        found = find_table(catalog, request.table)
        if found is None and not request.create:
            message = f"there is no table {request.table} on {catalog.ref}"
            raise ContentNotFound(message, tuple(request.table.split(".")))
        table = found or self._design(catalog)
        if table.format_version > _FORMAT_MAX:
            raise Invalid(
                f"{request.table} has format {table.format_version}; at most "
                f"format {_FORMAT_MAX} is written"
            )
        if found is not None:
            check_as_requested(found, request.properties, request.required, request.partition_by)
        return table, found is None

    def _design(self, catalog: LochanCatalog) -> Table:
        request = self._request
        schema = to_iceberg(request.frame.schema, request.required)
        with _names(request.table):
            creation = catalog.create_table_transaction(
                request.table,
                schema,
                partition_spec=build_spec(schema, request.partition_by),
                properties=dict(request.properties),
            )
        staged = creation._table  # noqa: SLF001 - the only way to a table that is not made
        # As an ordinary one, because files that were written for it are read before it is made.
        return Table(
            staged.name(), staged.metadata, staged.metadata_location, staged.io, staged.catalog
        )

    def _create(self, many: Many, files: _Files) -> Table:
        designed = files.table
        with _names(self.table):
            table = many.create_table(
                self.table,
                schema=designed.schema(),
                location=designed.location(),
                partition_spec=designed.spec(),
                properties=dict(self._request.properties),
            )
        check(table.schema() == files.layout.schema, "a new table has the ids of its files")
        check(table.spec() == designed.spec(), "a new table has the partitions of its files")
        return table

    def _is_same_shape(self, table: Table, *, is_new: bool) -> bool:
        """Returns whether files that were written before can be added to a table as it is now."""
        files = self._files
        if files is None or is_new or files.is_new:
            return files is not None and is_new and files.is_new
        before, now = files.table.metadata, table.metadata
        if before.table_uuid != now.table_uuid or before.spec() != now.spec():
            return False
        return is_readable(files.layout.schema, now.schema())

    def _write(self, table: Table, *, is_new: bool) -> _Files:
        request, schema = self._request, table.schema()
        unwritable = find_unwritable(schema)
        if unwritable:
            raise Invalid(
                f"{request.table}: Spark cannot write uuids inside {', '.join(unwritable)}"
            )
        check_shape(request.table, request.frame.schema, schema, whole=request.mode == "merge")
        if request.mode == "merge":
            check_keys(request.table, schema, request.keys)
        layout = self._layout(table)
        frame = shape(request.frame, schema)
        stored = write_files(
            self._lake, frame, layout, request.table, request.keys, request.measures
        )
        return _Files(
            table=table,
            is_new=is_new,
            layout=layout,
            facts=tuple(stored.facts),
            measured=stored.measured,
        )

    def _layout(self, table: Table) -> Layout:
        properties = table.properties
        data = properties.get(TableProperties.WRITE_DATA_PATH, f"{table.location()}/data")
        slug = _PLAIN.sub("-", self._job).strip("-")[:_SLUG_CHARACTERS]
        directory = f"{data.rstrip('/')}/{slug}-{uuid.uuid4().hex}"
        return build_layout(table.schema(), table.spec(), properties, self._lake.files, directory)

    def _prepare_merge(self, table: Table, files: _Files) -> _Merge:
        lake, entries = self._lake, files.entries()
        snapshot_id = table.metadata.current_snapshot_id
        if not entries:
            return _Merge(snapshot_id=snapshot_id)
        keys = keys_of(lake, table, entries, self._request.keys)
        if self._merge is None:
            check_unique(keys, self.table)
        tasks = find_matching(lake, table, files.facts, keys)
        kept: list[FileFacts] = []
        if tasks:
            layout = self._layout(table)
            kept = write_files(lake, survivors(lake, table, tasks, keys), layout, self.table).facts
        return _Merge(
            snapshot_id=snapshot_id,
            removed=tuple(task.file for task in tasks),
            kept=tuple(kept),
        )


@contextmanager
def _names(table: str) -> Iterator[None]:
    """Raises AlreadyExists with the reason why a table cannot have a name."""
    try:
        yield
    except (TableAlreadyExistsError, NoSuchNamespaceError) as error:
        raise AlreadyExists(f"no table {table} can be made: {error}") from error
