"""Deletes as other engines write them: PyIceberg reads them, but has no way to write any."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, SetSnapshotRefUpdate
from pyiceberg.typedef import Record
from pyroaring import BitMap

_COLUMNS = pa.schema(
    [
        pa.field("file_path", pa.string(), False, metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), False, metadata={"PARQUET:field_id": "2147483545"}),
    ]
)


class _DeletesWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        # In format 3, the only one that has the path of a vector's file.
        schema = self._with_partition(3)
        return AvroOutputFile[ManifestEntry](
            self._output_file, schema, "manifest_entry", schema, metadata=self._meta
        )


def delete_positions(table: Table, positions: Mapping[str, Sequence[int]]) -> None:
    """Deletes rows by a Parquet file of paths and positions."""
    place = _place(table, "deletes.parquet")
    pairs = [{"file_path": path, "pos": pos} for path, each in positions.items() for pos in each]
    pq.write_table(pa.Table.from_pylist(pairs, _COLUMNS), place)
    _commit(table, [_file(place, DataFileContent.POSITION_DELETES, FileFormat.PARQUET, len(pairs))])


def delete_by_vector(
    table: Table, path: str, positions: Sequence[int], *, is_told: bool = True
) -> None:
    """Deletes rows by a deletion vector in a Puffin file; the manifest may name the file."""
    bits = BitMap(positions).serialize()
    vector = b"\xd1\xd3\x39\x64" + (1).to_bytes(8, "little") + (0).to_bytes(4, "little") + bits
    blob = len(vector).to_bytes(4, "big") + vector + zlib.crc32(vector).to_bytes(4, "big")
    about = {
        "type": "deletion-vector-v1",
        "fields": [2147483645],
        "snapshot-id": -1,
        "sequence-number": -1,
        "offset": 4,
        "length": len(blob),
        "properties": {"referenced-data-file": path, "cardinality": str(len(positions))},
    }
    footer = json.dumps({"blobs": [about]}).encode()
    end = len(footer).to_bytes(4, "little") + b"\0\0\0\0" + b"PFA1"
    place = _place(table, "vector.puffin")
    with open(place, "wb") as file:
        file.write(b"PFA1" + blob + b"PFA1" + footer + end)
    kind = DataFileContent.POSITION_DELETES
    reference = {"referenced_data_file": path} if is_told else {}
    _commit(table, [_file(place, kind, FileFormat.PUFFIN, len(positions), **reference)])


def delete_equal(table: Table, rows: pa.Table, ids: Sequence[int]) -> None:
    """Deletes rows by the values of some columns."""
    place = _place(table, "equal.parquet")
    pq.write_table(rows, place)
    kind = DataFileContent.EQUALITY_DELETES
    _commit(table, [_file(place, kind, FileFormat.PARQUET, len(rows), equality_ids=list(ids))])


def paths_of(table: Table) -> list[str]:
    """Returns the data files of a table."""
    return [task.file.file_path for task in table.scan().plan_files()]


def _place(table: Table, name: str) -> str:
    folder = Path(table.location().removeprefix("file://")) / "data"
    folder.mkdir(parents=True, exist_ok=True)
    return f"{folder}/{uuid4()}-{name}"


def _file(
    path: str, content: DataFileContent, kind: FileFormat, count: int, **more: Any
) -> DataFile:
    return DataFile.from_args(
        _table_format_version=3,
        content=content,
        file_path=f"file://{path}",
        file_format=kind,
        partition=Record(),
        record_count=count,
        file_size_in_bytes=1,
        **more,
    )


def _commit(table: Table, files: Sequence[DataFile]) -> None:
    """Adds delete files by a snapshot of their own."""
    table.refresh()
    before, io = table.current_snapshot(), table.io
    assert before is not None
    number, sequence = table.metadata.new_snapshot_id(), table.metadata.next_sequence_number()
    place = f"{table.location()}/metadata/{uuid4()}"
    output = io.new_output(f"{place}-m0.avro")
    with _DeletesWriter(table.spec(), table.schema(), output, number, "deflate") as writer:
        for file in files:
            entry = ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED, snapshot_id=number, data_file=file
            )
            writer.add_entry(entry)
    manifests = [writer.to_manifest_file(), *before.manifests(io)]
    output = io.new_output(f"{place}-list.avro")
    with write_manifest_list(2, output, number, before.snapshot_id, sequence, "deflate") as listing:
        listing.add_manifests(manifests)
    snapshot = Snapshot.model_validate(
        {
            "snapshot-id": number,
            "parent-snapshot-id": before.snapshot_id,
            "sequence-number": sequence,
            "manifest-list": f"{place}-list.avro",
            "summary": Summary(Operation.DELETE),
            "schema-id": table.schema().schema_id,
        }
    )
    move_target = {"ref-name": "main", "type": "branch", "snapshot-id": number}
    unmoved = {"ref": "main", "snapshot-id": before.snapshot_id}
    table._do_commit(
        updates=(
            AddSnapshotUpdate(snapshot=snapshot),
            SetSnapshotRefUpdate.model_validate(move_target),
        ),
        requirements=(AssertRefSnapshotId.model_validate(unmoved),),
    )
