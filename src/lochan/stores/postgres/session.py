"""One connection: its settings, its time-out, and one statement at a time.

The settings make query plans independent of statistics: every statement finds its rows by the
primary key, in an empty table as in a large one. They also bound how long a statement, a lock and a
held row may last, whatever the client does.

In a forked process the connection is abandoned: it belongs to the parent and the server, and the
child must not send anything on it, not even the message that ends a session.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from select import POLLIN, poll
from typing import Final, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from lochan.base.errors import Unavailable
from lochan.process import Descriptor, after_fork, never_destroy
from lochan.stores.postgres import cockroach
from lochan.stores.postgres.address import Address
from lochan.stores.postgres.failures import describe
from lochan.stores.postgres.watchdog import Watchdog

_Result = TypeVar("_Result")

Row = tuple[object, ...]
Arguments = Sequence[object]
Connection = psycopg.Connection[Row]

# The first version with ON CONFLICT, incremental sorting and every setting below.
SERVER_VERSION_MIN: Final = 13

# How long a held row may wait for its `apply`; then the server rolls back and unlocks it.
HOLD_IDLE_MS: Final = 2_000

# How long after a time-out of its own a server may take to report it before it counts as gone.
ANSWER_GRACE_S: Final = 1.0

_SETTINGS: Final = {
    "client_encoding": "UTF8",
    "default_transaction_isolation": "read committed",
    "idle_in_transaction_session_timeout": str(HOLD_IDLE_MS),
    # Everything is a search in the primary key or a walk along it.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_sort": "off",
    "jit": "off",
}

# A commit that returned is on disk, even if the operator chose otherwise; stricter values stay.
_SET_UP: Final = """
SELECT current_setting('fsync'),
  (SELECT count(set_config(x.name, x.setting, false)) FROM unnest(%s::text[], %s::text[])
   AS x(name, setting)),
  (SELECT set_config('synchronous_commit', 'on', false)
   WHERE current_setting('synchronous_commit') = 'off')
"""


class Session:
    """A connection that belongs to one caller at a time."""

    def __init__(self, address: Address, watchdog: Watchdog) -> None:
        self._watchdog = watchdog
        self._timeout_s = address.statement_timeout_ms / 1_000 + ANSWER_GRACE_S
        self._connection = _connect(address)
        self.is_cockroach = cockroach.find_version(self._connection) is not None
        # The driver may close its descriptor at any time; shutting down a copy always works.
        self._socket = socket.socket(fileno=os.dup(self._connection.fileno()))
        self._descriptors = [Descriptor(each.fileno()) for each in (self._connection, self._socket)]
        self.abandoned = False
        """Whether it belongs to the process from which this one was forked."""
        after_fork(self, Session._forked)
        self._poll = poll()
        self._poll.register(self._connection.fileno(), POLLIN)
        try:
            self.fsync = self._set_up(address)
        except psycopg.Error as error:
            self.close()
            raise Unavailable(address.scrub(describe(error))) from None
        except BaseException:
            self.close()
            raise

    @property
    def broken(self) -> bool:
        """Whether the connection is closed."""
        return self._connection.closed

    def usable(self) -> bool:
        """Returns whether it may be lent again.

        It must be idle, with nothing to read: a server sends a message without a statement only
        when it ends the connection.
        """
        return (
            not self._connection.closed
            and self._connection.pgconn.transaction_status == TransactionStatus.IDLE
            and not self._poll.poll(0)
        )

    def execute(self, query: bytes, arguments: Arguments) -> list[Row]:
        """Sends one statement and returns its rows; one round trip once it is prepared."""

        def work(connection: Connection) -> list[Row]:
            cursor = connection.execute(query, arguments, binary=True)
            result = cursor.pgresult
            return cursor.fetchall() if result is not None and result.nfields else []

        return self.run(work)

    def begin_with(self, query: bytes, arguments: Arguments) -> list[Row]:
        """Opens a transaction with a statement, both in one round trip."""

        def work(connection: Connection) -> list[Row]:
            with connection.pipeline():
                connection.execute("BEGIN", prepare=False)
                cursor = connection.execute(query, arguments, binary=True)
            return cursor.fetchall()

        return self.run(work)

    def end_with(self, query: bytes, arguments: Arguments) -> list[Row]:
        """Sends a statement and commits, both in one round trip; if it fails, nothing commits."""

        def work(connection: Connection) -> list[Row]:
            with connection.pipeline():
                cursor = connection.execute(query, arguments, binary=True)
                connection.execute("COMMIT", prepare=False)
            return cursor.fetchall()

        return self.run(work)

    def end(self) -> None:
        """Ends a transaction that wrote nothing; one that cannot be ended is closed later.

        By COMMIT, because the driver forgets its prepared statements at every ROLLBACK.
        """
        with suppress(psycopg.Error):
            self.run(lambda connection: connection.execute("COMMIT", prepare=False))

    def run(self, work: Callable[[Connection], _Result], timeout_s: float | None = None) -> _Result:
        """Calls `work` with the connection, which is cut if that takes longer than the time-out."""
        self._watchdog.arm(self, timeout_s or self._timeout_s, self._cut)
        try:
            return work(self._connection)
        finally:
            self._watchdog.disarm(self)

    def close(self) -> None:
        """Ends the connection; an open transaction is rolled back by the server."""
        if self.abandoned:
            return
        with suppress(psycopg.Error):
            self._connection.close()
        self._socket.close()

    def _forked(self) -> None:
        self.abandoned = True
        never_destroy(self._connection)
        never_destroy(self._socket)
        for descriptor in self._descriptors:
            descriptor.abandon()

    def _cut(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _set_up(self, address: Address) -> bool:
        """Applies the settings; returns whether the server synchronises its files at all."""
        bounds = {
            "statement_timeout": str(address.statement_timeout_ms),
            "lock_timeout": str(address.lock_timeout_ms),
        }
        if self.is_cockroach:
            self.run(lambda connection: _set_cockroach(connection, cockroach.SETTINGS | bounds))
            return True
        settings = _SETTINGS | bounds
        arguments = (list(settings), list(settings.values()))

        row = self.run(
            lambda connection: connection.execute(_SET_UP, arguments, prepare=False).fetchone()
        )
        return row is not None and row[0] == "on"


def _set_cockroach(connection: Connection, settings: dict[str, str]) -> None:
    for name, value in settings.items():
        connection.execute(f"SET {name} = '{value}'".encode(), prepare=False)
    connection.execute(cockroach.ONE_STATEMENT, prepare=False)


def _connect(address: Address) -> Connection:
    try:
        connection = address.connect()
    except psycopg.Error as error:
        message = address.scrub(describe(error))
        raise Unavailable(f"cannot connect to {address.printable}: {message}") from None
    version = cockroach.find_version(connection)
    if version is not None:
        try:
            cockroach.check_version(version, address.printable)
        except Unavailable:
            connection.close()
            raise
        return connection
    if connection.info.server_version >= SERVER_VERSION_MIN * 10_000:
        return connection
    connection.close()
    raise Unavailable(f"{address.printable} is older than PostgreSQL {SERVER_VERSION_MIN}")
