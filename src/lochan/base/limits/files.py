"""Files: what one may be, and what one request may do to them."""

from __future__ import annotations

from typing import Final

# Bytes up to which a file is an object of the store: one row that every database takes, durable
# with its staged record by one flush, where a block would cost a synchronisation of its own.
FILE_IN_STORE_BYTES_MAX: Final = 16_384

# S3's own limit for one object.
FILE_BYTES_MAX: Final = 5 * 1_024**4

# Paths of one request that deletes files; S3 has the same limit.
FILES_DELETED_MAX: Final = 1_000

# Uploads in parts that one listing looks at: those of other callers are left out.
UPLOADS_LISTED_MAX: Final = 10_000

# Prefixes and paths of one log, and of one listing: each is compared with every key of a commit.
LOG_PATHS_MAX: Final = 100

# Commits that one page of a log by path looks at: a second or two if no key packs exist, else some
# hundredths of a second. A page ends there, and its token continues.
FILE_LOG_SCANNED_MAX: Final = 51_200

# A delimiter is a character or a short word.
DELIMITER_CHARACTERS_MAX: Final = 16

# How long a reserved address may be linked: long enough for the upload of a large file, shorter
# than the day after which claims, by which a link is done once, are swept.
ADDRESS_LIFETIME_S: Final = 6 * 3_600

# How long a URL for reading is valid: a download has to begin within it.
PRESIGNED_LIFETIME_S: Final = 15 * 60

# Objects of one import: their entries are in memory at once, about 300 bytes each.
IMPORT_FILES_MAX: Final = 1_000_000

# Prefixes of one import.
IMPORT_SOURCES_MAX: Final = 100

# Bytes that a read into memory returns; more is read as a stream.
FILE_READ_BYTES_MAX: Final = 256 * 1_024**2

# How long rules of protected branches are taken from memory: one read a second costs nothing, and a
# rule that another server has set counts after that second.
PROTECTION_STALE_US: Final = 1_000_000

# Pairs of a caller and a branch with notes of who has staged objects (`service/staged_heads.py`).
STAGED_NOTES_MAX: Final = 1_000

# Notes of one such pair. About 200 bytes each, so 50 MB for one repository in the worst case.
STAGED_NOTES_OF_CALLER_MAX: Final = 256

# How long a note counts for the connection that left it. A client that commits later is rare, and
# gets "no changes" only if it was overtaken too.
STAGED_NOTES_US: Final = 15 * 60 * 1_000_000

# The same for other connections of the caller: over those a second commit of one client looks like
# that of an overtaken one, so it is shorter.
STAGED_NOTES_ELSEWHERE_US: Final = 30 * 1_000_000

# How long a running import may leave its row unchanged before it counts as stopped: the server that
# runs it changes the row six times as often (BACKGROUND_RENEWED_S).
IMPORT_STALE_US: Final = 30_000_000

# How long the outcome of an import can be read.
IMPORT_KEPT_US: Final = 24 * 3_600 * 1_000_000

# The URL of a storage place: a bucket, a prefix and some options.
STORAGE_URL_CHARACTERS_MAX: Final = 2_048
