"""Metadata of Iceberg tables and views."""

from __future__ import annotations

from typing import Final

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

# A metadata file of Iceberg in plain text: beyond some hundred thousand snapshots clients give up.
ICEBERG_METADATA_BYTES_MAX: Final = 256 * 1_024 * 1_024

# Metadata files kept in memory, counted by their text: some hundred tables of ordinary size.
ICEBERG_METADATA_CACHE_BYTES_MAX: Final = 32 * 1_024 * 1_024

# How often a change of the catalog is planned again because another writer was faster; then
# pyiceberg or its caller decides whether to retry.
ICEBERG_COMMIT_ATTEMPTS_MAX: Final = 5

# Clocks of a table's writers: Iceberg's readers refuse a log that runs back further than this.
ICEBERG_CLOCKS_APART_MS_MAX: Final = 60_000
