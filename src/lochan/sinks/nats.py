"""Publishes each event to NATS: to a stream of JetStream, or to those that listen.

The subject is that of the settings, then the repository and the type, such as
`lochan.default.COMMIT`. Each message has the id of its event as `Nats-Msg-Id`, by which a stream
drops what comes again. An event counts as delivered when the stream has acknowledged it; without
JetStream when the server has answered after it.

The client of NATS works on an event loop of its own, in a thread that ends with the subscriber. It
is not left to reconnect by itself, because it would keep messages meanwhile and send them late: a
connection that is lost is made anew by the next attempt.

| what happens | reaction |
|---|---|
| acknowledged, also as a duplicate | delivered |
| no server, no answer, the stream is full or has no leader | tried again |
| the message is too large for the stream | this event is refused |
| no stream has the subject; credentials or permissions are refused | the receiver refuses |
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlsplit

import nats.aio.client
import nats.errors
import nats.js.errors

from lochan.base.errors import Invalid
from lochan.base.limits.events import BROKER_SERVERS_MAX, BROKER_TIMEOUT_MS
from lochan.events.options import read_options
from lochan.events.reactions import DeliveryFailed, EventRefused, ReceiverRefused
from lochan.events.subscribers import EventListener, Registrar
from lochan.model.events import Event
from lochan.sinks.brokers import (
    BrokerOptions,
    Message,
    check_options,
    check_plain,
    message_of,
    read_secret,
    tls_of,
)

MESSAGE_ID: Final = "Nats-Msg-Id"

_PREFIX: Final = "ce-"
_TIMEOUT_S: Final = BROKER_TIMEOUT_MS / 1_000
_TOO_LARGE: Final = 10_054
"""The number that JetStream has for a message which is larger than its stream allows."""

# As in headers of HTTP: what is printable stands for itself, but for these.
_PRINTABLE: Final = "".join(map(chr, range(0x21, 0x7F))).replace('"', "").replace("%", "")


class NatsOptions(BrokerOptions, frozen=True, kw_only=True):
    """The keys of the type `nats`."""

    servers: tuple[str, ...]
    subject: str = "lochan"
    jetstream: bool = True
    token_file: str = ""
    token_env: str = ""


class NatsSubscriber(EventListener):
    """Publishes events to one NATS."""

    def __init__(self, options: NatsOptions) -> None:
        _check(options)
        self._options = options
        self._client: nats.aio.client.Client | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._reported: Exception | None = None

    def register(self, registrar: Registrar) -> None:
        """Reads secrets and certificates, so that missing ones are reported at the start."""
        self._credentials()
        if self._is_encrypted():
            tls_of(self._options)
        registrar.subscribe(self)

    def on_event(self, event: Event) -> None:
        """Publishes one event; what it raises is the reaction."""
        message = message_of(event, self._options, _PREFIX)
        loop = self._running_loop()
        sent = asyncio.run_coroutine_threadsafe(self._publish(event, message), loop)
        sent.result()

    def close(self) -> None:
        """Closes the connection and ends the thread."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._disconnect(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._loop.run_forever, name="events-nats", daemon=True
            )
            self._thread.start()
        return self._loop

    async def _publish(self, event: Event, message: Message) -> None:
        self._take_report()
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                client = await self._connected()
                headers = {name: quote(text, _PRINTABLE) for name, text in message.headers.items()}
                headers[MESSAGE_ID] = event.id
                subject = subject_of(self._options.subject, event)
                if self._options.jetstream:
                    await client.jetstream(timeout=_TIMEOUT_S).publish(
                        subject, message.body, headers=headers
                    )
                else:
                    await client.publish(subject, message.body, headers=headers)
                    # The client writes its first question before a message that it still holds:
                    # only the answer to the second one comes after the message.
                    await client.flush(int(_TIMEOUT_S))
                    await client.flush(int(_TIMEOUT_S))
                    # A message that may not be sent is not answered, but reported before.
                    report = self._take_report()
                    if report is not None:
                        raise report
        except (OSError, TimeoutError, nats.errors.Error) as error:
            if not isinstance(error, nats.js.errors.APIError | nats.errors.MaxPayloadError):
                await self._disconnect()
            raise reaction_to(self._take_report() or error) from None

    async def _connected(self) -> nats.aio.client.Client:
        """Returns the connection, to the first server that answers."""
        if self._client is not None and self._client.is_connected:
            return self._client
        await self._disconnect()
        reason: Exception = nats.errors.NoServersError()
        chosen = self._credentials()
        tls = tls_of(self._options) if self._is_encrypted() else None
        for number, server in enumerate(self._options.servers):
            client = nats.aio.client.Client()
            share_s = _TIMEOUT_S / (len(self._options.servers) - number) / 2
            try:
                async with asyncio.timeout(share_s):
                    await client.connect(
                        server,
                        name=self._options.name,
                        error_cb=self._note,
                        allow_reconnect=False,
                        max_reconnect_attempts=1,
                        reconnect_time_wait=0,
                        tls=tls,
                        **chosen,
                    )
            except (OSError, TimeoutError, nats.errors.Error) as error:
                reason = error
                await client.close()
                continue
            self._client = client
            return client
        raise reason

    async def _note(self, error: Exception) -> None:
        """Keeps a report that a subject may not be used; all else is raised by the attempt."""
        if "permissions" in str(error).lower():
            self._reported = error

    def _take_report(self) -> Exception | None:
        report, self._reported = self._reported, None
        return report

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _credentials(self) -> dict[str, Any]:
        """Returns how this client shows who it is."""
        options = self._options
        password = read_secret(options.password_file, options.password_env, "password")
        if password is not None:
            return {"user": options.user, "password": password.reveal()}
        token = read_secret(options.token_file, options.token_env, "token")
        return {} if token is None else {"token": token.reveal()}

    def _is_encrypted(self) -> bool:
        return any(server.startswith("tls://") for server in self._options.servers)


def subject_of(prefix: str, event: Event) -> str:
    """Returns the subject of an event; what separates subjects is escaped in its parts."""
    repository = quote(event.repository, safe="").replace(".", "%2E")
    return f"{prefix}.{repository}.{event.type}"


def reaction_to(error: Exception) -> DeliveryFailed:
    """Returns what is to become of an event whose publication raised an error."""
    if isinstance(error, nats.errors.MaxPayloadError):
        return EventRefused("the server takes no message of this size; set 'bytes_max'")
    if isinstance(error, nats.js.errors.NoStreamResponseError):
        return ReceiverRefused("no stream has the subject; create one, or set jetstream = false")
    if isinstance(error, nats.js.errors.APIError):
        text = f"JetStream answered {error.code}, {error.err_code}"
        if error.err_code == _TOO_LARGE:
            return EventRefused(text)
        return DeliveryFailed(text)
    # Before a connection stands, the client has no type of its own for this.
    if isinstance(error, nats.errors.AuthorizationError) or "authorization" in str(error).lower():
        return ReceiverRefused("the server refuses the credentials, or asks for some")
    if "permissions" in str(error).lower():
        return ReceiverRefused("the user may not publish to the subject")
    if isinstance(error, TimeoutError):
        return DeliveryFailed("no answer in time")
    return DeliveryFailed(f"the server cannot be reached: {type(error).__name__}")


def _check(options: NatsOptions) -> None:
    check_options(options)
    if not 1 <= len(options.servers) <= BROKER_SERVERS_MAX:
        raise Invalid(f"the key 'servers': 1 to {BROKER_SERVERS_MAX} addresses")
    for server in options.servers:
        parts = urlsplit(server)
        if parts.scheme not in ("nats", "tls") or not parts.hostname or "@" in parts.netloc:
            raise Invalid(
                "the key 'servers': addresses such as tls://nats.example:4222, without a user"
            )
        if parts.scheme == "nats":
            check_plain(parts.hostname, options, "servers")
    if len({urlsplit(server).scheme for server in options.servers}) > 1:
        raise Invalid("the key 'servers': all of them with TLS, or none")
    words = options.subject.split(".")
    if not all(
        word.isascii() and word.replace("-", "").replace("_", "").isalnum() for word in words
    ):
        raise Invalid("the key 'subject': words of letters, digits, _ and -, joined by dots")
    if (options.token_file or options.token_env) and (options.user or not _is_one(options)):
        raise Invalid("name one of 'user', 'token_file' and 'token_env'")


def _is_one(options: NatsOptions) -> bool:
    return bool(options.token_file) != bool(options.token_env)


def open_nats(given: Mapping[str, Any]) -> NatsSubscriber:
    """The type `nats`."""
    return NatsSubscriber(read_options(given, NatsOptions))
