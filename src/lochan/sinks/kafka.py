"""Publishes each event to a topic of Kafka.

The key of a message is the reference, `default/refs/heads/main`: all events of a reference are in
one partition, and so in their order. The producer is idempotent and waits for all replicas; an
event counts as delivered when the broker has acknowledged it. One message is under way at a time,
so that none overtakes another; what has not been acknowledged in time is taken back before it is
tried again. If it had arrived nevertheless, the message comes twice, with the same id.

| what happens | reaction |
|---|---|
| acknowledged | delivered |
| no broker, no answer in time, no leader, too few replicas | tried again |
| the message is too large or not valid for the topic | this event is refused |
| no such topic; credentials or permissions are refused | the receiver refuses |
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

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

_LOG: Final = logging.getLogger("lochan.events")

_PREFIX: Final = "ce_"
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

# The producer gives a message up by itself before the attempt ends.
_GRACE_S: Final = 2.0

_TIMED_OUT: Final = KafkaError._MSG_TIMED_OUT  # noqa: SLF001 - codes of the library begin so

_OF_THE_EVENT: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_MSG,
        KafkaError.POLICY_VIOLATION,
    }
)
_OF_THE_RECEIVER: Final = frozenset(
    {
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError._AUTHENTICATION,  # noqa: SLF001
    }
)


class KafkaOptions(BrokerOptions, frozen=True, kw_only=True):
    """The keys of the type `kafka`."""

    servers: tuple[str, ...]
    topic: str
    tls: bool = True
    mechanism: str = "SCRAM-SHA-512"


class KafkaSubscriber(EventListener):
    """Publishes events to one topic."""

    def __init__(self, options: KafkaOptions) -> None:
        _check(options)
        self._options = options
        self._producer: Producer | None = None
        self._results: list[KafkaError | None] = []
        self._reported: list[KafkaError] = []

    def register(self, registrar: Registrar) -> None:
        """Reads secrets and certificates, so that missing ones are reported at the start."""
        self._configuration()
        if self._options.tls:
            tls_of(self._options)
        registrar.subscribe(self)

    def on_event(self, event: Event) -> None:
        """Publishes one event; what it raises is the reaction."""
        message = message_of(event, self._options, _PREFIX)
        try:
            error = self._publish(key_of(event), message)
        except KafkaException as raised:
            error = raised.args[0]
        except Invalid as wrong:
            raise DeliveryFailed(wrong.message) from None
        if error is None:
            return
        known = {error.code(), *(one.code() for one in self._reported)}
        if error.fatal() or known & _OF_THE_RECEIVER:
            # The next attempt has new credentials, and a new identity.
            self._producer = None
        raise reaction_to(error, known)

    def close(self) -> None:
        """Lets the producer end; nothing is under way."""
        self._producer = None

    def _publish(self, key: bytes, message: Message) -> KafkaError | None:
        """Sends a message and waits for its acknowledgement; returns what went wrong."""
        self._results.clear()
        self._reported.clear()
        producer = self._producer
        if producer is None:
            producer = self._producer = Producer(self._configuration(), logger=_LOG)
        producer.produce(
            self._options.topic,
            value=message.body,
            key=key,
            headers=[(name, text.encode()) for name, text in message.headers.items()],
            on_delivery=self._delivered,
        )
        producer.flush(BROKER_TIMEOUT_MS / 1_000 + _GRACE_S)
        if not self._results:
            producer.purge()
            producer.flush(0)
        return self._results[-1] if self._results else KafkaError(_TIMED_OUT)

    def _delivered(self, error: KafkaError | None, message: object) -> None:  # noqa: ARG002
        self._results.append(error)

    def _note(self, error: KafkaError) -> None:
        """Keeps what is wrong with all brokers, such as that credentials are refused."""
        if error.code() in _OF_THE_RECEIVER:
            self._reported.append(error)

    def _configuration(self) -> dict[str, Any]:
        """Returns the settings of the library; the password is read anew."""
        options = self._options
        found: dict[str, Any] = {
            "bootstrap.servers": ",".join(options.servers),
            "client.id": options.name,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 0,
            "message.timeout.ms": BROKER_TIMEOUT_MS,
            "socket.timeout.ms": BROKER_TIMEOUT_MS,
            "reconnect.backoff.max.ms": 1_000,
            # A topic that was just made is known to all brokers by then.
            "topic.metadata.propagation.max.ms": 2_000,
            "message.max.bytes": options.bytes_max + 100_000,
            "error_cb": self._note,
        }
        password = read_secret(options.password_file, options.password_env, "password")
        protocol = "ssl" if options.tls else "plaintext"
        if password is not None:
            protocol = f"sasl_{protocol}"
            found["sasl.mechanism"] = options.mechanism
            found["sasl.username"] = options.user
            found["sasl.password"] = password.reveal()
        found["security.protocol"] = protocol
        files = {
            "ssl.ca.location": options.ca_file,
            "ssl.certificate.location": options.certificate_file,
            "ssl.key.location": options.key_file,
        }
        return found | {name: path for name, path in files.items() if path and options.tls}


def key_of(event: Event) -> bytes:
    """Returns the key of an event: its repository and its reference."""
    return f"{event.repository}{event.reference.full_name}".encode()


def reaction_to(error: KafkaError, known: set[int]) -> DeliveryFailed:
    """Returns what is to become of an event; `known` are codes of all that went wrong."""
    if error.code() in _OF_THE_EVENT:
        return EventRefused(f"the broker refuses the message: {error.name()}")
    refused = sorted(known & _OF_THE_RECEIVER)
    if refused:
        return ReceiverRefused(f"the broker refuses: {KafkaError(refused[0]).name()}")
    return DeliveryFailed(f"the broker has not acknowledged it: {error.name()}")


def _check(options: KafkaOptions) -> None:
    check_options(options)
    if not 1 <= len(options.servers) <= BROKER_SERVERS_MAX:
        raise Invalid(f"the key 'servers': 1 to {BROKER_SERVERS_MAX} addresses HOST:PORT")
    for server in options.servers:
        host, _, port = server.rpartition(":")
        if not host or not port.isdigit() or "," in server or "/" in server or "@" in server:
            raise Invalid("the key 'servers': addresses HOST:PORT, such as kafka.example:9093")
        if not options.tls:
            check_plain(host.strip("[]"), options, "tls")
    if not options.topic:
        raise Invalid("the key 'topic': it is empty")
    if options.mechanism not in _MECHANISMS:
        raise Invalid(f"the key 'mechanism': one of {', '.join(_MECHANISMS)}")


def open_kafka(given: Mapping[str, Any]) -> KafkaSubscriber:
    """The type `kafka`."""
    return KafkaSubscriber(read_options(given, KafkaOptions))
