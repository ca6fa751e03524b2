"""Events and their subscribers."""

from __future__ import annotations

from typing import Final

# Commits and moves that wait for one subscriber: a commit is 3 to 10 KB in memory, so a subscriber
# that never returns holds less than 100 MB. Several subscribers hold the same commits.
EVENT_QUEUE_MAX: Final = 10_000

# The longest queue that an operator may choose for one subscriber: about 1 GB.
EVENT_QUEUE_CEILING: Final = 1_000_000

# Recent changes whose events are kept for other subscriptions: those that keep up are a few changes
# apart, and one that does not has its events made again.
EVENT_SHARED_CHANGES_MAX: Final = 64

# Events of one change that are kept so; each is a few KB with its content. If there are more, each
# subscription has them made again, one by one.
EVENT_SHARED_MAX: Final = 200

# Operations that a COMMIT event lists, with their keys; a commit lists as many keys of its own.
EVENT_OPERATIONS_MAX: Final = 1_000

# Contents that are loaded by one read for the events of a large commit.
EVENT_CONTENTS_READ: Final = 200

# Attempts for one event before it becomes a dead letter: with the sleeps below some seconds.
EVENT_ATTEMPTS_MAX: Final = 5

# The most attempts that an operator may choose: with the sleeps below more than an hour.
EVENT_ATTEMPTS_CEILING: Final = 1_000

# The sleep before the second attempt, in which most receivers are back; each later one is doubled.
EVENT_SLEEP_FIRST_MS: Final = 100.0

# The longest sleep: a stopping process interrupts it, and an operator who watches does not wait.
EVENT_SLEEP_MAX_MS: Final = 5_000.0

# Events in a row that failed in all attempts before the breaker opens: one may itself be bad.
EVENT_FAILURES_MAX: Final = 3

# How long the breaker is open: a receiver that is down for long gets one attempt in that time.
EVENT_BREAKER_MS: Final = 30_000

# The longest time that an operator may choose: a receiver that is back is found within an hour.
EVENT_BREAKER_MS_CEILING: Final = 3_600_000

# How long one call of a subscriber may take; then its queue takes no more until it returns.
EVENT_CALL_MS_MAX: Final = 10_000

# The longest time that an operator may choose for a call: what takes longer needs its own queue.
EVENT_CALL_MS_CEILING: Final = 600_000

# How often the holder of a durable cursor looks for changes that other servers made.
EVENT_POLL_MS: Final = 1_000

# The pause between two such searches is this many times as long as the last one took: with very
# many references they occupy a tenth of one thread.
EVENT_POLL_PAUSE_TIMES: Final = 9

# The longest time that an operator may choose between two searches.
EVENT_POLL_MS_CEILING: Final = 3_600_000

# The age at which a cursor is given up for a gap: a receiver may be away for a week.
EVENT_AGE_S_MAX: Final = 7 * 86_400

# The longest age that an operator may choose: ten years.
EVENT_AGE_S_CEILING: Final = 10 * 366 * 86_400

# How often the time of a cursor without changes is written: a part of the age that may be so long.
EVENT_COMPLETE_PART: Final = 100

# A lease lasts so many times as long as one call may take, so that a call which begins in its first
# third ends before the lease does.
EVENT_LEASE_CALLS: Final = 1.5

# Changes of one reference that are delivered before the cursor is moved: a crash repeats them.
EVENT_CURSOR_CHANGES: Final = 100

# The cursor is moved after this time too, so that a slow receiver gets fewer events again.
EVENT_CURSOR_MS: Final = 1_000

# References whose changes were noted in memory; with more, all references are searched.
EVENT_NOTED_MAX: Final = 10_000

# Repositories whose cursors are kept in memory; more are read again at each search.
EVENT_CURSORS_KEPT: Final = 1_000

# References that a GAP event lists; the rest is counted.
EVENT_MISSED_MAX: Final = 1_000

# Dead letters that are kept in memory for an operator; more are only counted.
EVENT_DEAD_LETTERS_MAX: Final = 100

# Subscriptions of one process: each has a thread.
EVENT_SUBSCRIPTIONS_MAX: Final = 64

# How long a worker that was idle waits for more changes before it delivers the first: at thousands
# of changes per second it wakes for tens of them at a time.
EVENT_GATHER_MS: Final = 10

# How long a server that stops goes on to deliver what is queued.
EVENT_DRAIN_MS: Final = 5_000

# How long a subscriber that failed at its start waits before it is registered again.
EVENT_REGISTER_EVERY_MS: Final = 10_000

# Patterns of one filter: each is compared with each event.
EVENT_PATTERNS_MAX: Final = 100

# Commits that a replay reads before it goes on: views of about 1 KB each.
REPLAY_COMMITS_READ: Final = 500

# Operations of sampled requests whose trace is remembered for their events; each takes 200 bytes.
EVENT_TRACES_MAX: Final = 10_000

# How long a receiver may ask to wait before the next attempt; then it is asked again.
EVENT_RETRY_AFTER_MS_MAX: Final = 60_000

# The text of an error that operators see in logs and in the status.
EVENT_ERROR_CHARACTERS_MAX: Final = 200

# One attempt to send an event, from the look-up of the name to the head of the answer.
WEBHOOK_TIMEOUT_MS: Final = 5_000

# The body of a webhook request; the specification of CloudEvents asks receivers to take as much.
WEBHOOK_BODY_BYTES_MAX: Final = 65_536

# What is read of an answer, head and body: only its status and one header are used.
WEBHOOK_ANSWER_BYTES_MAX: Final = 65_536

# The head of an answer: most have less than 1 KB.
WEBHOOK_HEAD_BYTES_MAX: Final = 16_384

# Addresses of one host that are tried in an attempt; each gets a share of its time.
WEBHOOK_ADDRESSES_MAX: Final = 4

# The address of a receiver, as long as most servers accept one.
WEBHOOK_URL_CHARACTERS_MAX: Final = 2_048

# Secrets that sign at the same time: the old one and the new one, and some to spare.
WEBHOOK_SECRETS_MAX: Final = 8

# The shortest secret, in bytes; the specification of Standard Webhooks asks for 24 to 64.
WEBHOOK_SECRET_BYTES_MIN: Final = 24

# The longest one: more adds nothing to a signature with SHA-256.
WEBHOOK_SECRET_BYTES_MAX: Final = 64

# A file of secrets: each takes about 100 characters, and it may have comments.
WEBHOOK_SECRETS_TEXT_BYTES_MAX: Final = 8_192

# References of one event stream: the position of each is in every token, of about 60 characters.
STREAM_REFERENCES_MAX: Final = 64

# A token with the positions of twice as many, because some are of references that are gone.
STREAM_TOKEN_CHARACTERS_MAX: Final = 12_000

# Followers of one server: each has a connection; half of the slots for streams are left to files.
STREAM_FOLLOWERS_MAX: Final = 2_048

# Changes that wait in memory for the followers of one scope; one that is further behind goes on
# from the store.
STREAM_CHANGES_MAX: Final = 1_000

# The same in bytes of events, for all scopes of a server together.
STREAM_BYTES_MAX: Final = 64 * 1_024 * 1_024

# Events of one change that are made once for all followers; those of a larger change are made for
# each follower, in parts.
STREAM_SHARED_EVENTS_MAX: Final = 200

# One event on a stream: a COMMIT that lists 1,000 usual keys has less.
STREAM_EVENT_BYTES_MAX: Final = 262_144

# How often the store is read for changes that other servers made: half of the goal for lag within
# one server would cost each scope four reads a second.
STREAM_POLL_MS: Final = 1_000

# How often a stream without events shows that it is alive, and where it is; proxies close
# connections that are silent for 30 to 60 seconds.
STREAM_HEARTBEAT_MS: Final = 15_000

# Bytes of events that are written in one piece.
STREAM_PIECE_BYTES: Final = 65_536

# Events of the past that are made in one turn of a thread, whether they are sent or not.
STREAM_PAST_EVENTS: Final = 200

# Patterns of one kind in the query of a stream: each is compared with each event.
STREAM_PATTERNS_MAX: Final = 20

# One message of a broker, with its attributes: brokers take 1 MiB by default, with their own head.
BROKER_MESSAGE_BYTES_MAX: Final = 1_000_000

# One attempt to send an event to a broker, from the connection to the acknowledgement.
BROKER_TIMEOUT_MS: Final = 5_000

# Addresses of one broker: more are found by it.
BROKER_SERVERS_MAX: Final = 32

# A file or variable with a password or a token.
BROKER_SECRET_BYTES_MAX: Final = 8_192
