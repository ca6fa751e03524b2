"""The files of a table that rows of a filter can be in, each with its deletes.

1. Manifests whose partitions cannot have a match are not opened.
2. Entries are read exactly (`lochan.iceberg.manifests`), several manifests at a time.
3. Files whose partition and bounds cannot have a match are left out (`filters`, `domains`).
4. PyIceberg finds the deletes of those that are left, except for deletion vectors.

PyIceberg's own evaluators are not used: they cannot compare NULL or years beyond Python's dates,
and misread a truncated number where truncation overflows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.expressions.visitors import ResidualEvaluator, residual_evaluator_of
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_ENTRY_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import FileScanTask, ManifestGroupPlanner, Table, _min_sequence_number
from pyiceberg.utils.concurrent import ExecutorFactory

from lochan.base.errors import Corrupt, Invalid
from lochan.iceberg.manifests import entries_of, open_entries
from lochan.spark.read.domains import (
    SpecParts,
    domains_of_file,
    domains_of_manifest,
    domains_of_partition,
)
from lochan.spark.read.filters import Node, Unread, can_match

# The format that has vectors, and the position of the file's path in its entries.
_VERSION: Final = 3
_REFERENCED: Final = [field.name for field in DATA_FILE_TYPE[_VERSION].fields].index(
    "referenced_data_file"
)


def plan_files(table: Table, condition: Node) -> tuple[FileScanTask, ...]:
    """Returns the files that rows of a filter can be in, each with its deletes."""
    name = ".".join(table.name())
    snapshot = table.current_snapshot()
    if snapshot is None:
        if table.metadata.current_snapshot_id is None:
            return ()
        lost = table.metadata.current_snapshot_id
        raise Corrupt(f"the metadata of {name} lacks its own current snapshot, {lost}")
    manifests = snapshot.manifests(table.io)
    vectors = _DeletionVectors()
    try:
        tasks = _Planner(table, condition).plan_files(manifests, vectors.is_other)
    except (NotImplementedError, ValueError) as error:
        if "equality deletes" not in str(error):
            raise
        raise Invalid(
            f"the table {name} has equality deletes, which are not applied here; "
            "let the engine that wrote them compact the table first"
        ) from error
    return vectors.given_to(tasks, table.io, manifests)


class FileFilter:
    """Decides which files and manifests of a table can have a matching row."""

    def __init__(self, table: Table, condition: Node) -> None:
        self._schema = table.schema()
        self._condition = condition
        self._parts = {
            number: SpecParts(self._schema, spec) for number, spec in table.metadata.specs().items()
        }

    def keeps_manifest(self, manifest: ManifestFile) -> bool:
        """Returns whether a file of a manifest can have a match."""
        if isinstance(self._condition, Unread):
            return True
        parts = self._parts[manifest.partition_spec_id]
        return can_match(self._condition, domains_of_manifest(self._schema, parts, manifest))

    def keeps(self, file: DataFile) -> bool:
        """Returns whether a row of a file can match, or of a file that deletes belong to."""
        if isinstance(self._condition, Unread):
            return True
        parts = self._parts[file.spec_id]
        domains = domains_of_file if file.content == DataFileContent.DATA else domains_of_partition
        return can_match(self._condition, domains(self._schema, parts, file))


class _Planner(ManifestGroupPlanner):
    """PyIceberg's planner, which finds the deletes of files that are chosen here."""

    def __init__(self, table: Table, condition: Node) -> None:
        super().__init__(table.metadata, table.io, AlwaysTrue())
        self._files = FileFilter(table, condition)

    def plan_manifest_entries(
        self, manifests: Iterable[ManifestFile]
    ) -> Iterator[list[ManifestEntry]]:
        """Yields the entries of each manifest that can have a match."""
        chosen = [each for each in manifests if self._files.keeps_manifest(each)]
        oldest = _min_sequence_number(chosen)
        opened = [each for each in chosen if self._check_sequence_number(oldest, each)]
        return ExecutorFactory.get_or_create().map(self._entries, opened)

    def _entries(self, manifest: ManifestFile) -> list[ManifestEntry]:
        entries = entries_of(manifest, self.io)
        is_data = manifest.content == ManifestContent.DATA
        return [
            entry
            for entry in entries
            if not (is_data and entry.data_file.record_count == 0)
            and self._files.keeps(entry.data_file)
        ]

    def _build_residual_evaluator(
        self,
        spec_id: int,  # noqa: ARG002
    ) -> Callable[[DataFile], ResidualEvaluator]:
        # Rows are asked with the whole condition, so nothing needs what is left of it.
        nothing = residual_evaluator_of(
            UNPARTITIONED_PARTITION_SPEC, AlwaysTrue(), True, self.table_metadata.schema()
        )
        return lambda _: nothing


class _DeletionVectors:
    """The deletion vectors of a plan, each given to the one file whose rows it deletes.

    PyIceberg does not read which file that is, and gives every vector of a partition to every file
    of it: with many files the square of their number. Here vectors are left out while files are
    planned, and given to their files afterwards.
    """

    def __init__(self) -> None:
        self._found: dict[str, DataFile] = {}

    def is_other(self, entry: ManifestEntry) -> bool:
        """Returns whether an entry is no vector; keeps the vectors."""
        file = entry.data_file
        if file.content == DataFileContent.DATA or file.file_format != FileFormat.PUFFIN:
            return True
        self._found[file.file_path] = file
        return False

    def given_to(
        self, tasks: Iterable[FileScanTask], io: FileIO, manifests: Sequence[ManifestFile]
    ) -> tuple[FileScanTask, ...]:
        """Returns tasks with the vectors of their files."""
        if not self._found:
            return tuple(tasks)
        by_file = self._by_file(io, manifests)
        # Each vector also has the path of its file; so one too many costs time, but no rows.
        unknown = by_file.get(None, [])
        return tuple(
            FileScanTask(
                task.file,
                delete_files={*task.delete_files, *unknown, *by_file.get(task.file.file_path, [])},
                residual=task.residual,
            )
            for task in tasks
        )

    def _by_file(
        self, io: FileIO, manifests: Sequence[ManifestFile]
    ) -> dict[str | None, list[DataFile]]:
        found: dict[str | None, list[DataFile]] = {}
        for manifest in manifests:
            if manifest.content != ManifestContent.DELETES:
                continue
            with open_entries(manifest, io, MANIFEST_ENTRY_SCHEMAS[_VERSION]) as entries:
                for entry in entries:
                    file = entry.data_file
                    known = self._found.get(file.file_path)
                    if known is not None and entry.status != ManifestEntryStatus.DELETED:
                        found.setdefault(file[_REFERENCED], []).append(known)
        return found
