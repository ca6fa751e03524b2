"""The connection to DynamoDB: a bounded number of requests at a time, each sent once.

botocore's own retries are off. A request that was refused because of the table's throughput, or
because another transaction had its rows, was not done, so it is sent again after a random sleep
that doubles, up to a bound (`Backoff`), and is then Exhausted.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import cache
from threading import BoundedSemaphore, Lock
from typing import Any, Final

from lochan.aws import check_answers
from lochan.base.errors import Exhausted, StoreClosed
from lochan.process import after_fork, never_destroy
from lochan.stores.dynamodb.address import DynamoAddress
from lochan.stores.dynamodb.failures import THROTTLED, code_of, no_answer, refusal

Answer = dict[str, Any]
"""What botocore makes of an answer; one with the field `Error` is a refusal."""

CONNECT_TIMEOUT_S: Final = 3.0

# DynamoDB answers in milliseconds, a large transaction in a second.
READ_TIMEOUT_S: Final = 10.0

# Time for several requests of each earlier caller; after that an error is better than waiting.
CONNECTION_WAIT_S: Final = 5.0

# Seven sleeps of up to 20 ms, 40 ms and so on: about a second and a half in the mean. The burst
# capacity of a table is filled again within a second.
ATTEMPTS_MAX: Final = 8
_SLEEP_FIRST_S: Final = 0.02
_SLEEP_MAX_S: Final = 1.0

_NONE: Final[frozenset[str]] = frozenset()


class Backoff:
    """Counts the attempts of one request and sleeps between them."""

    def __init__(self, sleep: Callable[[float], None]) -> None:
        self._sleep = sleep
        self._longest_s = _SLEEP_FIRST_S
        self._attempts = 1

    def again(self, reason: str) -> None:
        """Returns when the next attempt may begin; Exhausted if there is none."""
        if self._attempts == ATTEMPTS_MAX:
            raise Exhausted(f"DynamoDB refused a request {ATTEMPTS_MAX} times: {reason}")
        self._attempts += 1
        # Callers that were refused together must not come back together.
        self._sleep(random.uniform(0, self._longest_s))  # noqa: S311 - no secret
        self._longest_s = min(self._longest_s * 2, _SLEEP_MAX_S)


@cache
def _descriptions() -> Any:
    """Returns botocore's description of DynamoDB, which is read once: that takes long."""
    from botocore.loaders import create_loader

    return create_loader()


class DynamoClient:
    """Sends requests; the only owner of botocore's client."""

    def __init__(self, address: DynamoAddress, sleep: Callable[[float], None] = time.sleep) -> None:
        self._address = address
        self._sleep = sleep
        self.table = address.table
        """The name of the table."""
        self._closed = False
        self._client: Any = None
        self._begin()
        after_fork(self, DynamoClient._forked)

    def _begin(self) -> None:
        self._lock = Lock()
        self._slots = BoundedSemaphore(self._address.connections)

    def _forked(self) -> None:
        """Opens connections of its own in a child, which has given up those of the parent."""
        if self._client is not None:
            never_destroy(self._client)
        self._client = None
        self._begin()

    def read(self, operation: str, expected: frozenset[str] = _NONE, **arguments: Any) -> Answer:
        """Sends a request that changes nothing; a code in `expected` is returned, not raised."""
        return self._call(operation, expected, arguments, writes=False)

    def write(self, operation: str, expected: frozenset[str] = _NONE, **arguments: Any) -> Answer:
        """Sends a request that changes something; as `read`, but a lost answer is Unknown."""
        return self._call(operation, expected, arguments, writes=True)

    def backoff(self) -> Backoff:
        """Returns the attempts of one request."""
        return Backoff(self._sleep)

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
            self._slots.acquire(timeout=READ_TIMEOUT_S + CONNECT_TIMEOUT_S)
        if self._client is not None:
            self._client.close()

    def _call(
        self, operation: str, expected: frozenset[str], arguments: Answer, *, writes: bool
    ) -> Answer:
        backoff = self.backoff()
        while True:
            answer = self._send(operation, arguments, writes=writes)
            if "Error" not in answer:
                return answer
            code = code_of(answer)
            if code in expected:
                return answer
            if code not in THROTTLED:
                raise refusal(operation, answer, writes=writes)
            backoff.again(code)

    def _send(self, operation: str, arguments: Answer, *, writes: bool) -> Answer:
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError

        answer: Answer
        self.check_open()
        slots = self._slots
        if not slots.acquire(timeout=CONNECTION_WAIT_S):
            raise Exhausted(f"all {self._address.connections} connections to DynamoDB are in use")
        try:
            # A profile that does not exist is noticed here.
            answer = getattr(self._connected(), operation)(**arguments)
        except ClientError as error:
            answer = error.response
        except (BotoCoreError, ResponseParserError) as error:
            raise no_answer(operation, error, writes=writes) from error
        finally:
            slots.release()
        return answer

    def _connected(self) -> Any:
        client = self._client
        if client is None:
            with self._lock:
                self.check_open()
                if self._client is None:
                    self._client = self._build()
                client = self._client
        return client

    def _build(self) -> Any:
        from botocore.config import Config
        from botocore.session import Session

        address = self._address
        config = Config(
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=READ_TIMEOUT_S,
            max_pool_connections=address.connections,
            retries={"mode": "standard", "total_max_attempts": 1},
            # Arguments are ours and well formed; checking them takes a third of a request.
            parameter_validation=False,
            tcp_keepalive=True,
            user_agent_extra="lochan",
        )
        session = Session(profile=address.profile)
        session.register_component("data_loader", _descriptions())
        client = session.create_client(
            "dynamodb", region_name=address.region, endpoint_url=address.endpoint, config=config
        )
        check_answers(client)
        return client
