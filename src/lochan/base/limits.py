"""A limit on everything, each with its reason.

Units and bounds come last in the names. A number that is not here is not a limit.
"""

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

# A checksum is a digest in text; SHA-512 in hex is 128 bytes, a prefix needs a little more.
FILE_CHECKSUM_BYTES_MAX: Final = 256

# The measured optimum for CPU and bytes written is a node of about 4 KB, 40 table elements.
NODE_ELEMENTS_TARGET: Final = 40

# Half the target: smaller nodes would cost more writes than they save.
NODE_ELEMENTS_MIN: Final = 20

# Twice the target: bounds what one edit rewrites when no key is a boundary.
NODE_ELEMENTS_MAX: Final = 80

# From here on a boundary is eight times likelier, which keeps large nodes rare.
NODE_ELEMENTS_EAGER: Final = 50

# Entries with long metadata must not make huge nodes; a tenth of the smallest value limit of the
# databases (DynamoDB's 400 KB) also allows for a last element of the largest size.
NODE_RAW_BYTES_CAP: Final = 65_536

# One key in so many ends a node whatever its size, so that parallel builders may cut there.
HARD_BREAK_ONE_IN: Final = 50_000

# 64 bits of element count in an inner entry could never overflow; 20 levels never be reached.
TREE_LEVELS_MAX: Final = 20

# The measured optimum for one-put commits: 8 KB costs one more KB per commit.
EMBEDDED_BYTES_MAX: Final = 4_096

# Branches that were created together must not spill together: the limit varies by this much.
EMBEDDED_STAGGER_BYTES: Final = 2_048

# The stored form of an object is bounded by the smallest value limit of the databases, 400 KB
# in DynamoDB, less what its row needs beside it.
OBJECT_BYTES_MAX: Final = 393_216

# A page bounds memory and the time of one request; clients request the next page.
PAGE_ENTRIES_MAX: Final = 1_000

# A store's page: large enough to amortise a round trip (measured best at 1,000 to 5,000).
SCAN_ENTRIES_MAX: Final = 10_000

# A specification with more relative steps is a mistake; each step may cost some tens of reads.
SPEC_STEPS_MAX: Final = 10

# A partition name is an instance id, a kind and a short suffix; one byte must hold its length.
PARTITION_BYTES_MAX: Final = 255

# The key of a store's row: a content key is the longest thing that names one.
STORE_KEY_BYTES_MAX: Final = KEY_BYTES_MAX

# Memory for the caches of all repositories of a server: inner nodes 96 MB (ten million keys),
# leaves 288 MB, commits 64 MB (some tens of thousands), contents 32 MB. Either half of the leaves'
# share holds a million keys (110 MB), so that commits at random places read nothing: with a third
# of this three of four read a leaf, and cost a quarter more (ADR-0012). Filled by use only.
CACHE_BYTES_MAX: Final = 480 * 1_024 * 1_024

# Half of the 24 hours for which unreachable objects are kept; storing again refreshes at this age.
HALF_GRACE_S: Final = 12 * 3_600

# How long objects, tombstones and claims are kept after the last reference to them is gone: longer
# than any operation may take and than the clocks of servers may differ.
GRACE_S: Final = 2 * HALF_GRACE_S

# A commit is a row too; with 1,000 own keys and both embedded indexes it stays far below the
# smallest value limit of the databases.
COMMIT_BYTES_MAX: Final = OBJECT_BYTES_MAX

# A page of history is read with one fetch; 20 ids are 640 bytes in every commit.
COMMIT_TAIL_MAX: Final = 20

# Up to here a commit lists its own keys, which makes its log entry cheap; above, its operations are
# the difference to its parent, and a tree of the keys that it put again as they were.
COMMIT_OWN_KEYS_MAX: Final = 1_000

# The same bound in bytes, for long keys.
COMMIT_OWN_BYTES_MAX: Final = 65_536

# Git hosts cut messages far earlier; a bound keeps a commit inside one row.
MESSAGE_BYTES_MAX: Final = 65_536

# Headers are for people and tools, not for data.
HEADERS_BYTES_MAX: Final = 32_768

# Nessie's own limit is the pattern; a row's key and a URL path segment must hold the name.
REFERENCE_NAME_BYTES_MAX: Final = 255

# Replaced heads that a row remembers; Nessie keeps as many.
PREVIOUS_POINTERS_MAX: Final = 20

# Moves that a row holds until they are copied to the log; more would make commits slower.
MOVES_MAX: Final = 16

# Proposals of one chain: those that wait are published together, but a lost swap costs all again.
CHAIN_PROPOSALS_MAX: Final = 64

# The same in bytes: one statement of a database, and what a lost swap wastes.
CHAIN_BYTES_MAX: Final = 1_048_576

# Commits that wait for one branch on one server; further callers are refused and retry later.
LANE_QUEUE_MAX: Final = 1_000

# All attempts of one commit together; then the caller gets an error with their number and time.
COMMIT_TIMEOUT_MS: Final = 5_000

# The first sleep after a lost attempt is between these: time for the other writer to finish.
RETRY_SLEEP_FIRST_MS: Final = (5, 25)

# Sleeps double up to here; longer ones would waste the time that is left.
RETRY_SLEEP_MAX_MS: Final = 250

# A step of several writes gives up this long after its first read, far below the collector's grace.
MULTI_STEP_TIMEOUT_MS: Final = 60_000

# Commits that one page of a filtered log looks at: 2,000 are 100 fetches, well under a second on a
# networked database; a shorter page contains a token for the next one.
LOG_SCANNED_MAX: Final = 2_000

# Operations that one page of a log looks at: as many as one commit may have, some megabytes and a
# twentieth of a second. A page ends with the commit that reaches it; its token continues there.
LOG_OPERATIONS_MAX: Final = 10_000

# Messages and contents in one page of a log, as they are stored: as many as one commit may bring.
LOG_BYTES_MAX: Final = 8 * 1_024 * 1_024

# A tag may point at a tag; longer chains of tags have no use, and each tag costs a read.
TAG_DEPTH_MAX: Final = 8

# Findings that a check of a repository lists; more are only counted, so memory stays bounded.
CHECK_FINDINGS_MAX: Final = 1_000

# How long a reference may be half created before a check reports a lost row: ten times what an
# operation may take, and the clocks of servers differ a little.
CHECK_UNFINISHED_S: Final = 600

# Heads from which a check reads history at once, some tens of MB; with more it reads in rounds.
CHECK_HEADS_MAX: Final = 100_000

# Commits that one rebase replays: they are planned in memory and stored before the branch moves.
REBASE_COMMITS_MAX: Final = 10_000

# Far above what people write; deeper nesting would overrun the stack of the code that reads it.
CONTENT_DEPTH_MAX: Final = 100

# The name of a content's type: a word, maybe with the vendor's before it.
CONTENT_TYPE_CHARACTERS_MAX: Final = 200

# A commit is checked and planned as a whole; more operations are several commits.
COMMIT_OPERATIONS_MAX: Final = 10_000

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

# Functions in one key pattern of the generator: a key has 20 elements at most.
PATTERN_FUNCTIONS_MAX: Final = 40

# The body of a request, unpacked: 10,000 operations of 800 bytes; more is several commits.
HTTP_BODY_BYTES_MAX: Final = 8 * 1_024 * 1_024

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

# A client that sends no byte of its body for this long is gone; a slow one may continue.
HTTP_BODY_TIMEOUT_S: Final = 30.0

# Trailers and chunk extensions of a body, which the server does not use.
HTTP_TRAILER_BYTES_MAX: Final = 65_536

# A client that does not read its answer must not keep it in our memory for ever.
HTTP_WRITE_TIMEOUT_S: Final = 60.0

# Longer than the pools of common clients keep an unused connection, so that they close first.
HTTP_IDLE_TIMEOUT_S: Final = 75.0

# A refused client gets this long to read why before the connection is cut.
HTTP_LINGER_S: Final = 2.0

# Each connection costs a file descriptor and some kilobytes.
HTTP_CONNECTIONS_MAX: Final = 10_000

# Connections that the operating system queues when many clients connect at once.
LISTEN_BACKLOG: Final = 1_024

# Every connection has a file descriptor, and the embedded store has some thousands of files.
FILES_MAX: Final = 65_536

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

# Decoding a larger body blocks the event loop for a millisecond and more: never on the loop.
BRIEF_BODY_BYTES_MAX: Final = 131_072

# A proposal with more operations is planned and built in a thread, not on the event loop.
BRIEF_OPERATIONS_MAX: Final = 100

# Calls that wait for a thread; further callers are refused and retry later.
POOL_QUEUE_MAX: Final = 1_000

# Lanes with their remembered rows, a few kilobytes each; idle ones beyond this are forgotten.
LANES_MAX: Final = 4_096

# How long a stopping server waits for requests that are under way.
DRAIN_TIMEOUT_S: Final = 20.0

# The loop gets the interpreter lock back from a busy thread this soon, each time it has work. A
# thread that waits for a busy loop starts its wait again whenever the loop releases the lock for a
# moment; if this were longer than the time between those moments, a thread would hardly ever run.
SWITCH_INTERVAL_S: Final = 0.000_05

# New objects between two rounds of Python's garbage collector, and rounds between those of older
# generations. A round stops all threads: one of the middle generation looks at the product of the
# first two (400,000 took 64 ms during a large listing), one of the oldest at everything, so those
# are made rare.
GC_THRESHOLDS: Final = (10_000, 4, 500)

# Answers up to this size are copied behind their headers and written as one piece; copying one of
# twenty megabytes would block all other requests.
HTTP_JOINED_BYTES_MAX: Final = 65_536

# Headers that were checked and are remembered: a client repeats its own with every request. Beyond
# this number all are forgotten.
CHECKED_HEADERS_MAX: Final = 512

# Longer headers are checked each time: with the number above they would take too much memory.
CHECKED_HEADERS_BYTES_MAX: Final = 1_024

# One call may create a branch for each of a large team's jobs; more are several calls.
REFERENCES_PER_CALL_MAX: Final = 10_000

# A branch is swept this long after its expiry: the clocks of servers differ a little.
EXPIRY_GRACE_S: Final = 60

# A client's key for one write: a UUID, or the client's own name of the request.
IDEMPOTENCY_KEY_CHARACTERS_MAX: Final = 255

# Request filters. The evaluator has no budget of its own, so the text is bounded before it runs;
# people do not write longer ones by hand, and URLs end at 8 KB.
FILTER_BYTES_MAX: Final = 4_096

# Tokens of a filter: parsing took 3 ms for a thousand, and the evaluator descends a level
# of its stack for each in the worst case (half a MB of stack was enough for a thousand).
FILTER_TOKENS_MAX: Final = 1_000

# Nested brackets; the evaluator's own parser fails between 50 and 100.
FILTER_DEPTH_MAX: Final = 32

# Loops of one filter, which are never inside each other.
FILTER_LOOPS_MAX: Final = 4

# Items of a list that is looped over: building a list of them is quadratic, 0.3 ms at a hundred.
FILTER_LIST_ITEMS_MAX: Final = 100

# Additions of one filter: adding texts and lists copies them, a hundred of 64 KB took 160 ms.
FILTER_ADDITIONS_MAX: Final = 8

# The estimated time to compile one regular expression, which happens for every element.
FILTER_PATTERN_US_MAX: Final = 2_000

# The estimated time to evaluate one element by the text alone; measured worst cases were below.
FILTER_TEXT_US_MAX: Final = 50_000

# The same with the operations of a commit: one pass over 10,000 of them takes 50 ms.
FILTER_ELEMENT_US_MAX: Final = 500_000

# Evaluated elements are counted in these steps against a page's limit of scanned elements, so that
# a costly filter gets shorter pages; simple ones measured 3 to 7 microseconds.
FILTER_COST_STEP_US: Final = 10

# Compiled filters kept in memory, a few KB each; clients send the same few again and again.
FILTER_CACHE_ENTRIES_MAX: Final = 256

# Commits of a busy branch that its publisher remembers: writers are rarely further behind.
RECENT_COMMITS_MAX: Final = 1_024

# Keys that it remembers as changed; about two megabytes for the busiest branch.
RECENT_KEYS_MAX: Final = 10_000

# Namespaces that version 1 of the API returns in one answer, which has no pages: some tens of MB.
NAMESPACES_LISTED_MAX: Final = 100_000

# Settings of one type are rules for tools, a few KB; the row must fit every database.
SETTINGS_BYTES_MAX: Final = 65_536

# Rules by reference name in the settings of a collector; people write them.
SETTINGS_POLICIES_MAX: Final = 1_000

# Writers that a settings row remembers: one whose reply was lost finds its own id there.
SETTINGS_WRITERS_MAX: Final = 16

# Objects of one bulk call: a few MB of ordinary nodes, far above where a round trip is amortised.
OBJECTS_PER_CALL_MAX: Final = 1_000

# The same in bytes, what one call may hold in memory; a single object always fits.
OBJECTS_BYTES_PER_CALL_MAX: Final = 32 * 1_024 * 1_024

# Objects that are read at once before their bytes are counted: the largest make 12 MB.
OBJECTS_FETCHED_AT_ONCE: Final = 32

# Repositories that a server keeps open: 15 KB each, 16 MB in all; their caches share one budget.
REPOSITORIES_OPEN_MAX: Final = 1_024

# Attempts of the generator for one commit: with 64 workers on one key the unluckiest needs dozens.
GENERATE_ATTEMPTS_MAX: Final = 200

# A run of the generator: its counters and keys must fit in memory.
GENERATE_COMMITS_MAX: Final = 100_000_000

# Workers of the generator are threads with a connection each.
GENERATE_WORKERS_MAX: Final = 256

# Connections of one client: as many as the generator has workers, far below what a server takes.
CLIENT_CONNECTIONS_MAX: Final = 256

# Nessie's own limit for a page of a log, whatever the client requests; some dozens of kilobytes.
LOG_PAGE_COMMITS_MAX: Final = 250

# Some hundreds of keys in a body, each a lookup in a tree that is in memory: a few milliseconds.
BRIEF_KEYS_BYTES_MAX: Final = 16_384

# One write of several branches waits for the database while the next is being planned.
WRITES_TOGETHER_MAX: Final = 2

# How often expired branches are searched: half the time between their expiry and their removal.
SWEEP_EVERY_S: Final = 30.0

# How often old claims are searched: rows are read in no order of age, so each round reads all of
# them, and one an hour leaves at most a day's claims and a twenty-fourth more.
SWEEP_CLAIMS_EVERY_S: Final = 3_600.0

# Rows that one turn of a sweep reads: a tenth of a second of one thread; the next turn continues.
SWEEP_ROWS_MAX: Final = 10_000

# The least number of rows that a repository counts for in such a turn: opening one that is not in
# use takes some reads.
SWEEP_REPOSITORY_ROWS: Final = 20

# The pause between two turns of one round, so that a sweep never occupies a thread.
SWEEP_PAUSE_S: Final = 1.0

# Rows that a sweep could not read and has reported, remembered so that each is reported once.
SWEEP_REPORTED_MAX: Final = 1_000

# An embedded repository sweeps after this number of writes, and reads twice as many rows as they
# can have made, so that the number of old rows does not grow.
EMBEDDED_SWEEP_WRITES: Final = 256

# Rows of references and of claims that it reads, each: some milliseconds.
EMBEDDED_SWEEP_ROWS: Final = 512

# Reads that one thread serves together: their rows are one statement, their answers a few
# milliseconds of work.
READS_TOGETHER_MAX: Final = 32

# While one thread waits for the database, another one may compute.
READS_UNDER_WAY_MAX: Final = 3
