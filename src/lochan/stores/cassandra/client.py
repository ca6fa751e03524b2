"""The connection to the cluster: a bounded number of calls at a time, each request sent once.

The driver has one connection to each node and as many requests on it as there are. It never repeats
a request here: no retries, no speculative execution. A node that answers nothing is noticed by
heartbeats; what was sent to it is then without an answer. The driver's threads do not survive a
fork, so a child makes connections of its own.
"""

from __future__ import annotations

import ssl
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import BoundedSemaphore, Lock
from typing import Any, Final

import cassandra.cluster as driver
from cassandra import ConsistencyLevel, ProtocolVersion
from cassandra.auth import PlainTextAuthProvider
from cassandra.policies import (
    ConstantReconnectionPolicy,
    DCAwareRoundRobinPolicy,
    FallthroughRetryPolicy,
    TokenAwarePolicy,
)
from cassandra.query import BatchStatement, BatchType, SimpleStatement, dict_factory

from lochan.base.errors import Exhausted, InvalidUrl, LochanError, StoreClosed, Unavailable
from lochan.process import after_fork, never_destroy
from lochan.stores.cassandra.address import CassandraAddress
from lochan.stores.cassandra.failures import DRIVER_ERRORS, translate
from lochan.stores.cassandra.statements import TableStatement

Row = dict[str, Any]
"""A row of an answer, by the names of its columns."""

Request = tuple[TableStatement, tuple[Any, ...]]
"""A statement and its values."""

CONNECT_TIMEOUT_S: Final = 3.0

# Cassandra gives up a write after 2 s and a read after 5 s; a node that says nothing is gone.
REQUEST_TIMEOUT_S: Final = 8.0
SCHEMA_TIMEOUT_S: Final = 20.0

# A silent connection is closed after both of them; a pause of the JVM is shorter.
HEARTBEAT_EVERY_S: Final = 2.0
HEARTBEAT_TIMEOUT_S: Final = 4.0

RECONNECT_S: Final = 0.25

# Time for several requests of each earlier caller; after that an error is better than waiting.
CALL_WAIT_S: Final = 5.0

# Requests of one bulk call on the way at the same time: a node executes some dozens at a time.
_WINDOW: Final = 24


class CassandraClient:
    """Sends statements; the only owner of the driver's cluster and session."""

    def __init__(self, address: CassandraAddress) -> None:
        self.address = address
        self._closed = False
        self._cluster: Any = None
        self._session: Any = None
        self._prepared: dict[TableStatement, Any] = {}
        local = address.local
        self._quorum = ConsistencyLevel.LOCAL_QUORUM if local else ConsistencyLevel.QUORUM
        self._serial = ConsistencyLevel.LOCAL_SERIAL if local else ConsistencyLevel.SERIAL
        self._begin()
        after_fork(self, CassandraClient._forked)

    def _begin(self) -> None:
        self._lock = Lock()
        self._slots = BoundedSemaphore(self.address.calls)

    def _forked(self) -> None:
        """Forgets the connections and threads of the parent in a child."""
        reactor: Any = sys.modules.get("cassandra.io.libevreactor")
        if reactor is not None:
            # The driver would clean up the loop of the parent, and wait for its thread.
            never_destroy(reactor._global_loop)  # noqa: SLF001 - it has no public name
            reactor._global_loop = None  # noqa: SLF001
        if self._cluster is not None:
            never_destroy(self._cluster)
            never_destroy(self._session)
            # Else the driver closes the cluster of the parent when the child ends.
            driver._discard_cluster_shutdown(self._cluster)  # noqa: SLF001
        self._cluster = self._session = None
        self._prepared = {}
        self._begin()

    def read(self, statement: TableStatement, *values: Any, serial: bool = False) -> list[Row]:
        """Returns the rows that a statement finds, by default those that a quorum has.

        A serial read completes first what Paxos has accepted.
        """
        return self.read_all([(statement, values)], serial=serial)[0]

    def read_all(self, requests: Sequence[Request], *, serial: bool = False) -> list[list[Row]]:
        """Returns the rows of each statement; many are sent at the same time."""
        found: list[list[Row]] = []
        for answer in self._run(requests, self._serial if serial else self._quorum, writes=False):
            if isinstance(answer, LochanError):
                raise answer
            found.append(answer)
        return found

    def write(self, statement: TableStatement, *values: Any) -> list[Row]:
        """Executes one conditional statement; the first column of its answer is `[applied]`."""
        (answer,) = self._run([(statement, values)], self._quorum, writes=True)
        if isinstance(answer, LochanError):
            raise answer
        return answer

    def write_all(self, requests: Sequence[Request]) -> list[list[Row] | LochanError]:
        """Executes statements in no order; after an error no further ones are sent."""
        return self._run(requests, self._quorum, writes=True)

    def write_batch(self, requests: Sequence[Request]) -> list[Row]:
        """Executes conditional statements on rows of one partition, all of them or none."""
        batch = BatchStatement(
            BatchType.UNLOGGED,
            consistency_level=self._quorum,
            serial_consistency_level=self._serial,
        )
        with self._call() as session:
            for statement, values in requests:
                batch.add(self._prepare(session, statement), values)
            answer = self._answer("batch", self._send(session, batch), writes=True)
        if isinstance(answer, LochanError):
            raise answer
        return answer

    def define(self, text: str, *values: str) -> list[Row]:
        """Reads or changes the schema; a change may be repeated."""
        statement = SimpleStatement(text, consistency_level=ConsistencyLevel.ONE)
        with self._call() as session:
            sent = session.execute_async(statement, values, timeout=SCHEMA_TIMEOUT_S)
            answer = self._answer("schema", sent, writes=False)
        if isinstance(answer, LochanError):
            raise answer
        return answer

    def nodes(self) -> dict[str, int]:
        """Returns how many nodes each datacenter has."""
        with self._call():
            found: dict[str, int] = {}
            for host in self._cluster.metadata.all_hosts():
                found[host.datacenter] = found.get(host.datacenter, 0) + 1
            return found

    def check_open(self) -> None:
        """Raises StoreClosed after `close`."""
        if self._closed:
            raise StoreClosed("the store was closed")

    def close(self) -> None:
        """Refuses new calls, waits for running ones, closes all connections; idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        for _ in range(self.address.calls):
            self._slots.acquire(timeout=CONNECT_TIMEOUT_S + REQUEST_TIMEOUT_S)
        if self._cluster is not None:
            self._cluster.shutdown()

    @contextmanager
    def _call(self) -> Iterator[Any]:
        """Waits for its turn and yields the session."""
        self.check_open()
        slots = self._slots
        if not slots.acquire(timeout=CALL_WAIT_S):
            raise Exhausted(f"{self.address.calls} calls of Cassandra are running")
        try:
            yield self._connected()
        finally:
            slots.release()

    def _run(
        self, requests: Sequence[Request], consistency: int, *, writes: bool
    ) -> list[list[Row] | LochanError]:
        answers: list[list[Row] | LochanError] = [
            Unavailable("not sent to Cassandra, because another request failed")
        ] * len(requests)
        with self._call() as session:
            flying: deque[tuple[int, Any]] = deque()
            failed = False

            def land() -> bool:
                at, sent = flying.popleft()
                answers[at] = answer = self._answer(requests[at][0].name, sent, writes=writes)
                return isinstance(answer, LochanError)

            for at, (statement, values) in enumerate(requests):
                if len(flying) == _WINDOW:
                    failed = land()
                if failed:
                    break
                bound = self._prepare(session, statement).bind(values)
                bound.consistency_level = consistency
                flying.append((at, self._send(session, bound)))
            while flying:
                land()
        return answers

    def _send(self, session: Any, statement: Any) -> Any:
        return session.execute_async(statement, timeout=REQUEST_TIMEOUT_S)

    def _answer(self, what: str, sent: Any, *, writes: bool) -> list[Row] | LochanError:
        """Waits for an answer; the driver ends the wait after the time-out of the request."""
        try:
            return list(sent.result())
        except DRIVER_ERRORS as error:
            return self._translated(what, error, writes=writes, sent=bool(sent.attempted_hosts))

    def _translated(self, what: str, error: Exception, *, writes: bool, sent: bool) -> LochanError:
        text = self.address.scrub(str(error))
        return translate(what, error, text, writes=writes, sent=sent)

    def _prepare(self, session: Any, statement: TableStatement) -> Any:
        prepared = self._prepared.get(statement)
        if prepared is None:
            names = f'"{self.address.keyspace}"."{self.address.table}"'
            try:
                prepared = session.prepare(statement.value.replace("KEYSPACE.TABLE", names))
            except DRIVER_ERRORS as error:
                raise self._translated("prepare", error, writes=False, sent=True) from None
            prepared.serial_consistency_level = self._serial
            prepared.fetch_size = None
            self._prepared[statement] = prepared
        return prepared

    def _connected(self) -> Any:
        session = self._session
        if session is None:
            with self._lock:
                self.check_open()
                if self._session is None:
                    self._connect()
                session = self._session
        return session

    def _connect(self) -> None:
        cluster = self._build()
        try:
            self._session = cluster.connect()
        except DRIVER_ERRORS as error:
            cluster.shutdown()
            raise self._translated("connect", error, writes=False, sent=False) from None
        self._cluster = cluster

    def _build(self) -> Any:
        address = self.address
        balancing = DCAwareRoundRobinPolicy(local_dc=address.datacenter or "")
        profile = driver.ExecutionProfile(
            load_balancing_policy=TokenAwarePolicy(balancing),
            retry_policy=FallthroughRetryPolicy(),
            consistency_level=self._quorum,
            serial_consistency_level=self._serial,
            request_timeout=REQUEST_TIMEOUT_S,
            row_factory=dict_factory,
        )
        login = None
        if address.user:
            login = PlainTextAuthProvider(address.user, address.password())
        return driver.Cluster(
            list(address.hosts),
            port=address.port,
            auth_provider=login,
            connect_timeout=CONNECT_TIMEOUT_S,
            control_connection_timeout=CONNECT_TIMEOUT_S,
            execution_profiles={driver.EXEC_PROFILE_DEFAULT: profile},
            idle_heartbeat_interval=HEARTBEAT_EVERY_S,
            idle_heartbeat_timeout=HEARTBEAT_TIMEOUT_S,
            # Both databases know it; the driver reads segments of version 5 wrongly (ADR-0054).
            protocol_version=ProtocolVersion.V4,
            reconnection_policy=ConstantReconnectionPolicy(RECONNECT_S, max_attempts=None),
            ssl_context=_tls(address),
        )


def _tls(address: CassandraAddress) -> ssl.SSLContext | None:
    if not address.tls:
        return None
    authorities, certificate, key = address.tls_files
    try:
        context = ssl.create_default_context(cafile=authorities)
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise InvalidUrl(f"a file for TLS cannot be used: {error}") from None
    return context
