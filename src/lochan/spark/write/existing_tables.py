"""Tables that a write finds: whether they are as the write requests, and can hold its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import NoSuchIcebergTableError, NoSuchTableError
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties
from pyiceberg.transforms import Transform
from pyiceberg.types import PrimitiveType

from lochan.base.errors import AlreadyExists, Invalid
from lochan.spark.schemas import check_required
from lochan.spark.write.transforms import build_spec

if TYPE_CHECKING:
    from lochan.iceberg import LochanCatalog


def find_table(catalog: LochanCatalog, name: str) -> Table | None:
    """Returns a table as a catalog sees it, None if the name is free."""
    try:
        return catalog.load_table(name)
    except NoSuchIcebergTableError as error:
        raise AlreadyExists(str(error)) from error
    except NoSuchTableError:
        return None


def check_as_requested(
    table: Table,
    properties: Mapping[str, str],
    required: Sequence[str],
    partition_by: Sequence[str],
) -> None:
    """Raises Invalid if a table lacks what a write requests for a new table."""
    name, schema = ".".join(table.name()), table.schema()
    found = {**table.properties, TableProperties.FORMAT_VERSION: str(table.format_version)}
    for key, value in properties.items():
        if found.get(key) != value:
            # Without the values, which may be secret.
            raise Invalid(
                f"{name} has not the property {key} that is requested; "
                "properties are for new tables: leave it out, or set it first"
            )
    check_required(required, schema.column_names)
    for column in required:
        if not schema.find_field(column).required:
            raise Invalid(
                f"{name} allows NULL in {column}; required is for new tables: "
                "leave it out, or change the table first"
            )
    requested, spec = build_spec(schema, partition_by), table.spec()
    if partition_by and _sources(requested) != _sources(spec):
        raise Invalid(
            f"{name} is partitioned by {spec}, not by {', '.join(partition_by)}; "
            "leave partition_by out, or evolve the table first"
        )


def _sources(spec: PartitionSpec) -> list[tuple[int, Transform[Any, Any]]]:
    return [(field.source_id, field.transform) for field in spec.fields]


def is_readable(written: Schema, now: Schema) -> bool:
    """Returns whether files of some columns can be read as a table: by id, NULL for the rest."""
    by_id = {number: written.find_field(number) for number in written.field_ids}
    for number in now.field_ids:
        field = now.find_field(number)
        before = by_id.get(number)
        if before is None and field.required:
            return False
        if before is not None and isinstance(field.field_type, PrimitiveType):
            if before.field_type != field.field_type or (field.required and not before.required):
                return False
    return True
