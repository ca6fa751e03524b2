"""Names and contents: keys, paths, ids, times, jobs, files."""

from __future__ import annotations

from typing import Final

# Nessie's clients refuse longer keys, and listings must fit people's screens and HTTP paths.
KEY_CHARACTERS_MAX: Final = 500

# Nessie's clients refuse deeper keys; a bound keeps namespace checks to a fixed number of lookups.
KEY_ELEMENTS_MAX: Final = 20

# Databases bound their keys (PostgreSQL's index rows at 2,704 bytes are met by hashing); 500
# characters of 4 bytes, the separators and the universe byte stay far below.
KEY_BYTES_MAX: Final = 4_096

# S3's own limit for object keys, which every S3 tool already respects.
PATH_BYTES_MAX: Final = 1_024

# Content types are numbered in one byte and the high bit is kept free.
PAYLOAD_MAX: Final = 127

# Enough for any old catalog's id, small enough for a row of every database.
CONTENT_ID_BYTES_MAX: Final = 1_024

# The beginning of the year 1 in UTC, in microseconds: the earliest that every client can read.
TIME_US_MIN: Final = -62_135_596_800_000_000

# The end of the year 9999: the last that ISO 8601 writes with four digits.
TIME_US_MAX: Final = 253_402_300_799_999_999

# The key of a job's record is a path of the files' universe: prefix, content id and the name.
JOB_BYTES_MAX: Final = 900

# A record describes what a job has written in a few numbers; it shares an index node with others.
JOB_FACTS_BYTES_MAX: Final = 2_048

# S3 limits the user metadata of an object to 2 KB; 8 KB is enough for names in several bytes.
FILE_METADATA_BYTES_MAX: Final = 8_192

# An object address is a URL; common servers cut URLs at 8 KB and the whole entry must fit a node.
FILE_ADDRESS_BYTES_MAX: Final = 4_096

# A MIME type with parameters; 255 is what registries allow for either part.
FILE_TYPE_BYTES_MAX: Final = 512

# An ETag is a digest in text, perhaps with a number of parts; object stores send up to 64 bytes.
FILE_ETAG_BYTES_MAX: Final = 256

# Far above what people write; deeper nesting would overrun the stack of the code that reads it.
CONTENT_DEPTH_MAX: Final = 100

# The name of a content's type: a word, maybe with the vendor's before it.
CONTENT_TYPE_CHARACTERS_MAX: Final = 200
