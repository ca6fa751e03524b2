"""The catalog's methods on tables."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from pyiceberg.exceptions import (
    NoSuchIcebergTableError,
    NoSuchTableError,
    TableAlreadyExistsError,
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
from lochan.iceberg.catalog_base import CatalogBase, now_ms
from lochan.iceberg.commit_attempt import Change
from lochan.iceberg.files import Metadata, new_location
from lochan.iceberg.names import key_of, parents_of, text_of
from lochan.iceberg.parsing import (
    format_of,
    json_of,
    names_of_code,
    protected,
    table_metadata,
)
from lochan.iceberg.state import Staged, State
from lochan.model.commits import ContentKey
from lochan.model.contents import Content, IcebergTable, IcebergView, Namespace, type_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate

_CREATE: Final = "assert-create"
_PURGE: Final = (
    "tables are not purged: other branches, tags and commits share their files, and would lose "
    "them; drop the table, and let the repository's own collection find what nobody needs"
)

_Made = tuple[Metadata, str]
"""Metadata and its location."""


class _Prepared(StagedTable):
    """A table that is not made yet, and those of its properties that pyiceberg must not see."""

    unseen: Properties = EMPTY_DICT


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
        """Makes a table, and the namespaces that it lies in where they are missing."""
        key = key_of(identifier)
        made = self._builder(key, schema, location, partition_spec, sort_order, properties)

        def plan(state: State) -> Change[_Made]:
            check_free(state, key)
            metadata = made(state)
            place = new_location(metadata, None)
            staged = Staged(content=table_content(metadata, place, None), metadata=metadata)
            return Change(f"Create table {text_of(key)}", {key: staged}, (metadata, place))

        return self._table(key, *self._work.change(plan))

    def create_table_transaction(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> CreateTableTransaction:
        """Prepares a table that comes to be, with all its first changes, when it is committed."""
        key = key_of(identifier)
        made = self._builder(key, schema, location, partition_spec, sort_order, properties)
        state = self._work.state()
        check_free(state, key)
        metadata = made(state)
        place = new_location(metadata, None)
        prepared = _Prepared(
            identifier=key,
            metadata=table_metadata(metadata, text_of(key)),
            metadata_location=place,
            io=self._files.io(place),
            catalog=self,
        )
        prepared.unseen = names_of_code(metadata)
        return CreateTableTransaction(prepared)

    def load_table(self, identifier: str | Identifier) -> Table:
        """Returns a table as it is on the reference."""
        key = key_of(identifier)
        state = self._work.state()
        content = get_table(state, key)
        return self._table(key, state.metadata(content), content.metadata_location)

    def table_exists(self, identifier: str | Identifier) -> bool:
        """Tells whether a name is that of a table; reads none of its files."""
        key = key_of(identifier)
        return isinstance(self._work.state().find([key]).get(key), IcebergTable)

    def register_table(
        self, identifier: str | Identifier, metadata_location: str, overwrite: bool = False
    ) -> Table:
        """Makes a table of metadata that is there already; `overwrite` replaces one."""
        key = key_of(identifier)
        metadata = self._files.read(metadata_location)
        # What cannot be read afterwards is refused before anything is changed.
        parsed = table_metadata(metadata, text_of(key))
        if parsed.current_snapshot_id is not None and parsed.current_snapshot() is None:
            lost = parsed.current_snapshot_id
            raise Invalid(f"{metadata_location} lacks its own current snapshot, {lost}")

        def plan(state: State) -> Change[_Made]:
            there = state.find([key, *parents_of(key)]).get(key)
            content_id = None
            if isinstance(there, IcebergTable) and overwrite:
                # The same table keeps its content; another one only takes its place.
                own = metadata.get("table-uuid")
                if own is not None and state.metadata(there).get("table-uuid") == own:
                    content_id = there.id
            else:
                check_free(state, key)
            staged = Staged(content=table_content(metadata, metadata_location, content_id))
            made = (metadata, metadata_location)
            return Change(f"Register table {text_of(key)}", {key: staged}, made)

        return self._table(key, *self._work.change(plan))

    def drop_table(self, identifier: str | Identifier) -> None:
        """Takes a table away; its files stay, as other references share them."""
        key = key_of(identifier)

        def plan(state: State) -> Change[None]:
            get_table(state, key)
            return Change(f"Drop table {text_of(key)}", {key: None}, None)

        self._work.change(plan)

    def purge_table(self, identifier: str | Identifier) -> None:
        """Refuses: files are shared between references."""
        raise Invalid(f"{text_of(key_of(identifier))}: {_PURGE}")

    def rename_table(
        self, from_identifier: str | Identifier, to_identifier: str | Identifier
    ) -> Table:
        """Gives a table another name, in one commit; it stays the same content."""
        old, new = key_of(from_identifier), key_of(to_identifier)

        def plan(state: State) -> Change[_Made]:
            state.find([old, new, *parents_of(new)])
            content = get_table(state, old)
            check_free(state, new)
            made = (state.metadata(content), content.metadata_location)
            changes = {old: None, new: Staged(content=content)}
            return Change(f"Rename table {text_of(old)} to {text_of(new)}", changes, made)

        return self._table(new, *self._work.change(plan))

    def commit_table(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:
        """Applies updates to what the table is now, if the requirements hold then."""
        wishes = [json_of(each) for each in updates]
        if isinstance(table, _Prepared) and table.unseen:
            wishes.append({"action": "set-properties", "updates": table.unseen})
        needs = [json_of(each) for each in requirements]
        metadata, location = self._commit(key_of(table.name()), needs, wishes)
        parsed = table_metadata(protected(metadata), text_of(table.name()))
        return CommitTableResponse.model_validate(
            {"metadata": parsed, "metadata-location": location}
        )

    def _commit(
        self, key: ContentKey, requirements: Sequence[Metadata], updates: Sequence[Metadata]
    ) -> _Made:
        is_new = any(each.get("type") == _CREATE for each in requirements)

        def plan(state: State) -> Change[_Made]:
            content = find_table(state, key, is_new=is_new)
            before = None if content is None else state.metadata(content)
            check_requirements(before, requirements)
            previous = None if content is None else content.metadata_location
            logged = previous if previous is None or state.is_written(previous) else None
            after = apply_updates(before, updates, now_ms=now_ms(), previous_location=logged)
            if content is not None and after == before:
                return Change("", {}, (after, content.metadata_location))
            after = protected(after)
            place = new_location(after, previous)
            content_id = None if content is None else content.id
            staged = Staged(content=table_content(after, place, content_id), metadata=after)
            return Change(_message(key, before, updates), {key: staged}, (after, place))

        return self._work.change(plan)

    @staticmethod
    def _delete_old_metadata(io: FileIO, base: TableMetadata, metadata: TableMetadata) -> None:
        """Keeps what pyiceberg would delete: other references still lead to older metadata."""

    def _table(self, key: ContentKey, metadata: Metadata, location: str) -> Table:
        return Table(
            identifier=key,
            metadata=table_metadata(protected(metadata), text_of(key)),
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
        """Returns what builds the metadata of a new table, always of the same one."""
        version = format_of(properties)
        if not isinstance(schema, Schema):
            # Columns of arrow have no ids, so they are numbered as they will be in the table.
            schema = assign_fresh_schema_ids(self._convert_schema_if_needed(schema, version))
        own = uuid.uuid4()
        said = protected({"properties": transform_dict_value_to_str(dict(properties))})

        def build(state: State) -> Metadata:
            place = location or self.default_location(state, key, own)
            return build_table(
                uuid=str(own),
                location=place.rstrip("/"),
                schema=json_of(schema),
                spec=json_of(spec),
                order=json_of(order),
                properties=said["properties"],
                format_version=version,
                now_ms=now_ms(),
            )

        return build


def find_table(state: State, key: ContentKey, *, is_new: bool) -> IcebergTable | None:
    """Returns a table that may be missing only if it is to be made."""
    if not is_new:
        return get_table(state, key)
    found = state.find([key, *parents_of(key)]).get(key)
    if found is not None and not isinstance(found, IcebergTable):
        raise TableAlreadyExistsError(taken(key, found))
    return found


def get_table(state: State, key: ContentKey) -> IcebergTable:
    """Returns a table; NoSuchTableError if the name is free, or that of something else."""
    found = state.find([key]).get(key)
    if isinstance(found, IcebergTable):
        return found
    if found is None or isinstance(found, IcebergView | Namespace):
        raise NoSuchTableError(f"Table does not exist: {text_of(key)}")
    raise NoSuchIcebergTableError(f"Not an Iceberg table: {text_of(key)} is {type_of(found)}")


def check_free(state: State, key: ContentKey) -> None:
    """Raises TableAlreadyExistsError if a name is taken, by whatever."""
    # What lies above the name is needed too, if it is free.
    found = state.find([key, *parents_of(key)])
    if key in found:
        raise TableAlreadyExistsError(taken(key, found[key]))


def taken(key: ContentKey, content: Content) -> str:
    """Returns the words for a name that is taken, as other catalogs say them."""
    if isinstance(content, IcebergTable):
        return f"Table already exists: {text_of(key)}"
    kind = {IcebergView: "View", Namespace: "Namespace"}.get(type(content), type_of(content))
    return f"{kind} with same name already exists: {text_of(key)}"


def _message(key: ContentKey, before: Metadata | None, updates: Sequence[Metadata]) -> str:
    if before is None:
        return f"Create table {text_of(key)}"
    snapshots = [each["snapshot"] for each in updates if each.get("action") == "add-snapshot"]
    done = [(each.get("summary") or {}).get("operation", "update") for each in snapshots]
    words = " and ".join(dict.fromkeys(done)) or "update"
    return f"{words.capitalize()} table {text_of(key)}"
