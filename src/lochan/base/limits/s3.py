"""The S3 gateway: bodies that it reads whole, and how long it may be silent."""

from __future__ import annotations

from typing import Final

# A completion names up to 10,000 parts, with an ETag and perhaps a checksum each.
COMPLETE_XML_BYTES_MAX: Final = 4 * 1_024 * 1_024

# A deletion names up to 1,000 keys of 1,024 bytes; each may be written in six times as many.
DELETE_XML_BYTES_MAX: Final = 8 * 1_024 * 1_024

# Clients wait a minute for the first byte of an answer, and as long for each further one.
COMPLETE_SILENCE_S: Final = 10.0

# A part in pieces of 8 KB with a signature each is a hundredth longer than its bytes.
CHUNKED_OVERHEAD: Final = 2
