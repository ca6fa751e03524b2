"""Deletion vectors, each given to the one file whose rows it deletes.

PyIceberg does not read which file that is, and gives every vector of a partition to every file of
it: with many files the square of their number. Here vectors are left out while files are planned,
and given to their files afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

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
from pyiceberg.table import FileScanTask

from lochan.iceberg.manifests import open_entries

# The format that has vectors, and the position of the file's path in its entries.
_VERSION: Final = 3
_REFERENCED: Final = [field.name for field in DATA_FILE_TYPE[_VERSION].fields].index(
    "referenced_data_file"
)


class DeletionVectors:
    """The deletion vectors of a plan."""

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
