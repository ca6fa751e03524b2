"""The catalog's methods on tables."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from pyiceberg.exceptions import (
    NoSuchIcebergTableError,
    NoSuchTableError,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import (
    CommitTableResponse,
    CreateTableTransaction,
    StagedTable,
    Table,
)
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties
from pyiceberg.types import transform_dict_value_to_str

from lochan.base.errors import Invalid
from lochan.catalog.iceberg import (
    apply_updates,
    build_table,
    check_requirements,
    table_content,
)
from lochan.iceberg.catalog_base import CatalogBase, already_exists, check_free, now_ms
from lochan.iceberg.files import Metadata, new_location
from lochan.iceberg.names import key_of, parents_of, text_of
from lochan.iceberg.pyiceberg_objects import (
    code_properties,
    format_of,
    json_of,
    table_metadata,
    without_file_deletion,
)
from lochan.iceberg.session import Change
from lochan.iceberg.state import StagedContent, State
from lochan.model.commits import ContentKey
from lochan.model.contents import IcebergTable, IcebergView, Namespace, type_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate

_CREATE: Final = "assert-create"
_PURGE: Final = (
    "tables are not purged: other branches, tags and commits use the same files; drop the table, "
    "and let the repository's garbage collection delete files that nothing refers to"
)

_Located = tuple[Metadata, str]
"""Metadata and its location."""


class _UncreatedTable(StagedTable):
    """A table that is not created yet, and the properties that are hidden from pyiceberg."""

    hidden: Properties = EMPTY_DICT


class Tables(CatalogBase):
    """Tables of one reference."""

    def create_table(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> Table:
        """Creates a table, and the namespaces that contain it if they are missing."""
        key = key_of(identifier)
        build = self._builder(key, schema, location, partition_spec, sort_order, properties)

        def plan(state: State) -> Change[_Located]:
            check_free(state, key, "Table")
            metadata = build(state)
            location = new_location(metadata, None)
            content = table_content(metadata, location, None)
            changes = {key: StagedContent(content=content, metadata=metadata)}
            return Change(f"Create table {text_of(key)}", changes, (metadata, location))

        return self._table(key, *self._session.change(plan))

    def create_table_transaction(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> CreateTableTransaction:
        """Returns a transaction that creates a table, with its first changes, when it commits."""
        key = key_of(identifier)
        build = self._builder(key, schema, location, partition_spec, sort_order, properties)
        state = self._session.state()
        check_free(state, key, "Table")
        metadata = build(state)
        metadata_location = new_location(metadata, None)
        uncreated = _UncreatedTable(
            identifier=key,
            metadata=table_metadata(metadata, text_of(key)),
            metadata_location=metadata_location,
            io=self._files.io(metadata_location),
            catalog=self,
        )
        uncreated.hidden = code_properties(metadata)
        return CreateTableTransaction(uncreated)

    def load_table(self, identifier: str | Identifier) -> Table:
        """Returns a table as it is on the reference."""
        key = key_of(identifier)
        state = self._session.state()
        content = get_table(state, key)
        return self._table(key, state.metadata(content), content.metadata_location)

    def table_exists(self, identifier: str | Identifier) -> bool:
        """Returns whether a name is that of a table; reads none of its files."""
        return isinstance(self._find(identifier), IcebergTable)

    def register_table(
        self, identifier: str | Identifier, metadata_location: str, overwrite: bool = False
    ) -> Table:
        """Creates a table from an existing metadata file; `overwrite` replaces a table."""
        key = key_of(identifier)
        metadata = self._files.read(metadata_location)
        # Metadata that pyiceberg cannot read is refused before anything is changed.
        parsed = table_metadata(metadata, text_of(key))
        if parsed.current_snapshot_id is not None and parsed.current_snapshot() is None:
            missing = parsed.current_snapshot_id
            raise Invalid(f"{metadata_location} lacks its own current snapshot, {missing}")

        def plan(state: State) -> Change[_Located]:
            present = state.find([key, *parents_of(key)]).get(key)
            content_id = None
            if isinstance(present, IcebergTable) and overwrite:
                # The same table keeps its content id; another table gets a new one.
                own = metadata.get("table-uuid")
                if own is not None and state.metadata(present).get("table-uuid") == own:
                    content_id = present.id
            else:
                check_free(state, key, "Table")
            content = table_content(metadata, metadata_location, content_id)
            changes = {key: StagedContent(content=content)}
            result = (metadata, metadata_location)
            return Change(f"Register table {text_of(key)}", changes, result)

        return self._table(key, *self._session.change(plan))

    def drop_table(self, identifier: str | Identifier) -> None:
        """Drops a table; its files stay, as other references use them."""
        self._drop(identifier, "table", get_table)

    def purge_table(self, identifier: str | Identifier) -> None:
        """Raises Invalid: other references use the same files."""
        raise Invalid(f"{text_of(key_of(identifier))}: {_PURGE}")

    def rename_table(
        self, from_identifier: str | Identifier, to_identifier: str | Identifier
    ) -> Table:
        """Renames a table in one commit; it keeps its content id."""
        old, new = key_of(from_identifier), key_of(to_identifier)

        def plan(state: State) -> Change[_Located]:
            state.find([old, new, *parents_of(new)])
            content = get_table(state, old)
            check_free(state, new, "Table")
            result = (state.metadata(content), content.metadata_location)
            changes = {old: None, new: StagedContent(content=content)}
            return Change(f"Rename table {text_of(old)} to {text_of(new)}", changes, result)

        return self._table(new, *self._session.change(plan))

    def commit_table(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:
        """Applies updates to the current table, if it meets the requirements."""
        changes = [json_of(each) for each in updates]
        if isinstance(table, _UncreatedTable) and table.hidden:
            changes.append({"action": "set-properties", "updates": table.hidden})
        required = [json_of(each) for each in requirements]
        metadata, location = self._commit(key_of(table.name()), required, changes)
        parsed = table_metadata(without_file_deletion(metadata), text_of(table.name()))
        return CommitTableResponse.model_validate(
            {"metadata": parsed, "metadata-location": location}
        )

    def _commit(
        self, key: ContentKey, requirements: Sequence[Metadata], updates: Sequence[Metadata]
    ) -> _Located:
        is_new = any(each.get("type") == _CREATE for each in requirements)

        def plan(state: State) -> Change[_Located]:
            if is_new:
                content = state.find([key, *parents_of(key)]).get(key)
            else:
                content = get_table(state, key)
            if content is not None and not isinstance(content, IcebergTable):
                raise already_exists(key, content, "Table")
            before = None if content is None else state.metadata(content)
            check_requirements(before, requirements)
            previous = None if content is None else content.metadata_location
            is_written = previous is not None and state.is_written(previous)
            after = apply_updates(
                before,
                updates,
                now_ms=now_ms(),
                previous_location=previous if is_written else None,
            )
            if content is not None and after == before:
                return Change("", {}, (after, content.metadata_location))
            after = without_file_deletion(after)
            location = new_location(after, previous)
            new = table_content(after, location, None if content is None else content.id)
            changes = {key: StagedContent(content=new, metadata=after)}
            return Change(_message(key, before, updates), changes, (after, location))

        return self._session.change(plan)

    @staticmethod
    def _delete_old_metadata(io: FileIO, base: TableMetadata, metadata: TableMetadata) -> None:
        """Deletes nothing, unlike pyiceberg: other references use older metadata files."""

    def _table(self, key: ContentKey, metadata: Metadata, location: str) -> Table:
        return Table(
            identifier=key,
            metadata=table_metadata(without_file_deletion(metadata), text_of(key)),
            metadata_location=location,
            io=self._files.io(location),
            catalog=self,
        )

    def _builder(
        self,
        key: ContentKey,
        schema: Schema | pa.Schema,
        location: str | None,
        spec: PartitionSpec,
        order: SortOrder,
        properties: Properties,
    ) -> Callable[[State], Metadata]:
        """Returns a function that builds the metadata of a new table, each time with one UUID."""
        version = format_of(properties)
        if not isinstance(schema, Schema):
            # Columns of Arrow have no ids; they get those that they will have in the table.
            schema = assign_fresh_schema_ids(self._convert_schema_if_needed(schema, version))
        own = uuid.uuid4()
        protected = without_file_deletion(
            {"properties": transform_dict_value_to_str(dict(properties))}
        )

        def build(state: State) -> Metadata:
            return build_table(
                uuid=str(own),
                location=(location or self.default_location(state, key, own)).rstrip("/"),
                schema=json_of(schema),
                spec=json_of(spec),
                order=json_of(order),
                properties=protected["properties"],
                format_version=version,
                now_ms=now_ms(),
            )

        return build


def get_table(state: State, key: ContentKey) -> IcebergTable:
    """Returns a table; NoSuchTableError if the key has no table."""
    found = state.find([key]).get(key)
    if isinstance(found, IcebergTable):
        return found
    if found is None or isinstance(found, IcebergView | Namespace):
        raise NoSuchTableError(f"Table does not exist: {text_of(key)}")
    raise NoSuchIcebergTableError(f"Not an Iceberg table: {text_of(key)} is {type_of(found)}")


def _message(key: ContentKey, before: Metadata | None, updates: Sequence[Metadata]) -> str:
    if before is None:
        return f"Create table {text_of(key)}"
    snapshots = [each["snapshot"] for each in updates if each.get("action") == "add-snapshot"]
    operations = [(each.get("summary") or {}).get("operation", "update") for each in snapshots]
    words = " and ".join(dict.fromkeys(operations)) or "update"
    return f"{words.capitalize()} table {text_of(key)}"
