"""Where Spark finds the data source `lochan` without being told: it looks for `pyspark_*`.

One such module that fails to import would hide all others, so a part that is missing hides only us.
"""

from contextlib import suppress

with suppress(ImportError):
    # The name is the one that Spark takes.
    from lochan.spark.history.source import LochanSource as DefaultSource  # noqa: F401
