"""Table functions for SQL: `SELECT * FROM lochan_log('http://…', 'main')`.

They read in one task; the data source reads large histories in many. All take the name of a
repository as last argument, `repository => 'other'`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.functions import udtf

from lochan.base.errors import Invalid
from lochan.spark.history import kinds
from lochan.spark.history.options import read_options
from lochan.spark.history.source import all_rows

_DEFAULT: Final = "default"


def _rows(kind: str, **given: Any) -> Iterator[kinds.Row]:
    for name, value in given.items():
        # SQL hands over whatever an expression gives, and NULL is not the default.
        if not isinstance(value, str) or not value:
            raise Invalid(f"{name} is text that is not empty, not {value!r}")
    return kinds.plain_rows(kind, all_rows(read_options({"kind": kind, **given})))


class LogFunction:
    """The commits of a reference, the newest first."""

    def eval(self, uri: str, ref: str, repository: str = _DEFAULT) -> Iterator[kinds.Row]:
        """Yields the rows."""
        yield from _rows("log", uri=uri, ref=ref, repository=repository)


class EntriesFunction:
    """What a reference holds."""

    def eval(self, uri: str, ref: str, repository: str = _DEFAULT) -> Iterator[kinds.Row]:
        """Yields the rows."""
        yield from _rows("entries", uri=uri, ref=ref, repository=repository)


class DiffFunction:
    """The keys that differ between two references."""

    def eval(
        self, uri: str, before: str, after: str, repository: str = _DEFAULT
    ) -> Iterator[kinds.Row]:
        """Yields the rows."""
        given = {"from": before, "to": after}
        yield from _rows("diff", uri=uri, repository=repository, **given)


FUNCTIONS: Final[Mapping[str, tuple[type[Any], str]]] = {
    "lochan_log": (LogFunction, "log"),
    "lochan_entries": (EntriesFunction, "entries"),
    "lochan_diff": (DiffFunction, "diff"),
}
"""The functions by their names in SQL, and the kinds whose columns they have."""


def register_functions(spark: SparkSession) -> None:
    """Makes the functions known to a session."""
    for name, (function, kind) in FUNCTIONS.items():
        table_function: Any = udtf(function, returnType=kinds.schema_of(kind))
        spark.udtf.register(name, table_function)
