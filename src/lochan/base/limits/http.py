"""Connections, bodies and headers."""

from __future__ import annotations

from typing import Final

# The body of a request, unpacked: 10,000 operations of 800 bytes; more is several commits.
HTTP_BODY_BYTES_MAX: Final = 8 * 1_024 * 1_024

# The same for users, groups and policies: the largest policy as JSON, with escaped characters.
ACCESS_BODY_BYTES_MAX: Final = 262_144

# All bodies that are being read or served at once: thirty of the largest, thousands of usual ones.
HTTP_BODIES_BYTES_MAX: Final = 256 * 1_024 * 1_024

# The line that names the resource: keys of 500 characters, percent-encoded, and a long filter.
HTTP_TARGET_BYTES_MAX: Final = 16_384

# Browsers and proxies send a few kilobytes; more is an attempt to fill the server's memory.
HTTP_HEADER_BYTES_MAX: Final = 32_768

# A client sends about ten, a chain of proxies thirty.
HTTP_HEADERS_MAX: Final = 100

# The headers of a request fit one packet; a client that needs longer for them is an attack.
HTTP_HEADER_TIMEOUT_S: Final = 10.0

# A body must make progress in any span of this length, in either direction.
HTTP_PROGRESS_TIMEOUT_S: Final = 30.0

# How much: a slower body would keep its connection, and what is held for it, for hours.
PROGRESS_BYTES_MIN: Final = 65_536

# What is read ahead of the handler of a streamed body; then the client has to wait.
STREAM_BUFFER_BYTES: Final = 262_144

# Streamed requests at once: each has two buffers of this order, and followers of events stay long.
STREAMS_MAX: Final = 4_096

# Trailers and chunk extensions of a body, which the server does not use.
HTTP_TRAILER_BYTES_MAX: Final = 65_536

# Writing to a client stops when so much waits for it.
HTTP_WRITE_BUFFER_HIGH: Final = 131_072

# Writing continues when so little waits: the difference is the least progress of a body.
HTTP_WRITE_BUFFER_LOW: Final = 65_536

# Longer than the pools of common clients keep an unused connection, so that they close first.
HTTP_IDLE_TIMEOUT_S: Final = 75.0

# A refused client gets this long to read why before the connection is cut.
HTTP_LINGER_S: Final = 2.0

# Each connection costs a file descriptor and some kilobytes.
HTTP_CONNECTIONS_MAX: Final = 10_000

# Answers up to this size are copied behind their headers and written as one piece; copying one of
# twenty megabytes would block all other requests.
HTTP_JOINED_BYTES_MAX: Final = 65_536

# Headers that were checked and are remembered: a client repeats its own with every request, with a
# few lengths of bodies. Enough for a thousand callers that take turns.
CHECKED_HEADERS_MAX: Final = 8_192

# Longer headers are checked each time: with the number above they would take more than 16 MB. The
# token of an issuer fits.
CHECKED_HEADERS_BYTES_MAX: Final = 2_048

# JSON compresses at most some tens to one; a thousand to one is an attack.
GZIP_RATIO_MAX: Final = 200

# Small bodies may compress well by accident: up to this size no ratio is checked.
GZIP_FREE_BYTES: Final = 65_536

# Decompressing more than this would block the event loop for milliseconds.
GZIP_INLINE_BYTES_MAX: Final = 16_384

# A smaller answer fits one packet anyway, and compressing costs more than it saves.
GZIP_ANSWER_BYTES_MIN: Final = 1_024

# Compressing more than this takes over two milliseconds and happens in a thread.
GZIP_ANSWER_INLINE_BYTES_MAX: Final = 131_072

# What a form may have besides the bytes of its file: boundaries, heads, and a few short fields.
FORM_OVERHEAD_BYTES_MAX: Final = 64 * 1_024
