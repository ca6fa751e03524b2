"""Writes on Spark."""

from __future__ import annotations

from typing import Final

# Rows that pyarrow holds in an executor until they are a row group: some of 64 MB fit a worker.
SPARK_ROW_GROUP_BYTES_MAX: Final = 64 * 1_024 * 1_024

# Tasks that read footers: thousands of tasks would cost more than what they read.
SPARK_FOOTER_TASKS_MAX: Final = 64

# A footer that is written again: 10,000 columns in 100 row groups are some 100 MB of it.
SPARK_FOOTER_BYTES_MAX: Final = 256 * 1_024 * 1_024

# Files of one write: the executors' reports of them, some kilobytes each, must fit the driver.
SPARK_WRITE_FILES_MAX: Final = 200_000

# Attempts to commit a write while others move its tables: fifty writers in step each win once.
SPARK_COMMIT_ATTEMPTS_MAX: Final = 50

# Attempts that do the work of a merge, or of a write whose table was changed in shape, again.
SPARK_REWRITE_ATTEMPTS_MAX: Final = 5

# Commits that are searched for the one that changed a table meanwhile: a page, for one sentence.
SPARK_CONFLICT_COMMITS_MAX: Final = 250

# The name of a job is a value in every snapshot that it made and a part of its directories.
SPARK_JOB_CHARACTERS_MAX: Final = 500

# Key ranges that a merge compares with the bounds of files; of more only the span is used.
SPARK_MERGE_RANGES_MAX: Final = 64
