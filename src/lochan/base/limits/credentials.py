"""Limits of keys, tokens and what requests authenticate with."""

from __future__ import annotations

from typing import Final

# Bytes of a key of the servers: what AES-256 takes. Shorter ones are refused, never stretched.
SERVER_KEY_BYTES: Final = 32

# Keys that a server accepts at once. A rotation needs two; a few more are left by rotations that
# were not completed. Each costs one attempt for a login token that was signed with another.
SERVER_KEYS_MAX: Final = 8

# A file of keys: eight keys of 44 characters, with comments.
SERVER_KEYS_TEXT_BYTES_MAX: Final = 16 << 10

# A secret that is sealed; those of access keys have 52 characters.
SEALED_PLAIN_BYTES_MAX: Final = 4 << 10

# How long a login counts. It is refused earlier if its access key or its user is gone.
LOGIN_MS: Final = 3_600_000

# A login token has about 400 characters with the longest name of a user.
LOGIN_TEXT_BYTES_MAX: Final = 2 << 10

# The header `Authorization`, with its scheme: the largest token of an issuer, and the longest word
# for the scheme.
AUTHORIZATION_BYTES_MAX: Final = (8 << 10) + 16

# A token of an issuer, before anything of it is parsed. Issuers that put groups into tokens stay
# below it, because most servers accept no header that is longer.
OIDC_TOKEN_BYTES_MAX: Final = 8 << 10

# By how much the clock of an issuer may differ from ours. More would let a token live on for long
# after its end; servers with a time service differ by less than a second.
OIDC_SKEW_S_MAX: Final = 60

# Roles of a token. More of them are refused, not left out: one that is left out might be the one
# that a policy denies something to.
OIDC_ROLES_MAX: Final = 100

# Characters of one role: as many as the name of a group may have.
OIDC_ROLE_CHARACTERS_MAX: Final = 128

# Names on the way to a claim: `resource_access.lochan.roles` has three.
OIDC_CLAIM_DEPTH_MAX: Final = 8

# Characters of the name of a claim or of the way to it; some issuers name them by URLs.
OIDC_CLAIM_CHARACTERS_MAX: Final = 256

# Bytes of a published set of keys: 64 keys of 4,096 bits with certificates beside some of them.
KEY_SET_BYTES_MAX: Final = 64 << 10

# Keys of a set; issuers publish two to ten.
KEY_SET_KEYS_MAX: Final = 64

# Characters of a key id, which issuers choose: a hash, a date, a URL.
KEY_ID_CHARACTERS_MAX: Final = 256

# Bits of an RSA key: signatures with shorter ones are no longer safe.
RSA_KEY_BITS_MIN: Final = 2_048

# Bits of an RSA key: checking a signature with a longer one takes milliseconds.
RSA_KEY_BITS_MAX: Final = 8_192

# Bits of the exponent of an RSA key: checking takes longer with each of them. Nearly all keys have
# an exponent of 17 bits.
RSA_EXPONENT_BITS_MAX: Final = 33

# Authenticated callers that a server remembers, by what they send: some hundred bytes each. More
# are forgotten, the longest unused first.
KNOWN_CALLERS_MAX: Final = 10_000

# Sets of compiled policies that a server remembers: one for each user and each set of scopes, some
# tens of KB at most.
KNOWN_RIGHTS_MAX: Final = 5_000

# Refused headers that a server remembers. They are apart from callers, so that a caller that sends
# random tokens pushes out nothing but its own.
REFUSED_HEADERS_MAX: Final = 1_000

# The clocks of a client and of a server may differ by this much; AWS allows the same.
SIGNATURE_SKEW_S_MAX: Final = 15 * 60

# How long a signed URL may be valid; AWS allows the same.
SIGNATURE_LIFETIME_S_MAX: Final = 7 * 24 * 3_600

# How long a refused header is refused again without a look into the store. It bounds what a client
# costs that repeats a wrong token; a token that is created meanwhile is a new one.
REFUSED_MS: Final = 1_000

# The time to fetch the keys of an issuer, from the connection to the last byte. Requests with a key
# id that is not known wait for it.
KEY_FETCH_TIMEOUT_MS: Final = 5_000

# The time between two attempts to fetch keys, however many requests name a key id that is not
# known: a caller that sends random ones causes six requests to the issuer in a minute.
KEY_FETCH_INTERVAL_MS: Final = 10_000

# Threads that wait for one fetch at the same time, the one that fetches included. All others are
# answered with the keys that are known, so that an issuer that hangs does not take all threads.
KEY_FETCH_WAITERS_MAX: Final = 4

# Addresses of an issuer's host that are tried in one fetch.
KEY_FETCH_ADDRESSES_MAX: Final = 3

# After this time keys are fetched again, while the known ones are still used. Issuers publish a
# key some hours before they use it, and withdraw it when its last token has expired.
KEYS_REFRESH_MS: Final = 300_000

# For how long known keys are used when they cannot be read again. Tokens live for an hour mostly,
# and an issuer that is away issues none; longer would keep keys that it has withdrawn.
KEYS_AGE_MS_MAX: Final = 4 * 3_600_000

# How often a file of keys is looked at for a change.
KEY_FILE_CHECK_MS: Final = 1_000

# The address of a set of keys.
KEY_ADDRESS_CHARACTERS_MAX: Final = 2_000
