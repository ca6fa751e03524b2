"""The connection to S3: a bounded number of requests at a time, time-outs, retries, errors.

botocore is imported when the first request is sent, so that all other places work without it. Two
clients differ in one thing: requests that may be repeated without a second effect are retried,
those that may not (`once`) are sent a single time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import BoundedSemaphore, Lock
from typing import Any, Final

from lochan.base.errors import Exhausted, StoreClosed
from lochan.base.limits.blocks import (
    S3_ATTEMPTS_MAX,
    S3_CONNECT_TIMEOUT_S,
    S3_CONNECTION_WAIT_S,
    S3_READ_TIMEOUT_S,
)
from lochan.base.secrets import Secret
from lochan.blocks.s3.address import S3Address
from lochan.blocks.s3.failures import error_code, no_answer, refusal
from lochan.process import after_fork, never_destroy

Answer = dict[str, Any]
"""What botocore makes of an answer."""

_NONE: Final[frozenset[str]] = frozenset()


@cache
def _descriptions() -> Any:
    """Returns botocore's description of S3, which is read once: that takes long."""
    from botocore.loaders import create_loader

    return create_loader()


class S3Client:
    """Sends requests; the only owner of botocore's clients."""

    def __init__(self, address: S3Address, access_key: str, secret_key: Secret | None) -> None:
        self._address = address
        self._access_key = access_key
        self._secret_key = secret_key
        self._closed = False
        self._begin()
        after_fork(self, S3Client._forked)

    def _begin(self) -> None:
        self._lock = Lock()
        self._slots = BoundedSemaphore(self._address.connections)
        self._clients: dict[bool, Any] = {}

    def _forked(self) -> None:
        """Opens connections of its own in a child, which has given up those of the parent."""
        for client in self._clients.values():
            never_destroy(client)
        self._begin()

    def call(
        self,
        operation: str,
        *,
        absent: frozenset[str] = _NONE,
        once: bool = False,
        in_doubt: bool = False,
        **arguments: Any,
    ) -> Answer | None:
        """Sends one request; None if it is refused with one of the codes in `absent`.

        `in_doubt` makes a lost answer Unknown instead of Unavailable.
        """
        with self.slot():
            return self.call_in_slot(
                operation, absent=absent, once=once, in_doubt=in_doubt, **arguments
            )

    def call_in_slot(
        self,
        operation: str,
        *,
        absent: frozenset[str] = _NONE,
        once: bool = False,
        in_doubt: bool = False,
        **arguments: Any,
    ) -> Answer | None:
        """As `call`, for a caller that has a slot."""
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError

        try:
            # A profile that does not exist is noticed here.
            answer: Answer = getattr(self._client(once), operation)(**arguments)
        except ClientError as error:
            if error_code(error.response) in absent:
                return None
            raise refusal(operation, error.response, in_doubt=in_doubt) from error
        except (BotoCoreError, ResponseParserError) as error:
            raise no_answer(operation, error, in_doubt=in_doubt) from error
        return answer

    def presign(self, operation: str, lifetime_s: int, **arguments: Any) -> str:
        """Returns a signed URL; sends nothing, but may look for credentials."""
        from botocore.exceptions import BotoCoreError

        try:
            url: str = self._client(once=False).generate_presigned_url(
                operation, Params=arguments, ExpiresIn=lifetime_s
            )
        except BotoCoreError as error:
            raise no_answer(operation, error, in_doubt=False) from error
        return url

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Holds one of the places for requests."""
        release = self.take_slot()
        try:
            yield
        finally:
            release.release()

    def take_slot(self) -> BoundedSemaphore:
        """Takes one of the places for requests; the caller releases what is returned, once."""
        self.check_open()
        slots = self._slots
        if not slots.acquire(timeout=S3_CONNECTION_WAIT_S):
            raise Exhausted(f"all {self._address.connections} connections to S3 are in use")
        return slots

    def close(self) -> None:
        """Closes all connections; idempotent."""
        with self._lock:
            self._closed = True
            clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()

    def check_open(self) -> None:
        """Raises StoreClosed after `close`."""
        if self._closed:
            raise StoreClosed("this place for object data was closed")

    def _client(self, once: bool) -> Any:
        client = self._clients.get(once)
        if client is None:
            with self._lock:
                self.check_open()
                if once not in self._clients:
                    self._clients[once] = self._build(once)
                client = self._clients[once]
        return client

    def _build(self, once: bool) -> Any:
        from botocore.config import Config
        from botocore.session import Session

        from lochan.aws import check_answers

        address = self._address
        config = Config(
            signature_version="s3v4",
            connect_timeout=S3_CONNECT_TIMEOUT_S,
            read_timeout=S3_READ_TIMEOUT_S,
            max_pool_connections=address.connections,
            retries={"mode": "standard", "total_max_attempts": 1 if once else S3_ATTEMPTS_MAX},
            s3={"addressing_style": "path" if address.path_style else "auto"},
            # Its own checksums are not understood by every server; we send Content-MD5.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            tcp_keepalive=True,
            user_agent_extra="lochan",
        )
        secret = None if self._secret_key is None else self._secret_key.reveal()
        session = Session(profile=address.profile)
        session.register_component("data_loader", _descriptions())
        client = session.create_client(
            "s3",
            region_name=address.region,
            endpoint_url=address.endpoint,
            aws_access_key_id=self._access_key or None,
            aws_secret_access_key=secret,
            config=config,
        )
        check_answers(client)
        return client
