"""Which files were imported rather than written for a table: looked up in executors.

Most of them have no field ids; some have those of the table that they were written for, with names
and decimals that this one may never have had. A table with such files has a name mapping; of one
without nothing is looked up. A file never changes, so what was found is kept for the next read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import (
    _HasIds,
    _pyarrow_to_schema_without_ids,
    pyarrow_to_schema,
    visit_pyarrow,
)
from pyiceberg.schema import Schema, visit_with_partner
from pyiceberg.table import Table
from pyiceberg.table.name_mapping import (
    MappedField,
    NameMapping,
    NameMappingAccessor,
    NameMappingProjectionVisitor,
    parse_mapping_from_json,
)
from pyiceberg.typedef import TableVersion
from pyiceberg.types import (
    DecimalType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
)
from pyspark.sql import functions as F  # noqa: N812

from lochan.base.limits.spark_reads import FOOTERS_KEPT_MAX, FOOTERS_PER_JOB_MAX, FOOTERS_PER_TASK

if TYPE_CHECKING:
    from lochan.spark.lake import Lake

FOREIGN: Final = "foreign"
"""A file has ids, but a name or a decimal in it is not that of the table."""

_ANSWER: Final = "path string, held string"
_FIELD_ID: Final = b"PARQUET:field_id"
_UNKNOWN: Final = "unknown"
"""Neither a schema nor the lack of one."""


def find_files_without_ids(lake: Lake, table: Table, paths: Sequence[str]) -> Mapping[str, str]:
    """Returns the files without ids, each with its schema in JSON: its names, the mapping's ids.

    Files with ids that are FOREIGN come too.
    """
    mapping = table.metadata.name_mapping()
    if mapping is None or not paths:
        return {}
    names_json, schema_json = mapping.model_dump_json(), table.schema().model_dump_json()
    cache_key = names_json + schema_json
    kept = lake.footers
    # What is known is taken at once: other threads may fill and empty what is kept meanwhile.
    known = {path: kept.get((cache_key, path), _UNKNOWN) for path in paths}
    missing = [path for path, held in known.items() if held == _UNKNOWN]
    reader = _FooterReader(names_json, schema_json, table.metadata.format_version, dict(lake.files))
    same: dict[str | None, str | None] = {}
    for first in range(0, len(missing), FOOTERS_PER_JOB_MAX):
        for path, held in _read_footers(lake, reader, missing[first : first + FOOTERS_PER_JOB_MAX]):
            # Most files hold the same, and one text of it is enough.
            known[path] = kept[cache_key, path] = same.setdefault(held, held)
        # The oldest entries above the limit.
        for oldest in list(kept)[: max(0, len(kept) - FOOTERS_KEPT_MAX)]:
            kept.pop(oldest, None)
    return {path: held for path, held in known.items() if held is not None}


def _read_footers(
    lake: Lake, reader: _FooterReader, paths: Sequence[str]
) -> Iterable[tuple[str, str | None]]:
    """Reads the footers of some files by one job."""
    parts = -(-len(paths) // FOOTERS_PER_TASK)
    rows = [(number % parts, path) for number, path in enumerate(paths)]
    frame = lake.spark.createDataFrame(rows, "part int, path string")
    spread = frame.repartitionById(parts, F.col("part")).select("path")
    found = spread.mapInArrow(reader, _ANSWER).toArrow()
    return zip(found.column("path").to_pylist(), found.column("held").to_pylist(), strict=True)


@dataclass(frozen=True)
class _FooterReader:
    """Reads footers in an executor; a dataclass, as Spark pickles it."""

    names_json: str
    schema_json: str
    format_version: TableVersion
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
        if all(_find_id(field) is not None for field in schema):
            table = Schema.model_validate_json(self.schema_json)
            return FOREIGN if _is_foreign(schema, table) else None
        mapping = parse_mapping_from_json(self.names_json)
        return held_schema(schema, mapping, self.format_version).model_dump_json()


def held_schema(physical: pa.Schema, mapping: NameMapping | None, version: TableVersion) -> Schema:
    """Returns the schema of a file with ids: its own, or those of the mapping.

    What the mapping does not name, at any depth, is no part of the table and left out.
    """
    if mapping is None or visit_pyarrow(physical, _HasIds()):
        return pyarrow_to_schema(physical, downcast_ns_timestamp_to_us=True, format_version=version)
    unnamed = _pyarrow_to_schema_without_ids(
        physical, downcast_ns_timestamp_to_us=True, format_version=version
    )
    names: Any = mapping
    accessor: Any = NameMappingAccessor()
    return cast("Schema", visit_with_partner(unnamed, names, _MappedIds(), accessor))


class _MappedIds(NameMappingProjectionVisitor):
    """Gives fields the ids of a mapping, and leaves out those that it does not name."""

    def struct(
        self,
        struct: StructType,  # noqa: ARG002
        struct_partner: Any,  # noqa: ARG002
        field_results: list[Any],
    ) -> Any:
        """Returns a struct with the fields that are left of it."""
        return StructType(*[each for each in field_results if each is not None])

    def field(
        self, field: NestedField, field_partner: MappedField | None, field_result: Any
    ) -> Any:
        """Returns a field, or nothing."""
        if field_result is None or field_partner is None or field_partner.field_id is None:
            return None
        return super().field(field, field_partner, field_result)

    def list(
        self, list_type: ListType, list_partner: MappedField | None, element_result: Any
    ) -> Any:
        """Returns a list, or nothing."""
        if element_result is None or not _names(list_partner, "element"):
            return None
        return super().list(list_type, list_partner, element_result)

    def map(
        self, map_type: MapType, map_partner: MappedField | None, key_result: Any, value_result: Any
    ) -> Any:
        """Returns a map, or nothing."""
        if None in (key_result, value_result) or not _names(map_partner, "key", "value"):
            return None
        return super().map(map_type, map_partner, key_result, value_result)

    def primitive(self, primitive: PrimitiveType, primitive_partner: Any) -> Any:  # noqa: ARG002
        """Returns the type of a value."""
        return primitive


def _names(partner: MappedField | None, *members: str) -> bool:
    fields = [] if partner is None else partner.fields
    ids = {name: each.field_id for each in fields for name in each.names}
    return all(ids.get(name) is not None for name in members)


def _is_foreign(physical: pa.Schema, table: Schema) -> bool:
    """Returns whether Spark would ask statistics of a file for another column, or cut a value.

    It asks for columns and for what is in structs, by name, and in any case of letters.
    """
    owners = {name.lower(): table.find_field(name).field_id for name in table.column_names}
    waiting = [("", field) for field in physical]
    while waiting:
        above, field = waiting.pop()
        name, number, kind = f"{above}{field.name}".lower(), _find_id(field), field.type
        if owners.get(name, number) != number:
            return True
        if number in table.field_ids and pa.types.is_decimal(kind):
            if table.find_type(number) != DecimalType(kind.precision, kind.scale):
                return True
        if pa.types.is_struct(kind):
            waiting.extend((f"{name}.", kind.field(each)) for each in range(kind.num_fields))
    return False


def _find_id(field: Any) -> int | None:
    found = (field.metadata or {}).get(_FIELD_ID)
    return None if found is None else int(found)
