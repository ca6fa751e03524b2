"""Snapshots: files added and files replaced, by pyiceberg's own producers, on the driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _MergeAppendFiles, _OverwriteFiles, _SnapshotProducer
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import NestedField
from pyiceberg.utils.properties import property_as_bool

from lochan.base.errors import Invalid
from lochan.iceberg.manifests import entries_of
from lochan.spark.write.transforms import encode_values


def replace_files(
    table: Table, added: Sequence[DataFile], removed: Sequence[DataFile], summary: Mapping[str, str]
) -> None:
    """Commits one snapshot in which some files replace others.

    There is one even if nothing changes, because its summary names the job that was done.
    """
    with table.transaction() as transaction:
        producer = _producer(transaction, table, dict(summary), is_append=not removed)
        for file in added:
            producer.append_data_file(file)
        for file in removed:
            producer.delete_data_file(file)
        producer.commit()


def _producer(
    transaction: Transaction, table: Table, summary: dict[str, str], *, is_append: bool
) -> _SnapshotProducer[Any]:
    if not is_append:
        return _ReplaceProducer(
            Operation.OVERWRITE, transaction, table.io, snapshot_properties=summary
        )
    producer = _AppendProducer(Operation.APPEND, transaction, table.io, snapshot_properties=summary)
    # By default, as other engines do: else every small append would leave a manifest for ever.
    producer._merge_enabled = property_as_bool(  # noqa: SLF001
        table.properties, TableProperties.MANIFEST_MERGE_ENABLED, True
    )
    return producer


def _with_sources(metadata: TableMetadata) -> Schema:
    """Returns a table's schema, plus dropped columns by which old files are partitioned.

    These get new names, because other columns may have their old ones.
    """
    schema = metadata.schema()
    there = set(schema.field_ids)
    dropped = {
        number: NestedField(number, f"lochan field {number}", each.find_type(number))
        for each in metadata.schemas
        for number in set(each.field_ids) & _sources(metadata.partition_specs) - there
    }
    if not dropped:
        return schema
    return Schema(*schema.fields, *dropped.values(), schema_id=schema.schema_id)


def _sources(specs: Iterable[PartitionSpec]) -> set[int]:
    return {
        field.source_id
        for spec in specs
        for field in spec.fields
        if not isinstance(field.transform, VoidTransform)
    }


class _ManifestProducer(_SnapshotProducer[Any]):
    """Writes manifests also of old specs, whose sources were dropped from the table.

    Manifests are read by an exact decoder before they are rewritten.
    """

    def fetch_manifest_entry(
        self, manifest: ManifestFile, discard_deleted: bool = True
    ) -> list[ManifestEntry]:
        return entries_of(manifest, self._io, discard_deleted=discard_deleted)

    def schema(self) -> Schema:
        return _with_sources(self._transaction.table_metadata)

    def new_manifest_writer(self, spec: PartitionSpec) -> ManifestWriter:
        if not self._is_known(spec.spec_id):
            raise Invalid(
                f"files that were partitioned by {spec} cannot be replaced: what type its column "
                "had is not in the table's metadata any more; rewrite the table by another name"
            )
        return super().new_manifest_writer(spec)

    def _is_known(self, spec_id: int) -> bool:
        return _sources([self.spec(spec_id)]) <= set(self.schema().field_ids)


class _AppendProducer(_ManifestProducer, _MergeAppendFiles):
    """Pyiceberg's append, which leaves manifests alone that it could not write."""

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        known = [each for each in manifests if self._is_known(each.partition_spec_id)]
        others = [each for each in manifests if not self._is_known(each.partition_spec_id)]
        return super()._process_manifests(known) + others


class _ReplaceProducer(_ManifestProducer, _OverwriteFiles):
    """Pyiceberg's overwrite for files that were chosen one by one.

    The original looks only into manifests that a predicate over all partitions admits, which cannot
    be made where a partition is NaN and takes long where there are thousands. It reads manifests
    with a decoder that is not exact. And it knows no removal of delete files, which go when all
    that they belong to goes.
    """

    def _build_delete_files_partition_predicate(self) -> None:
        pass

    def _existing_manifests(self) -> list[ManifestFile]:
        """Returns the manifests of files that stay; a manifest without such files is dropped."""
        kept: list[ManifestFile] = []
        for manifest in self._manifests_before():
            entries = self.fetch_manifest_entry(manifest)
            staying = [each for each in entries if not self._is_replaced(each)]
            if len(staying) == len(entries):
                kept += [manifest] if entries else []
            elif staying:
                kept.append(self._write_again(manifest, staying))
        return kept

    def _write_again(
        self, manifest: ManifestFile, staying: Sequence[ManifestEntry]
    ) -> ManifestFile:
        with self.new_manifest_writer(self.spec(manifest.partition_spec_id)) as writer:
            for entry in staying:
                writer.add_entry(_with_status(entry, ManifestEntryStatus.EXISTING))
        return writer.to_manifest_file()

    def _deleted_entries(self) -> list[ManifestEntry]:
        """Returns the entries of the files that the snapshot removes."""
        found = [
            _with_status(entry, ManifestEntryStatus.DELETED, self._snapshot_id)
            for manifest in self._manifests_before()
            for entry in self.fetch_manifest_entry(manifest)
            if entry.data_file.content == DataFileContent.DATA and self._is_replaced(entry)
        ]
        self._validate_required_deletes(found)
        return found

    def _manifests_before(self) -> list[ManifestFile]:
        number = self._parent_snapshot_id
        before = None if number is None else self._transaction.table_metadata.snapshot_by_id(number)
        return [] if before is None else before.manifests(self._io)

    def _is_replaced(self, entry: ManifestEntry) -> bool:
        return entry.data_file in self._deleted_data_files

    def _validate_required_deletes(self, deleted_entries: list[ManifestEntry]) -> None:
        found = {entry.data_file.file_path for entry in deleted_entries}
        gone = [
            file.file_path
            for file in self._deleted_data_files
            if file.content == DataFileContent.DATA and file.file_path not in found
        ]
        if gone:
            raise Invalid(f"files to be replaced are not in the table: {', '.join(sorted(gone))}")


def _with_status(
    entry: ManifestEntry, status: ManifestEntryStatus, snapshot_id: int | None = None
) -> ManifestEntry:
    return ManifestEntry.from_args(
        status=status,
        snapshot_id=entry.snapshot_id if snapshot_id is None else snapshot_id,
        sequence_number=entry.sequence_number,
        file_sequence_number=entry.file_sequence_number,
        data_file=entry.data_file,
    )


def all_files(table: Table) -> list[DataFile]:
    """Returns every file of a table's present snapshot, those with deletes too."""
    return list(_live(table))


def files_of_partitions(table: Table, added: Sequence[DataFile]) -> list[DataFile]:
    """Returns the files of a table in the partitions that other files are in."""
    schema, spec = table.schema(), table.spec()

    def place(file: DataFile) -> tuple[bytes | None, ...]:
        record = file.partition
        # Other writers have partitions of negative zero and of zero, which filters do not separate.
        values = [
            0.0 if isinstance(value, float) and value == 0 else value
            for value in (record[at] for at in range(len(record)))
        ]
        return tuple(encode_values(schema, spec, values))

    places = {place(file) for file in added}
    found: list[DataFile] = []
    for file in _live(table) if places else ():
        if file.content != DataFileContent.DATA:
            continue
        if file.spec_id != spec.spec_id:
            raise Invalid(
                f"{'.'.join(table.name())} still has files that were partitioned otherwise, such "
                f"as {file.file_path}; which partitions they hold is unknown, so rewrite the "
                'table first (mode="overwrite"), or write with mode="merge"'
            )
        if place(file) in places:
            found.append(file)
    return found


def _live(table: Table) -> Iterator[DataFile]:
    snapshot = table.current_snapshot()
    for manifest in snapshot.manifests(table.io) if snapshot is not None else ():
        for entry in entries_of(manifest, table.io):
            yield entry.data_file
