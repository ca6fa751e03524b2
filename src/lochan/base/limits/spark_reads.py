"""Reads on Spark: history, files, footers, filters."""

from __future__ import annotations

from typing import Final

# Commits that one Spark task reads, twenty pages of a log: about a second, so that starting the
# task is little beside it, and a task that fails repeats little.
SPARK_SLICE_COMMITS: Final = 5_000

# Keys that one Spark task reads with their contents; as long as a slice of commits.
SPARK_SLICE_KEYS: Final = 5_000

# Repositories that one worker of Spark stays connected to; it reads from one or two.
SPARK_CLIENTS_MAX: Final = 8

# Tasks of one read: Spark keeps them all on the driver. Longer histories get larger slices.
SPARK_SLICES_MAX: Final = 10_000

# Footers that one task of Spark reads: a fraction of a second on a disk, some on an object store.
FOOTERS_PER_TASK: Final = 200

# Footers that one job of Spark reads: what it answers is on the driver at once, a kilobyte each.
FOOTERS_PER_JOB_MAX: Final = 20_000

# What is known of files without field ids, a kilobyte each; the oldest is forgotten first.
FOOTERS_KEPT_MAX: Final = 100_000

# Tasks that read files by PyIceberg: far above the cores of a cluster; more cost only planning.
ARROW_READ_TASKS_MAX: Final = 2_000

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

# How long a feed without anything new waits for its server each time that Spark asks, in seconds:
# other sources of the same query wait as long.
SPARK_WAIT_S: Final = 0.1

# How often a feed asks for the head of its branch although the server has reported no change.
SPARK_ASK_S: Final = 1.0

# When a feed whose event stream was refused, or broke for good, tries to open one again.
SPARK_WATCH_AGAIN_S: Final = 60.0
