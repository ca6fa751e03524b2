"""The Python client and the generator of commits."""

from __future__ import annotations

from typing import Final

# A lost reply or a restarting server is over within these; more would hide that a server is down.
CLIENT_ATTEMPTS_MAX: Final = 5

# The first pause of the client; it doubles, so five attempts span less than two seconds.
CLIENT_PAUSE_FIRST_MS: Final = 100

# Pauses of the client double up to here, so that a server that is back is found soon.
CLIENT_PAUSE_MAX_MS: Final = 1_000

# A server may request a longer pause, but then a caller should get an error rather than hang.
CLIENT_RETRY_AFTER_MAX_S: Final = 30

# Longer than the server's own bound on a commit, so that its answer arrives; also long enough for a
# merge of 100,000 keys.
CLIENT_TIMEOUT_S: Final = 60

# Connections of one client: as many as the generator has workers, far below what a server takes.
CLIENT_CONNECTIONS_MAX: Final = 256

# A token of an OIDC issuer with hundreds of groups; more does not fit the headers of a request.
TOKEN_BYTES_MAX: Final = 16_384

# The file with the profiles of one user: hundreds of them.
CREDENTIALS_FILE_BYTES_MAX: Final = 1_048_576

# Functions in one key pattern of the generator: a key has 20 elements at most.
PATTERN_FUNCTIONS_MAX: Final = 40

# Attempts of the generator for one commit: with 64 workers on one key the unluckiest needs dozens.
GENERATE_ATTEMPTS_MAX: Final = 200

# A run of the generator: its counters and keys must fit in memory.
GENERATE_COMMITS_MAX: Final = 100_000_000

# Workers of the generator are threads with a connection each.
GENERATE_WORKERS_MAX: Final = 256

# A piece of an upload: large enough that its cost is that of copying, small beside the memory of a
# process with many transfers.
UPLOAD_PIECE_BYTES: Final = 262_144

# Transfers of one command at the same time: each has a thread and a connection.
TRANSFERS_MAX: Final = 64

# How long a stream of events may be silent before the client connects again: three signs of life of
# the server.
EVENT_SILENCE_S: Final = 45.0

# Failures in a row before the client gives a stream up: with the pauses below about two minutes, in
# which a server was updated or has failed.
EVENT_RECONNECTS_MAX: Final = 30

# The longest pause between two attempts to go on with a stream.
EVENT_RECONNECT_PAUSE_MAX_S: Final = 5.0

# One message of a stream: four times what the server sends in one event.
EVENT_MESSAGE_BYTES_MAX: Final = 1_048_576
