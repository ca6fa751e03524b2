"""The connection to MongoDB: a bounded number of requests at a time, each sent once.

Every request is a database command, which pymongo never repeats, unlike its own methods. The
members of the replica set, and which of them is the primary, are pymongo's matter: it looks for
them in a thread of its own, and again after each error. A listener notices when a command is
about to be sent, so that a lost answer is distinguished from a member that cannot be reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import BoundedSemaphore, Lock, local
from typing import Any, Final

from bson.errors import BSONError
from pymongo import MongoClient as Driver
from pymongo import ReadPreference
from pymongo.errors import (
    ConfigurationError,
    InvalidURI,
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
)
from pymongo.monitoring import (
    CommandFailedEvent,
    CommandListener,
    CommandStartedEvent,
    CommandSucceededEvent,
)
from pymongo.uri_parser import parse_uri

from lochan.base.errors import Exhausted, InvalidUrl, StoreClosed
from lochan.process import after_fork, never_destroy
from lochan.stores.mongodb.address import MongoAddress
from lochan.stores.mongodb.failures import no_answer, refusal, unconfirmed

Document = dict[str, Any]
"""A command or an answer, or a part of one."""

CONNECT_TIMEOUT_MS: Final = 3_000

# An election takes some seconds; after that an error is better than waiting.
SELECTION_TIMEOUT_MS: Final = 5_000

# The majority confirms in milliseconds, a large batch in a second. The server ends what takes
# longer, before this side gives up the connection.
MAJORITY_TIMEOUT_MS: Final = 7_000
COMMAND_TIMEOUT_MS: Final = 8_000
ANSWER_TIMEOUT_MS: Final = 10_000

# Time for several requests of each earlier caller; after that an error is better than waiting.
CONNECTION_WAIT_S: Final = 5.0

# In the journal of a majority: survives the loss of the primary and a power cut.
_WRITE_CONCERN: Final = {"w": "majority", "j": True, "wtimeout": MAJORITY_TIMEOUT_MS}


class _SentListener(CommandListener):
    """Remembers for each thread whether its command was about to be sent."""

    def __init__(self) -> None:
        self._command = local()

    def expect(self, name: str) -> None:
        """Begins a command of this thread."""
        self._command.name = name
        self._command.sent = False

    @property
    def sent(self) -> bool:
        """Whether the command of this thread may have reached the server."""
        return bool(self._command.sent)

    def started(self, event: CommandStartedEvent) -> None:
        """Is called by pymongo before it sends; also for commands that log in."""
        if event.command_name == getattr(self._command, "name", None):
            self._command.sent = True

    def succeeded(self, event: CommandSucceededEvent) -> None:
        """Does nothing."""

    def failed(self, event: CommandFailedEvent) -> None:
        """Does nothing."""


class MongoClient:
    """Sends commands; the only owner of pymongo's client."""

    def __init__(self, address: MongoAddress) -> None:
        self._address = address
        self.collection = address.collection
        """The name of the collection."""
        self._closed = False
        self._driver: Driver[Document] | None = None
        self._begin()
        after_fork(self, MongoClient._forked)

    def _begin(self) -> None:
        self._lock = Lock()
        self._slots = BoundedSemaphore(self._address.connections)
        self._sending = _SentListener()

    def _forked(self) -> None:
        """Opens connections of its own in a child; those of the parent are never used here."""
        if self._driver is not None:
            never_destroy(self._driver)
        self._driver = None
        self._begin()

    def read(
        self, command: Document, level: str | None = None, expected: frozenset[int] = frozenset()
    ) -> Document:
        """Sends a command that changes nothing; a code in `expected` is returned, not raised."""
        if level is not None:
            command = {**command, "readConcern": {"level": level}}
        return self._run(command, expected, writes=False)

    def write(self, command: Document, expected: frozenset[int] = frozenset()) -> Document:
        """Sends a command that changes something, and returns when the majority has it.

        A lost answer is Unknown, and so is a write that the majority has not confirmed in time.
        """
        name = next(iter(command))
        answer = self._run({**command, "writeConcern": _WRITE_CONCERN}, expected, writes=True)
        if "writeConcernError" in answer:
            raise unconfirmed(name, answer["writeConcernError"])
        return answer

    def check_open(self) -> None:
        """Raises StoreClosed after `close`."""
        if self._closed:
            raise StoreClosed("the store was closed")

    def close(self) -> None:
        """Refuses new requests, waits for running ones, closes all connections; idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        for _ in range(self._address.connections):
            self._slots.acquire(timeout=(ANSWER_TIMEOUT_MS + SELECTION_TIMEOUT_MS) / 1_000)
        if self._driver is not None:
            self._driver.close()

    def _run(self, command: Document, expected: frozenset[int], *, writes: bool) -> Document:
        self.check_open()
        slots = self._slots
        if not slots.acquire(timeout=CONNECTION_WAIT_S):
            raise Exhausted(f"all {self._address.connections} connections to MongoDB are in use")
        name = next(iter(command))
        sending = self._sending
        sending.expect(name)
        try:
            database = self._connected()[self._address.database]
            answer: Document = database.command(
                {**command, "maxTimeMS": COMMAND_TIMEOUT_MS}, read_preference=ReadPreference.PRIMARY
            )
        except (OperationFailure, NotPrimaryError) as error:
            details = _details(error)
            if details.get("code") in expected:
                return details
            raise refusal(
                name, self._scrubbed(details), writes=writes and sending.sent, begun=False
            ) from None
        except (PyMongoError, BSONError) as error:
            message = self._address.scrub(f"{type(error).__name__}: {error}")
            raise no_answer(name, message, writes=writes, sent=sending.sent) from None
        finally:
            slots.release()
        return answer

    def _scrubbed(self, details: Mapping[str, Any]) -> Document:
        return {**details, "errmsg": self._address.scrub(str(details.get("errmsg", "")))}

    def _connected(self) -> Driver[Document]:
        driver = self._driver
        if driver is None:
            with self._lock:
                self.check_open()
                if self._driver is None:
                    self._driver = self._build()
                driver = self._driver
        return driver

    def _build(self) -> Driver[Document]:
        uri = self._address.for_driver()
        try:
            # Without this check pymongo ignores a value that it cannot read.
            parse_uri(uri, warn=False)
            return Driver(
                uri,
                appname="lochan",
                connect=False,
                connectTimeoutMS=CONNECT_TIMEOUT_MS,
                event_listeners=[self._sending],
                maxPoolSize=self._address.connections,
                retryReads=False,
                retryWrites=False,
                serverSelectionTimeoutMS=SELECTION_TIMEOUT_MS,
                socketTimeoutMS=ANSWER_TIMEOUT_MS,
                waitQueueTimeoutMS=CONNECT_TIMEOUT_MS,
            )
        except (ConfigurationError, InvalidURI, ValueError) as error:
            message = self._address.scrub(str(error))
            raise InvalidUrl(f"pymongo cannot use the address of the store: {message}") from None


def _details(error: OperationFailure | NotPrimaryError) -> Document:
    details = error.details
    return dict(details) if isinstance(details, Mapping) else {"errmsg": str(error)}
