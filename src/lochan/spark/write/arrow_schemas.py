"""Spark's schemas as Arrow's, by whichever words this version of Spark has for it."""

from __future__ import annotations

import inspect
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

# From 4.2 on the function has an argument for the zone of timestamps; before, it was always UTC.
_ZONED: Final = "timezone" in inspect.signature(to_arrow_schema).parameters


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    """Returns the types that Spark takes from Python for a schema, exactly."""
    words: dict[str, Any] = {"timezone": "UTC"} if _ZONED else {}
    return to_arrow_schema(schema, **words)
