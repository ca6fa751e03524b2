"""The same table read by everybody who can: our own reader, PyIceberg and DuckDB."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from tempfile import TemporaryDirectory
from typing import Any


def plain(value: Any) -> Any:
    """Returns a value in one notation, whichever engine read it."""
    match value:
        case bool() | int() | Decimal() | str() | None:
            return value
        case float():
            return "nan" if math.isnan(value) else value
        case bytes() | bytearray():
            return bytes(value)
        case datetime():
            return (value.astimezone(UTC) if value.tzinfo else value).isoformat()
        case date():
            return value.isoformat()
        case dict():
            return {key: plain(each) for key, each in value.items()}
        case list() | tuple():
            if value and all(isinstance(each, tuple) and len(each) == 2 for each in value):
                return {key: plain(each) for key, each in value}
            return [plain(each) for each in value]
        case _:
            return str(value)


def ordered(rows: list[dict]) -> list[str]:
    return sorted(str([(name, plain(row[name])) for name in sorted(row)]) for row in rows)


def by_spark(lake, table: str, ref: str = "main") -> list[str]:
    return by_frame(lake.read(table, ref=ref))


def by_pyiceberg(lake, table: str, ref: str = "main") -> list[str]:
    return ordered(lake.catalog.at(ref).load_table(table).scan().to_arrow().to_pylist())


def by_duckdb(lake, table: str, ref: str = "main") -> list[str]:
    import duckdb
    from duckdb_extensions import import_extension

    with TemporaryDirectory() as folder, duckdb.connect() as connection:
        connection.execute(f"set extension_directory = '{folder}'")
        for name in ("avro", "iceberg"):
            import_extension(name, con=connection)
            connection.load_extension(name)
        connection.execute("set timezone = 'UTC'")
        metadata = lake.catalog.at(ref).load_table(table).metadata_location
        found = connection.execute("select * from iceberg_scan(?)", [metadata])
        return ordered(found.to_arrow_table().to_pylist())


def same_for_all(
    lake, table: str, ref: str = "main", *, with_null_lists_of_structs: bool = False
) -> list[str]:
    """Returns the rows, after a look that all readers find the same."""
    ours = by_spark(lake, table, ref)
    # PyIceberg 0.12 shows a list of structs that is NULL as an empty one, whatever wrote it.
    if not with_null_lists_of_structs:
        assert by_pyiceberg(lake, table, ref) == ours
    assert by_duckdb(lake, table, ref) == ours
    return ours


def by_frame(frame) -> list[str]:
    return ordered(frame.toArrow().to_pylist())
