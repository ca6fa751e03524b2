"""Webhook sinks that send to a receiver of the tests; nothing here is a test."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from lochan.events.reactions import DeliveryFailed
from lochan.events.subscribers import EventListener
from lochan.sinks.webhook import WebhookSubscriber, open_webhook
from tests.sinks.receiver import Receiver
from tests.sinks.samples import stored_event

SECRET = base64.b64encode(b"canary-secret-of-a-webhook-32b!!").decode()
OLD_SECRET = base64.b64encode(b"the-secret-of-before-32-bytes!!!").decode()


class NoRegistrar:
    """Takes a listener and does nothing with it."""

    def subscribe(self, listener: EventListener, *rest: Any) -> Any:
        return None


def webhook(receiver: Receiver, **given: Any) -> WebhookSubscriber:
    """A registered sink that sends to a receiver on loopback."""
    keys = {"url": receiver.url, "unsigned": True, "allow_addresses": ["127.0.0.0/8"], **given}
    sink = open_webhook({key: value for key, value in keys.items() if value is not None})
    sink.register(NoRegistrar())
    return sink


def impatient(receiver: Receiver, **given: Any) -> WebhookSubscriber:
    """The same with little time for an attempt."""
    sink = webhook(receiver, **given)
    sink._timeout_ms = 200
    return sink


def failure(sink: WebhookSubscriber) -> DeliveryFailed:
    """What an attempt raises."""
    with pytest.raises(DeliveryFailed) as raised:
        sink.on_event(stored_event())
    return raised.value
