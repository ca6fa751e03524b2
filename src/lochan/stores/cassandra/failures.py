"""Translates errors of Cassandra, ScyllaDB and their drivers to ours.

A write is refused, so that nothing was written, only where the error proves it:

- too few replicas are alive, as counted for the *serial* consistency: that is counted before the
  first message of Paxos. Counted for the consistency of the commit, the proposal may be accepted;
- the node took no more requests (overloaded, starting); an overload of hints may come later;
- the driver has sent the request to no node.

Every other error leaves a write Unknown: a time-out of Paxos means that a proposal may have been
accepted by some replicas, and then any later operation on the partition may complete it.
"""

from __future__ import annotations

import re
from typing import Final

from cassandra import (
    AuthenticationFailed,
    ConsistencyLevel,
    DriverException,
    InvalidRequest,
    Unauthorized,
)
from cassandra import Unavailable as TooFewReplicas
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionException
from cassandra.pool import NoConnectionsAvailable
from cassandra.protocol import (
    ConfigurationException,
    ErrorMessage,
    IsBootstrappingErrorMessage,
    OverloadedErrorMessage,
    SyntaxException,
)

from lochan.base.errors import Bug, Corrupt, Exhausted, LochanError, Unavailable, Unknown

DRIVER_ERRORS: Final = (
    DriverException,
    ConnectionException,
    ErrorMessage,
    NoConnectionsAvailable,
    NoHostAvailable,
    OSError,
    # The driver's pool of threads is closing.
    RuntimeError,
)
"""What a request may end with; the classes of the driver have no common base."""

_SERIAL: Final = frozenset((ConsistencyLevel.SERIAL, ConsistencyLevel.LOCAL_SERIAL))
_OUR_MISTAKE: Final = (InvalidRequest, SyntaxException, ConfigurationException)
_DENIED: Final = (AuthenticationFailed, Unauthorized)

_GONE: Final = re.compile(
    "unconfigured table|(?:table|keyspace) \\S+ does not exist", re.IGNORECASE
)

_MESSAGE_CHARACTERS_MAX: Final = 400


def translate(what: str, error: Exception, text: str, *, writes: bool, sent: bool) -> LochanError:
    """Returns our error; `text` is the message without secrets, `sent` if a node may have it."""
    message = f"{what}: {type(error).__name__}: {text[:_MESSAGE_CHARACTERS_MAX]}"
    if isinstance(error, _DENIED):
        return Unavailable(f"Cassandra refused the user: {message}")
    if isinstance(error, InvalidRequest) and _GONE.search(text):
        return Corrupt(f"the table of this store is gone: {message}")
    if isinstance(error, _OUR_MISTAKE):
        return Bug(f"Cassandra refused a request: {message}")
    if not sent or (isinstance(error, NoHostAvailable) and not writes):
        return Unavailable(f"Cassandra cannot be reached: {message}")
    if writes and not _is_refused(error, text):
        return Unknown(f"Cassandra failed during a write: {message}")
    if isinstance(error, OverloadedErrorMessage):
        return Exhausted(f"Cassandra is overloaded: {message}")
    return Unavailable(f"Cassandra did not answer a request: {message}")


def _is_refused(error: Exception, text: str) -> bool:
    """Returns whether the error proves that nothing was written."""
    if isinstance(error, TooFewReplicas):
        return error.consistency in _SERIAL
    if isinstance(error, OverloadedErrorMessage):
        return "hint" not in text.lower()
    return isinstance(error, IsBootstrappingErrorMessage)
