"""What subscribers for message brokers have in common: secrets, encryption, and the messages.

A message is a CloudEvent: in binary mode its attributes are headers and its body is the JSON of the
event; in structured mode both are one JSON object. Passwords and tokens come from a file or from
the environment, and are read at each connection, so that a new one needs no restart.
"""

from __future__ import annotations

import os
import ssl
from enum import Enum
from pathlib import Path

import msgspec

from lochan.base.errors import Invalid
from lochan.base.limits.events import BROKER_MESSAGE_BYTES_MAX, BROKER_SECRET_BYTES_MAX
from lochan.base.secrets import Secret
from lochan.events.observers import current_traceparent
from lochan.model.events import Event
from lochan.outbound.addresses import is_loopback_host
from lochan.sinks.cloud_events import CONTENT_TYPE, STRUCTURED, binary, structured


class MessageMode(Enum):
    """Where the attributes of a CloudEvent are."""

    BINARY = "binary"
    STRUCTURED = "structured"


class BrokerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The keys that subscribers for brokers have in common."""

    mode: MessageMode = MessageMode.BINARY
    source: str = ""
    name: str = "lochan"
    user: str = ""
    password_file: str = ""
    password_env: str = ""
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    allow_plain: bool = False
    bytes_max: int = BROKER_MESSAGE_BYTES_MAX


class Message(msgspec.Struct, frozen=True):
    """An event as a broker gets it; the names of attributes have the prefix of its protocol."""

    headers: dict[str, str]
    body: bytes


def message_of(event: Event, options: BrokerOptions, prefix: str) -> Message:
    """Returns the message of an event; EventRefused if it cannot be made small enough."""
    trace = current_traceparent()
    bytes_max = options.bytes_max
    if options.mode is MessageMode.STRUCTURED:
        body = structured(event, options.source, trace, bytes_max)
        return Message({"content-type": STRUCTURED}, body)
    attributes, body = binary(event, options.source, trace, bytes_max)
    headers = {"content-type": attributes.pop(CONTENT_TYPE)}
    return Message(headers | {prefix + name: text for name, text in attributes.items()}, body)


def check_options(options: BrokerOptions) -> None:
    """Raises Invalid if keys contradict each other."""
    if not 1_000 <= options.bytes_max <= BROKER_MESSAGE_BYTES_MAX:
        raise Invalid(f"the key 'bytes_max': from 1000 to {BROKER_MESSAGE_BYTES_MAX}")
    if options.password_file and options.password_env:
        raise Invalid("a password is in 'password_file' or in 'password_env', not in both")
    if bool(options.user) != bool(options.password_file or options.password_env):
        raise Invalid("'user' needs 'password_file' or 'password_env', and they need 'user'")
    if options.key_file and not options.certificate_file:
        raise Invalid("'key_file' is the key of 'certificate_file', which is missing")


def check_plain(host: str, options: BrokerOptions, key: str) -> None:
    """Refuses a connection without encryption to another machine, unless it is allowed."""
    if not (options.allow_plain or is_loopback_host(host)):
        raise Invalid(
            f"the key {key!r}: events would be sent without encryption; use TLS, or set "
            "'allow_plain' if the network is trusted"
        )


def read_secret(file: str, variable: str, what: str) -> Secret | None:
    """Returns a secret of a file or of the environment; None if neither is named."""
    if not (file or variable):
        return None
    if variable:
        text = os.environ.get(variable, "")
    else:
        try:
            with Path(file).open("rb") as opened:
                raw = opened.read(BROKER_SECRET_BYTES_MAX + 1)
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise Invalid(f"the file of the {what} cannot be read: {reason}") from None
        text = raw.decode("utf-8", "replace")
    text = text.strip()
    if not text or len(text) > BROKER_SECRET_BYTES_MAX:
        place = f"the variable {variable}" if variable else "the file"
        raise Invalid(f"{place} of the {what} is empty or too long")
    return Secret(text)


def tls_of(options: BrokerOptions) -> ssl.SSLContext:
    """Returns how certificates are verified, and the one that is shown, if there is one."""
    try:
        context = ssl.create_default_context(cafile=options.ca_file or None)
        if options.certificate_file:
            context.load_cert_chain(options.certificate_file, options.key_file or None)
    except (OSError, ssl.SSLError):
        raise Invalid(
            "the keys 'ca_file', 'certificate_file', 'key_file': not readable as PEM"
        ) from None
    return context
