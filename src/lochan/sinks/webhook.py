"""Sends each event to an address over HTTP: a CloudEvent in structured mode, signed.

One attempt has five seconds in all. It looks the host up once and connects to exactly the address
that it checked, so a name that changes meanwhile leads nowhere else. Addresses that do not belong
to the public internet are refused unless the operator allows their network. Redirects are not
followed, certificates are verified, and nothing of an answer is used but its status and the header
`Retry-After`.

| answer | reaction |
|---|---|
| 2xx | delivered |
| 408, 425, 429, 5xx, no answer | tried again; `Retry-After` is kept to, up to a minute |
| 400, 413, 414, 415, 422, 431 | this event is refused: no other attempt |
| 3xx, every other 4xx | the receiver refuses, whatever the event is: no other attempt |
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec

from lochan.base.errors import Invalid
from lochan.base.limits.events import (
    WEBHOOK_ADDRESSES_MAX,
    WEBHOOK_BODY_BYTES_MAX,
    WEBHOOK_TIMEOUT_MS,
    WEBHOOK_URL_CHARACTERS_MAX,
)
from lochan.base.secrets import MASK
from lochan.events.observers import current_traceparent
from lochan.events.options import read_options
from lochan.events.reactions import DeliveryFailed, EventRefused, ReceiverRefused, RetryLater
from lochan.events.subscribers import EventListener, Registrar
from lochan.model.events import Event
from lochan.outbound.addresses import (
    LookUp,
    Network,
    is_loopback_host,
    is_public,
    look_up,
    parse_address,
)
from lochan.outbound.lookups import HostLookUp
from lochan.outbound.post import Answer, Deadline, connect, exchange, request_bytes
from lochan.sinks.cloud_events import STRUCTURED, structured
from lochan.sinks.signatures import (
    ReadSecrets,
    secrets_of_environment,
    secrets_of_file,
    signature_headers,
)

_PORTS: Final = {"https": 443, "http": 80}
_AGAIN: Final = frozenset({408, 425, 429})
_OF_THE_EVENT: Final = frozenset({400, 413, 414, 415, 422, 431})


class WebhookOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of the type `webhook`."""

    url: str
    secret_file: str = ""
    secret_env: str = ""
    unsigned: bool = False
    allow_addresses: tuple[str, ...] = ()
    allow_http: bool = False
    ca_file: str = ""
    source: str = ""

    def __repr__(self) -> str:
        # The path and the query of an address are often a token.
        return f"WebhookOptions(url={MASK})"


class WebhookSubscriber(EventListener):
    """Sends events to one receiver."""

    def __init__(
        self,
        options: WebhookOptions,
        *,
        ask: LookUp = look_up,
        timeout_ms: int = WEBHOOK_TIMEOUT_MS,
    ) -> None:
        self._url = _checked_url(options)
        self._port = self._url.port or _PORTS[self._url.scheme]
        self._allowed = _networks(options.allow_addresses)
        self._read_secrets = _secrets_of(options)
        self._options = options
        self._timeout_ms = timeout_ms
        self._look_up = HostLookUp(ask, self._url.host, self._port)
        self._tls: ssl.SSLContext | None = None

    def register(self, registrar: Registrar) -> None:
        """Reads secrets and certificates, so that missing ones are reported at the start."""
        self._read_secrets()
        if self._url.scheme == "https":
            self._tls = _tls_of(self._options)
        registrar.subscribe(self)

    def on_event(self, event: Event) -> None:
        """Sends one event; what it raises is the reaction."""
        trace = current_traceparent()
        body = structured(event, self._options.source, trace, WEBHOOK_BODY_BYTES_MAX)
        try:
            secrets = self._read_secrets()
        except Invalid as error:
            raise DeliveryFailed(error.message) from None
        headers = signature_headers(secrets, event.id, int(time.time()), body)
        headers["content-type"] = STRUCTURED
        if trace:
            headers["traceparent"] = trace
        path = self._url.raw_path.decode("ascii")
        request = request_bytes(path, self._url.netloc.decode("ascii"), headers, body)
        react(self._send(request))

    def _send(self, request: bytes) -> Answer:
        """Sends a request to the first address that can be connected to; one deadline for all."""
        deadline = Deadline(self._timeout_ms)
        addresses = self._addresses(deadline)
        host = self._url.raw_host.decode("ascii")
        reason: Exception = OSError("no address")
        try:
            for number, address in enumerate(addresses):
                share_ms = deadline.left_s() * 1_000 / (len(addresses) - number)
                try:
                    connection = connect(address, self._port, host, self._tls, Deadline(share_ms))
                except OSError as error:
                    reason = error
                    continue
                return exchange(connection, request, deadline)
        except OSError as error:
            reason = error
        raise DeliveryFailed(_text_of(reason)) from None

    def _addresses(self, deadline: Deadline) -> list[str]:
        """Looks the host up, once; only addresses that are allowed are returned."""
        try:
            found = self._look_up.find(deadline.left_s())
        except OSError as error:
            text = f"the host {self._url.host!r} cannot be resolved: {_text_of(error)}"
            raise DeliveryFailed(text) from None
        allowed = [address for address in found if self._is_allowed(address)]
        if not allowed:
            raise DeliveryFailed(
                f"the host {self._url.host!r} resolves to {', '.join(found[:3])}, which is not of "
                "the public internet; if that is right, name its network in 'allow_addresses'"
            )
        return allowed[:WEBHOOK_ADDRESSES_MAX]

    def _is_allowed(self, text: str) -> bool:
        address = parse_address(text)
        return is_public(address) or any(address in network for network in self._allowed)


def react(answer: Answer) -> None:
    """Returns if the event was taken; else raises what is to become of it."""
    status = answer.status
    if 200 <= status < 300:
        return
    text = f"the receiver answered {status}"
    if status in _AGAIN or status >= 500:
        after_ms = _retry_after_ms(answer.retry_after)
        raise RetryLater(text, after_ms) if after_ms else DeliveryFailed(text)
    if status in _OF_THE_EVENT:
        raise EventRefused(text)
    if status < 400:
        text += "; redirects are not followed: set the address that it leads to"
    raise ReceiverRefused(text)


def _retry_after_ms(text: str) -> float:
    """Reads seconds or a date; 0 if it is neither."""
    if text.isascii() and text.isdigit():
        # A number of many digits would take long to read; nine are thirty years.
        return float(text[:9]) * 1_000
    try:
        return max(0.0, (parsedate_to_datetime(text).timestamp() - time.time()) * 1_000)
    except (ValueError, OverflowError):
        return 0.0


def _text_of(error: Exception) -> str:
    """Returns a short reason, without addresses of this machine."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _checked_url(options: WebhookOptions) -> httpx.URL:
    """Checks the address of a receiver; the message never repeats it, as it may hold a token."""
    if len(options.url) > WEBHOOK_URL_CHARACTERS_MAX:
        raise Invalid(f"the key 'url': more than {WEBHOOK_URL_CHARACTERS_MAX} characters")
    try:
        url = httpx.URL(options.url)
    except httpx.InvalidURL:
        raise Invalid("the key 'url': it is no URL") from None
    if url.scheme not in _PORTS or not url.host or url.userinfo or url.fragment:
        raise Invalid("the key 'url': it begins with https:// and has a host, but no user")
    if url.scheme == "http" and not (options.allow_http or is_loopback_host(url.host)):
        raise Invalid(
            "the key 'url': events would be sent without encryption; use https://, or set "
            "'allow_http' if the network is trusted"
        )
    return url


def _networks(texts: tuple[str, ...]) -> list[Network]:
    try:
        return [ip_network(text) for text in texts]
    except ValueError:
        raise Invalid(
            "the key 'allow_addresses': a list of addresses and networks such as "
            "'127.0.0.1' and '10.1.0.0/16'"
        ) from None


def _secrets_of(options: WebhookOptions) -> ReadSecrets:
    chosen = [bool(options.secret_file), bool(options.secret_env), options.unsigned]
    if sum(chosen) != 1:
        raise Invalid(
            "name the secret that signs requests in 'secret_file' or in 'secret_env', "
            "or set 'unsigned': exactly one of the three"
        )
    if options.secret_file:
        return secrets_of_file(Path(options.secret_file))
    if options.secret_env:
        return secrets_of_environment(options.secret_env)
    return lambda: ()


def _tls_of(options: WebhookOptions) -> ssl.SSLContext:
    """Returns how certificates are verified: by the authorities of the machine, or of a file."""
    try:
        return ssl.create_default_context(cafile=options.ca_file or None)
    except (OSError, ssl.SSLError):
        raise Invalid("the key 'ca_file': it cannot be read as certificates in PEM") from None


def open_webhook(given: Mapping[str, Any]) -> WebhookSubscriber:
    """The type `webhook`."""
    return WebhookSubscriber(read_options(given, WebhookOptions))
