"""Addresses of webhooks: which are refused, and that only those that were checked are used."""

from __future__ import annotations

import pytest

from lochan.base.errors import Invalid
from lochan.sinks.webhook import WebhookSubscriber, open_webhook
from tests.sinks.receiver import receiving
from tests.sinks.samples import stored_event
from tests.sinks.webhooks import NoRegistrar, failure, webhook

NOT_PUBLIC = [
    "127.0.0.1",
    "127.9.9.9",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.169.254",
    "168.63.129.16",
    "100.100.100.200",
    "192.0.0.192",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "fe80::1",
    "fe80::1%lo",
    "fc00::1",
    "fd00:ec2::254",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:10.0.0.1",
    "2002:7f00:1::",
    "2002:a00:1::",
    "64:ff9b::7f00:1",
    "64:ff9b:1::a00:1",
]


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_an_address_that_is_not_public_is_refused_before_anything_is_sent(address):
    asked: list[str] = []

    def ask(host: str, port: int) -> list[str]:
        asked.append(host)
        return [address]

    options = open_webhook({"url": "https://hooks.example/", "unsigned": True})._options
    sink = WebhookSubscriber(options, ask=ask)
    sink.register(NoRegistrar())
    assert "not of the public internet" in str(failure(sink))
    assert asked == ["hooks.example"]


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "0177.0.0.1", "127.1", "[::1]"])
def test_other_forms_of_loopback_are_refused_too(host):
    try:
        sink = open_webhook({"url": f"https://{host}/", "unsigned": True})
    except Invalid:
        return
    sink.register(NoRegistrar())
    text = str(failure(sink))
    assert "not of the public internet" in text or "cannot be resolved" in text


def test_a_name_that_changes_between_look_ups_leads_to_no_address_that_was_not_checked():
    """The resolver answers with an allowed address first, and with others afterwards."""
    with receiving() as receiver:
        answers = [["127.0.0.1"], ["169.254.169.254"], ["10.0.0.1", "::1", "127.0.0.1"], []]

        def ask(host: str, port: int) -> list[str]:
            return answers.pop(0)

        sink = WebhookSubscriber(webhook(receiver)._options, ask=ask)
        sink.register(NoRegistrar())
        sink.on_event(stored_event())
        assert len(answers) == 3, "one look-up for an attempt"
        assert "169.254.169.254" in str(failure(sink))
        sink.on_event(stored_event())
        assert "has no address" in str(failure(sink))
    assert len(receiver.requests) == 2


def test_a_name_server_that_does_not_answer_is_left_in_time_and_asked_once():
    with receiving() as receiver:
        asked: list[str] = []

        def ask(host: str, port: int) -> list[str]:
            asked.append(host)
            receiver.ended.wait(0.6)
            return ["127.0.0.1"]

        sink = WebhookSubscriber(webhook(receiver)._options, ask=ask, timeout_ms=50)
        sink.register(NoRegistrar())
        assert "name server does not answer" in str(failure(sink))
        assert "name server does not answer" in str(failure(sink))
        sink._timeout_ms = 5_000
        sink.on_event(stored_event())
    assert (len(asked), len(receiver.requests)) == (1, 1)


def test_an_address_that_does_not_answer_leaves_time_for_the_next():
    with receiving() as receiver:
        sink = WebhookSubscriber(
            webhook(receiver)._options, ask=lambda host, port: ["127.0.0.3", "127.0.0.1"]
        )
        sink.register(NoRegistrar())
        sink.on_event(stored_event())
