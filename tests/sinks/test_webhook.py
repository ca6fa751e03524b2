"""Webhooks: what is sent, to which addresses, and what each answer does."""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import socket
import ssl
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lochan.base.errors import Invalid
from lochan.base.limits.events import (
    EVENT_RETRY_AFTER_MS_MAX,
    WEBHOOK_ANSWER_BYTES_MAX,
    WEBHOOK_BODY_BYTES_MAX,
    WEBHOOK_HEAD_BYTES_MAX,
)
from lochan.embedded import open_repository
from lochan.events.observers import TRACEPARENT
from lochan.events.reactions import DeliveryFailed, EventRefused, ReceiverRefused, RetryLater
from lochan.events.subscribers import SubscriptionState
from lochan.model.commits import Put
from lochan.sinks.signatures import parse_secrets, signature_headers
from lochan.sinks.webhook import WebhookSubscriber, open_webhook
from tests.events.collector import Collector
from tests.events.test_delivery import Bench, commits_only
from tests.service.bench import table
from tests.sinks.receiver import Reply, following, receiving, reply_of, reset
from tests.sinks.samples import commit_event, stored_event
from tests.sinks.webhooks import OLD_SECRET, SECRET, NoRegistrar, failure, impatient, webhook
from tests.transport.certificates import CertificateFiles


def test_an_event_is_sent_as_a_cloud_event():
    with receiving() as receiver:
        sink = webhook(receiver, source="https://lake.example/")
        token = TRACEPARENT.set("00-" + "1" * 32 + "-" + "2" * 16 + "-01")
        sink.on_event(stored_event(repository="sales & co"))
        TRACEPARENT.reset(token)
        sink.on_event(stored_event())
    traced, plain = receiver.requests
    assert traced.line == "POST /hook?a=b HTTP/1.1"
    assert traced.headers["host"] == f"localhost:{receiver.port}"
    assert traced.headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    assert traced.headers["traceparent"] == traced.event["traceparent"]
    data = traced.event.pop("data")
    assert traced.event == {
        "specversion": "1.0",
        "id": "0e8f4d7c-1111-5222-8333-000000000001",
        "source": "https://lake.example/r/sales%20%26%20co",
        "type": "dev.lochan.CONTENT_STORED",
        "subject": "main",
        "time": "2023-11-14T22:13:20.123457Z",
        "datacontenttype": "application/json",
        "traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01",
        "data": data,
    }
    assert data["content"]["metadataLocation"] == "s3://x"
    assert "traceparent" not in plain.event
    assert "traceparent" not in plain.headers


def test_a_large_event_is_sent_with_less_in_it():
    with receiving() as receiver:
        webhook(receiver).on_event(commit_event(3_000))
    [request] = receiver.requests
    data = request.event["data"]
    assert WEBHOOK_BODY_BYTES_MAX - 100 <= len(request.body) <= WEBHOOK_BODY_BYTES_MAX
    assert len(data["operations"]) + data["operationsLeftOut"] == 3_000


def _is_genuine(headers: dict[str, str], body: bytes, secret: str) -> bool:
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    mac = hmac.new(base64.b64decode(secret), signed, hashlib.sha256).digest()
    wanted = f"v1,{base64.b64encode(mac).decode()}"
    return wanted in headers["webhook-signature"].split()


def test_a_request_is_signed_by_every_secret_at_the_moment(tmp_path, monkeypatch):
    file = tmp_path / "secrets"
    file.write_text(f"# since May\nwhsec_{SECRET}\n{OLD_SECRET}\n")
    with receiving() as receiver:
        sink = webhook(receiver, unsigned=None, secret_file=str(file))
        sink.on_event(stored_event())
        file.write_text(SECRET)
        sink.on_event(stored_event())
        monkeypatch.setenv("HOOK_SECRET", SECRET)
        webhook(receiver, unsigned=None, secret_env="HOOK_SECRET").on_event(stored_event())
        webhook(receiver).on_event(stored_event())
    both, new, environment, unsigned = receiver.requests
    for request in (both, new, environment):
        assert _is_genuine(request.headers, request.body, SECRET)
        assert not _is_genuine(request.headers, request.body + b" ", SECRET)
        assert request.headers["webhook-id"] == request.event["id"]
        assert abs(int(request.headers["webhook-timestamp"]) - time.time()) < 300
    assert _is_genuine(both.headers, both.body, OLD_SECRET)
    assert not _is_genuine(new.headers, new.body, OLD_SECRET)
    assert "webhook-signature" not in unsigned.headers


def test_a_receiver_verifies_a_request_as_the_documentation_shows():
    page = (Path(__file__).parents[2] / "docs/events.md").read_text("utf-8")
    names: dict[str, Any] = {}
    exec(page[page.index("import base64, hmac") :].split("```")[0], names)
    is_genuine = names["is_genuine"]
    body = b'{"id": "x"}'
    secrets = parse_secrets(f"{OLD_SECRET} {SECRET}", "the test")
    headers = signature_headers(secrets, "x", int(time.time()), body)
    assert is_genuine(headers, body, SECRET)
    assert is_genuine(headers, body, OLD_SECRET)
    assert not is_genuine(headers, body + b" ", SECRET)
    assert not is_genuine(headers, body, base64.b64encode(bytes(32)).decode())
    old = signature_headers(secrets, "x", int(time.time()) - 1_000, body)
    assert not is_genuine(old, body, SECRET)


@pytest.mark.parametrize(
    ("status", "reaction", "named"),
    [
        ("400 Bad Request", EventRefused, "400"),
        ("413 Too Large", EventRefused, "413"),
        ("415 Unsupported", EventRefused, "415"),
        ("422 Unprocessable", EventRefused, "422"),
        ("401 Unauthorized", ReceiverRefused, "401"),
        ("403 Forbidden", ReceiverRefused, "403"),
        ("404 Not Found", ReceiverRefused, "404"),
        ("410 Gone", ReceiverRefused, "410"),
        ("301 Moved", ReceiverRefused, "redirects are not followed"),
        ("307 Temporary", ReceiverRefused, "redirects are not followed"),
        ("408 Timeout", DeliveryFailed, "408"),
        ("429 Too Many", DeliveryFailed, "429"),
        ("500 Error", DeliveryFailed, "500"),
        ("503 Unavailable", DeliveryFailed, "503"),
    ],
)
def test_each_status_has_its_reaction(status, reaction, named):
    with receiving() as receiver:
        elsewhere = f"location: http://localhost:{receiver.port}/elsewhere"
        receiver.reply = reply_of(status, elsewhere, body=b"the body of the answer")
        raised = failure(webhook(receiver))
    assert type(raised) is reaction
    assert named in str(raised)
    assert "body of the answer" not in str(raised)
    assert len(receiver.requests) == 1


@pytest.mark.parametrize("status", ["200 OK", "201 Created", "202 Accepted", "204 No Content"])
def test_every_2xx_is_a_delivery(status):
    with receiving() as receiver:
        receiver.reply = reply_of(status)
        webhook(receiver).on_event(stored_event())


def test_an_interim_answer_is_not_the_answer():
    with receiving() as receiver:
        receiver.reply = lambda connection: connection.sendall(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
            b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
        )
        assert isinstance(failure(webhook(receiver)), ReceiverRefused)


def _in(seconds: int) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        (lambda: "7", 7_000),
        (lambda: "86400", EVENT_RETRY_AFTER_MS_MAX),
        (lambda: "9" * 5_000, EVENT_RETRY_AFTER_MS_MAX),
        (lambda: _in(3_600), EVENT_RETRY_AFTER_MS_MAX),
        (lambda: _in(-60), 0),
        (lambda: "-5", 0),
        (lambda: "soon", 0),
        (lambda: "", 0),
    ],
)
def test_retry_after_is_kept_to_within_bounds(text, expected_ms):
    with receiving() as receiver:
        receiver.reply = reply_of("503 Unavailable", f"retry-after: {text()}")
        raised = failure(webhook(receiver))
    assert (raised.after_ms if isinstance(raised, RetryLater) else 0) == expected_ms


HEAD = b"HTTP/1.1 200 OK\r\n"


def _endless(connection: socket.socket) -> None:
    connection.sendall(HEAD)
    while True:
        connection.sendall(b"a: " + b"b" * 100 + b"\r\n")


@pytest.mark.parametrize(
    ("reply", "named"),
    [
        (reset, ""),
        (lambda connection: None, "closed the connection without an answer"),
        (lambda connection: connection.sendall(b"hello\r\n\r\n"), "does not answer in HTTP"),
        (_endless, f"more than {WEBHOOK_HEAD_BYTES_MAX} bytes"),
        (
            lambda connection: connection.sendall(HEAD + b"a: " + b"b" * 200_000 + b"\r\n\r\n"),
            f"more than {WEBHOOK_HEAD_BYTES_MAX} bytes",
        ),
    ],
)
def test_a_broken_answer_is_a_failure_that_is_tried_again(reply: Reply, named: str):
    with receiving() as receiver:
        receiver.reply = reply
        raised = failure(webhook(receiver))
    assert type(raised) is DeliveryFailed
    assert named in str(raised)


def test_a_receiver_that_never_answers_or_drips_is_left_in_time():
    with receiving() as receiver:
        sink = impatient(receiver)
        for reply in (receiver.wait, receiver.drip):
            receiver.reply = reply
            assert type(failure(sink)) is DeliveryFailed
        receiver.reply = following(HEAD, receiver.drip)
        assert type(failure(sink)) is DeliveryFailed
    assert len(receiver.requests) == 3


def test_the_status_counts_whatever_the_body_is():
    def giant(connection: socket.socket) -> None:
        connection.sendall(HEAD + b"\r\n")
        sent = 0
        while sent < 64 * WEBHOOK_ANSWER_BYTES_MAX:
            sent += connection.send(bytes(4_096))

    with receiving() as receiver:
        sink = impatient(receiver)
        receiver.reply = giant
        sink.on_event(stored_event())
        receiver.reply = following(HEAD + b"content-length: 99999\r\n\r\n", receiver.drip)
        sink.on_event(stored_event())
        receiver.reply = following(HEAD + b"content-length: 9\r\n\r\n", reset)
        sink.on_event(stored_event())


def test_a_refusal_that_comes_before_the_body_was_read_is_read():
    """The receiver closes with much of the request unread, which resets the connection."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def refuse() -> None:
            connection, _ = listener.accept()
            connection.recv(10)
            reply_of("413 Too Large")(connection)
            connection.close()

        thread = threading.Thread(target=refuse)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        sink = open_webhook({"url": url, "unsigned": True, "allow_addresses": ["127.0.0.1"]})
        with pytest.raises(EventRefused, match="413"):
            sink.on_event(commit_event(3_000))
        thread.join()


def test_nothing_listens():
    with receiving() as receiver:
        sink = webhook(receiver)
    assert "refused" in str(failure(sink)).lower()


def test_the_certificate_is_verified(tmp_path):
    own, other = CertificateFiles(tmp_path / "own"), CertificateFiles(tmp_path / "other")
    with receiving(_server_tls(own)) as receiver:
        assert "certificate" in str(failure(webhook(receiver)))
        assert "certificate" in str(failure(webhook(receiver, ca_file=str(other.certificate))))
        webhook(receiver, ca_file=str(own.certificate)).on_event(stored_event())
        trusting = webhook(receiver, ca_file=str(own.certificate))
        named = receiver.url.replace("localhost", "other.example")
        options = msgspec.structs.replace(trusting._options, url=named)
        elsewhere = WebhookSubscriber(options, ask=lambda host, port: ["127.0.0.1"])
        elsewhere.register(NoRegistrar())
        assert "certificate" in str(failure(elsewhere))
    assert len(receiver.requests) == 1


def _server_tls(files: CertificateFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    return context


def test_a_receiver_without_tls_is_left_in_time():
    with receiving() as receiver:
        receiver.reply = receiver.wait
        sink = impatient(receiver, url=receiver.url.replace("http:", "https:"))
        assert type(failure(sink)) is DeliveryFailed
    assert receiver.requests == []


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "'url' is missing"),
        ({"url": "https://h/"}, "exactly one of the three"),
        ({"url": "https://h/", "unsigned": True, "secret_env": "X"}, "exactly one of the three"),
        ({"url": "http://h/", "unsigned": True}, "'allow_http'"),
        ({"url": "ftp://h/", "unsigned": True}, "'url'"),
        ({"url": "https://canary:canary@h/", "unsigned": True}, "'url'"),
        ({"url": "https:///canary", "unsigned": True}, "'url'"),
        ({"url": "https://h:canary/", "unsigned": True}, "'url'"),
        ({"url": "https://h/" + "c" * 3_000, "unsigned": True}, "characters"),
        ({"url": "https://h/", "unsigned": True, "allow_addresses": ["canary"]}, "10.1.0.0/16"),
        ({"url": "https://h/", "unsigned": True, "secret": "canary"}, "'secret' is not known"),
    ],
)
def test_a_key_that_is_wrong_is_refused_and_not_repeated(given, named):
    with pytest.raises(Invalid) as refused:
        open_webhook(given)
    assert named in refused.value.message
    assert "canary" not in refused.value.message


@pytest.mark.parametrize(
    "text", ["", "# none\n", "canary", "Y2FuYXJ5", "é" * 9, "a b c d e f g h i"]
)
def test_secrets_that_cannot_be_used_are_reported_at_the_start(tmp_path, text):
    file = tmp_path / "secrets"
    file.write_text(text, "utf-8")
    for given in ({"secret_file": str(file)}, {"secret_file": str(tmp_path / "none")}):
        sink = open_webhook({"url": "https://h/", **given})
        with pytest.raises(Invalid) as refused:
            sink.register(NoRegistrar())
        assert "canary" not in refused.value.message
        assert "Y2F" not in refused.value.message


def test_a_secret_file_that_disappears_is_a_failure_until_it_is_back(tmp_path):
    file = tmp_path / "secrets"
    file.write_text(SECRET)
    with receiving() as receiver:
        sink = webhook(receiver, unsigned=None, secret_file=str(file))
        file.unlink()
        assert "cannot be read" in str(failure(sink))
        file.write_text(SECRET)
        sink.on_event(stored_event())
    assert len(receiver.requests) == 1


def test_no_secret_is_in_any_error_status_or_log(tmp_path, caplog):
    """The secret, and the path and query of the address, which may hold a token."""
    caplog.set_level(logging.DEBUG)
    file = tmp_path / "secrets"
    file.write_text(SECRET)
    bench, shown = Bench(), list[str]()
    with receiving() as receiver:
        url = f"http://localhost:{receiver.port}/canary-path?token=canary-token"
        options = open_webhook(
            {"url": url, "secret_file": str(file), "allow_addresses": ["127.0.0.0/8"]}
        )._options
        sink = WebhookSubscriber(options, timeout_ms=100)
        sink.register(NoRegistrar())
        delivery = bench.hub.subscribe(sink, commits_only())
        receiver.replies = [
            reply_of("500 Error", body=SECRET.encode()),
            reset,
            receiver.wait,
            reply_of("307 Temporary", f"location: {url}"),
        ]
        bench.commit("a")
        delivery.turn()
        shown += [
            repr(options),
            repr(sink),
            repr(delivery.status()),
            delivery.dead_letters[0].error,
        ]
    assert delivery.status().dead == 1
    text = "\n".join([*shown, caplog.text])
    for canary in (SECRET, "canary-path", "canary-token"):
        assert canary not in text


def test_answers_lead_to_retries_dead_letters_and_the_breaker():
    bench = Bench()
    with receiving() as receiver:
        sink = webhook(receiver)
        delivery = bench.hub.subscribe(sink, commits_only())
        receiver.replies = [
            reply_of("503 Unavailable", "retry-after: 20"),
            reply_of(),
            reply_of("422 Unprocessable"),
            reply_of("410 Gone"),
            reply_of("410 Gone"),
        ]
        for name in "abcde":
            bench.commit(name)
        while delivery.turn():
            pass
        status = delivery.status()
        assert 20_000 <= bench.sleeps.slept[0] <= 20_100
        assert (status.delivered, status.retried, status.dead) == (1, 1, 3)
        assert status.state is SubscriptionState.TRIPPED
        assert status.last_error == "ReceiverRefused: the receiver answered 410"
        bench.clock.advance_us(30_000_000)
        while delivery.turn():
            pass
    assert delivery.status().delivered == 2
    assert len(receiver.requests) == 6


def test_a_receiver_that_never_answers_changes_nothing_for_another_subscriber():
    collector = Collector(commits_only())
    with receiving() as receiver:
        receiver.reply = receiver.wait
        sink = open_webhook(
            {"url": receiver.url, "unsigned": True, "allow_addresses": ["127.0.0.0/8"]}
        )
        sink._timeout_ms = 100
        with open_repository("memory:", subscribers=[sink, collector]) as repository:
            for number in range(3):
                name = str(number)
                repository.commits.commit("main", name, [Put(key=(name,), content=table(name))])
    assert len(collector.events) == 3


def test_the_type_has_an_entry_point():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8")
    assert 'webhook = "lochan.sinks.webhook:open_webhook"' in text
