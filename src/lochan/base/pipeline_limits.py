"""Limits of Iceberg tables and of the pipeline on Spark, each with the reason for its size."""

from __future__ import annotations

from typing import Final

# Java prints its version in a fraction of a second; one that hangs must not block a session.
JAVA_ANSWER_S: Final = 30.0

# A server that Spark jobs start is ready in a second; a busy machine takes a dozen.
SERVER_READY_S: Final = 120.0

# Longer than a stopping server itself waits for running requests.
SERVER_STOP_S: Final = 60.0

# Levels of Iceberg metadata: people write a handful, and encoding descends the stack with each.
ICEBERG_DEPTH_MAX: Final = 128

# Objects and lists in a table's metadata: those of a million snapshots, which no client could read.
ICEBERG_VALUES_MAX: Final = 2_000_000

# Updates of a table in one request: some have thousands, and each may look through all schemas.
ICEBERG_REQUESTS_MAX: Final = 10_000

# Columns of one schema, nested ones too; the widest tables in use have some tens of thousands.
ICEBERG_COLUMNS_MAX: Final = 100_000

# Full names of all columns of one schema: a long name above many columns is part of each of theirs.
ICEBERG_PATHS_CHARACTERS_MAX: Final = 20_000_000

# Of an element of a key in the name of its directory: file systems take 255 bytes, and there is
# something unique behind it.
DIRECTORY_CHARACTERS_MAX: Final = 100

# Checks of one audit: each is a job on the cluster or a column beside a write.
AUDIT_CHECKS_MAX: Final = 1_000

# Checks that run at once: enough to fill the cores while one of them waits for its last task.
AUDIT_CHECKS_TOGETHER_MAX: Final = 4

# Times that an audit is repeated because its target has moved; then other writers are faster.
AUDIT_ATTEMPTS_MAX: Final = 5

# Commits that one audit publishes by fast-forward: each of them is checked by itself.
AUDIT_COMMITS_MAX: Final = 100

# How long the branch of an audit is kept: a day, so that a failed one can be looked at.
AUDIT_TTL_S: Final = 86_400

# The name of an audit's job: its later writes have a number behind it, within that of a job.
AUDIT_JOB_CHARACTERS_MAX: Final = 490

# How far the clocks that wrote a table's times may be ahead of ours.
FRESH_AHEAD_S_MAX: Final = 300

# The same for dates: a day begins up to 14 hours earlier east of Greenwich.
FRESH_DATE_AHEAD_S_MAX: Final = 86_400

# A file of checks: as many as there may be, each of a few hundred bytes.
CHECK_FILE_BYTES_MAX: Final = 1_048_576

# Keys that a report lists as changed; beyond, it only counts them.
REPORT_CHANGES_MAX: Final = 1_000

# A value or a sentence in a report; a longer one is cut, so that data cannot fill the report.
REPORT_TEXT_CHARACTERS_MAX: Final = 1_000

# What of an error is searched for secrets before it is cut: texts of Spark hold whole plans.
REPORT_ERROR_CHARACTERS_MAX: Final = 65_536

# A metadata file of Iceberg in plain text: beyond some hundred thousand snapshots clients give up.
ICEBERG_METADATA_BYTES_MAX: Final = 256 * 1_024 * 1_024

# Metadata files kept in memory, counted by their text: some hundred tables of ordinary size.
ICEBERG_METADATA_CACHE_BYTES_MAX: Final = 32 * 1_024 * 1_024

# How often a change of the catalog is planned again because another writer was faster; then
# pyiceberg or its caller decides whether to retry.
ICEBERG_COMMIT_ATTEMPTS_MAX: Final = 5

# Commits that one Spark task reads, twenty pages of a log: about a second, so that starting the
# task is little beside it, and a task that fails repeats little.
SPARK_SLICE_COMMITS: Final = 5_000

# Keys that one Spark task reads with their contents; as long as a slice of commits.
SPARK_SLICE_KEYS: Final = 5_000

# Repositories that one worker of Spark stays connected to; it reads from one or two.
SPARK_CLIENTS_MAX: Final = 8

# Tasks of one read: Spark keeps them all on the driver. Longer histories get larger slices.
SPARK_SLICES_MAX: Final = 10_000

# Clocks of a table's writers: Iceberg's readers refuse a log that runs back further than this.
ICEBERG_CLOCKS_APART_MS_MAX: Final = 60_000

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

# Footers that one task of Spark reads: a fraction of a second on a disk, some on an object store.
FOOTERS_PER_TASK: Final = 200

# Footers that one job of Spark reads: what it answers is on the driver at once, a kilobyte each.
FOOTERS_PER_JOB_MAX: Final = 20_000

# What is known of files without field ids, a kilobyte each; the oldest is forgotten first.
FOOTERS_KEPT_MAX: Final = 100_000

# Tasks that read files by PyIceberg: far above the cores of a cluster; more cost only planning.
ARROW_READ_TASKS_MAX: Final = 2_000

# Key ranges that a merge compares with the bounds of files; of more only the span is used.
SPARK_MERGE_RANGES_MAX: Final = 64

# A filter that is read to choose files; a longer one is a list of values from a program.
FILTER_CHARACTERS_MAX: Final = 1_000_000

# Levels of brackets, AND, OR and NOT in a filter that is read to choose files: reading descends the
# stack with each, and people write a handful.
FILTER_DEPTH_MAX: Final = 60

# Files that a filter of a frame names to Spark: a plan with more names costs more than it saves.
FILTER_FILES_NAMED_MAX: Final = 1_000

# Rows of history in one Arrow batch: as many as Spark itself puts into one.
SPARK_BATCH_ROWS_MAX: Final = 10_000

# Text of history in one Arrow batch: far below the 2 GiB of a column, and little for a worker.
SPARK_BATCH_CHARACTERS_MAX: Final = 16 * 1_024 * 1_024

# The driver looks up 5,000 files of a directory in about a second; more are worth a job.
SPARK_LOOKUPS_MAX: Final = 5_000
