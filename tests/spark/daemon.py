"""The parent of Spark's Python workers in tests: it imports what they need before it forks them.

Spark forks a worker for each plan and task of a Python source, and each would import pyarrow,
pyiceberg and us again, which takes longer than what it does then; `spark.python.daemon.module`
names this module.
"""

from __future__ import annotations

import gc
from importlib import import_module

from pyspark.daemon import manager

NEEDED = (
    "pandas",
    "pyarrow.parquet",
    "pyiceberg.io.pyarrow",
    "lochan.iceberg",
    "lochan.spark.history.functions",
    "lochan.spark.history.source",
    "lochan.spark.read.arrow",
    "lochan.spark.write.arrow_files",
)

if __name__ == "__main__":
    for name in NEEDED:
        import_module(name)
    gc.freeze()
    manager()
