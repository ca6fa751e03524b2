"""Registers the data source `lochan`: Spark imports every module that is named `pyspark_*`.

If one such module failed to import, Spark would find none of the others, so a missing dependency is
ignored here and hides our data source only.
"""

from contextlib import suppress

with suppress(ImportError):
    # Spark uses the class of this name.
    from lochan.spark.history.source import LochanSource as DefaultSource  # noqa: F401
