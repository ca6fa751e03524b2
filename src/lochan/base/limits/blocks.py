"""Blocks: the bytes of files, their parts, and the requests to the places that hold them."""

from __future__ import annotations

from typing import Final

# What S3 stores as one object at most, and what its tools therefore expect.
BLOCK_BYTES_MAX: Final = 5 * 1_024**4

# Bytes that pass through memory at once, for each transfer: large enough that the handover between
# threads costs little, small enough for hundreds of transfers at a time.
BLOCK_PIECE_BYTES: Final = 262_144

# Up to here a block is sent to S3 by one request and held in memory; above, in parts of this size.
BLOCK_BUFFER_BYTES: Final = 8 * 1_024 * 1_024

# S3's own numbers for parts of one upload: clients rely on them, and compatible servers check them.
PART_NUMBER_MAX: Final = 10_000

# S3 refuses a smaller part unless it is the last one; the same on every place, so that a client
# that was tested on a directory works on S3.
PART_BYTES_MIN: Final = 5 * 1_024 * 1_024

# S3 refuses larger parts.
PART_BYTES_MAX: Final = 5 * 1_024**3

# Parts, objects of a listing and unfinished uploads are read in pages of this size, which is also
# the largest page of S3.
BLOCK_PAGE_MAX: Final = 1_000

# Our own id, a dot, and the id that S3 gave to the upload (AWS: some 130 characters).
MULTIPART_ID_BYTES_MAX: Final = 2_048

# SigV4 itself allows seven days; nothing that we give out should be valid for longer than a day.
PRESIGNED_S_MAX: Final = 86_400

# Requests to S3 at a time, for each place: enough for a page of parallel transfers of one client,
# and each costs a socket and up to a buffer of memory.
S3_CONNECTIONS_DEFAULT: Final = 32

# More connections than this are useless on one machine and use up its ports and descriptors.
S3_CONNECTIONS_MAX: Final = 1_000

# How long a request waits for one of those connections before it is refused.
S3_CONNECTION_WAIT_S: Final = 5.0

# An S3 that does not accept a connection for this long is down or not reachable.
S3_CONNECT_TIMEOUT_S: Final = 5.0

# The longest silence on a connection. Completing a large multipart upload takes S3 up to minutes,
# during which it sends white space; compatible servers stay silent meanwhile.
S3_READ_TIMEOUT_S: Final = 60.0

# Attempts of one idempotent request, the first included: a restarted server is back after some.
S3_ATTEMPTS_MAX: Final = 4
