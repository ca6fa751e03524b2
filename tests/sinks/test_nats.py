"""Events in a real NATS: what is published, what repeats, and what each failure does."""

from __future__ import annotations

import asyncio
import json
import ssl
from pathlib import Path
from typing import Any

import pytest

from lochan.base.errors import Invalid
from lochan.events.observers import TRACEPARENT
from lochan.events.reactions import DeliveryFailed, EventRefused, ReceiverRefused
from lochan.sinks.nats import NatsSubscriber, open_nats
from tests.events.test_delivery import Bench
from tests.profile import counted
from tests.sinks.nats_server import (
    MISSING,
    NatsServer,
    add_stream,
    ask,
    find_nats,
    messages_of,
    nats_server,
)
from tests.sinks.samples import commit_event, stored_event
from tests.sinks.webhooks import NoRegistrar
from tests.transport.certificates import CertificateFiles

pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_nats() is None, reason=MISSING)]

CANARY = "canary-token-of-nats"


@pytest.fixture
def server(tmp_path):
    with nats_server(tmp_path) as started:
        yield started


@pytest.fixture
def opened():
    """Makes subscribers that are closed at the end."""
    made: list[NatsSubscriber] = []

    def make(server: NatsServer, **given: Any) -> NatsSubscriber:
        sink = open_nats({"servers": [server.url], **given})
        sink.register(NoRegistrar())
        made.append(sink)
        return sink

    yield make
    for sink in made:
        sink.close()


def refusal(sink: NatsSubscriber, event: Any = None) -> DeliveryFailed:
    with pytest.raises(DeliveryFailed) as raised:
        sink.on_event(event or stored_event())
    return raised.value


def test_an_event_is_a_message_with_its_attributes_and_once_however_often_it_is_sent(
    server, opened
):
    add_stream(server)
    sink = opened(server, source="https://lake.example")
    token = TRACEPARENT.set("00-" + "1" * 32 + "-" + "2" * 16 + "-01")
    event = stored_event(reference="größe", repository="a.b c")
    sink.on_event(event)
    TRACEPARENT.reset(token)
    sink.on_event(event)
    (message,) = messages_of(server)
    assert message.subject == "lochan.a%2Eb%20c.CONTENT_STORED"
    assert message.headers == {
        "Nats-Msg-Id": event.id,
        "content-type": "application/json",
        "ce-specversion": "1.0",
        "ce-id": event.id,
        "ce-source": "https://lake.example/r/a.b%2520c",
        "ce-type": "dev.lochan.CONTENT_STORED",
        "ce-subject": "gr%C3%B6%C3%9Fe",
        "ce-time": "2023-11-14T22:13:20.123457Z",
        "ce-traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01",
    }
    assert json.loads(message.data)["id"] == event.id


def test_in_structured_mode_the_message_is_the_whole_cloud_event(server, opened):
    add_stream(server)
    opened(server, mode="structured").on_event(stored_event())
    (message,) = messages_of(server)
    assert message.headers["content-type"].startswith("application/cloudevents+json")
    body = json.loads(message.data)
    assert (body["type"], body["data"]["type"]) == ("dev.lochan.CONTENT_STORED", "CONTENT_STORED")


def test_without_jetstream_it_goes_to_those_that_listen(server, opened):
    sink = opened(server, jetstream=False, subject="lake.changes")

    async def work(client: Any) -> Any:
        heard = await client.subscribe("lake.changes.>")
        await client.flush()
        await asyncio.to_thread(sink.on_event, stored_event())
        return await heard.next_msg(timeout=30)

    message = ask(server, work)
    assert message.subject == "lake.changes.default.CONTENT_STORED"
    assert message.headers["ce-id"] == stored_event().id


def test_changes_arrive_in_order_and_none_is_missing_when_the_server_is_started_again(
    server, opened
):
    add_stream(server)
    bench, count = Bench(), counted(6, 60)
    sink = opened(server)
    delivery = bench.hub.subscribe(sink)
    stopped = []

    def wait() -> None:
        # The server is back before the second attempt.
        if stopped:
            server.start()
            stopped.clear()

    bench.sleeps.wait = wait
    for number in range(count):
        bench.commit(f"t{number}")
        if number % 3 == 1:
            server.stop()
            stopped.append(number)
        while delivery.turn():
            pass
    commits = [
        json.loads(message.data)["meta"]["message"]
        for message in messages_of(server)
        if message.headers["ce-type"] == "dev.lochan.COMMIT"
    ]
    assert commits == [f"t{number}" for number in range(count)]
    status = delivery.status()
    assert (status.dead, status.dropped) == (0, 0)
    assert status.retried >= count // 3


def test_what_a_stream_cannot_take_is_refused_and_what_may_be_taken_later_is_tried_again(
    server, opened
):
    sink = opened(server)
    nowhere = refusal(sink)
    assert isinstance(nowhere, ReceiverRefused)
    assert "no stream has the subject" in str(nowhere)
    add_stream(server, max_msg_size=2_000)
    large = refusal(sink, commit_event(200))
    assert isinstance(large, EventRefused)
    assert not isinstance(large, ReceiverRefused)
    sink.on_event(commit_event(1))


def test_an_event_is_made_small_enough_for_the_setting(server, opened):
    add_stream(server)
    opened(server, bytes_max=2_000).on_event(commit_event(500))
    (message,) = messages_of(server)
    assert len(message.data) < 2_000
    assert json.loads(message.data)["operationsLeftOut"] > 400


def test_a_server_that_is_away_is_tried_again(server, opened):
    sink = opened(server)
    server.stop()
    away = refusal(sink)
    assert not isinstance(away, EventRefused)
    assert "cannot be reached" in str(away)


def test_the_next_of_several_servers_is_used(server, opened, tmp_path):
    add_stream(server)
    sink = opened(server, servers=["nats://127.0.0.1:1", server.url])
    sink.on_event(stored_event())
    assert len(messages_of(server)) == 1


def test_credentials_come_from_a_file_and_a_new_one_counts_without_a_restart(tmp_path, opened):
    with nats_server(tmp_path, f"authorization {{ token: {CANARY} }}") as server:
        secret = tmp_path / "token"
        secret.write_text("wrong\n")
        sink = opened(server, jetstream=False, token_file=str(secret))
        refused = refusal(sink)
        assert isinstance(refused, ReceiverRefused)
        assert "credentials" in str(refused)
        secret.write_text(f"{CANARY}\n")
        sink.on_event(stored_event())
        assert CANARY not in repr(sink._options) + repr(refused)


def test_a_subject_that_may_not_be_used_is_a_refusal(tmp_path, opened, monkeypatch):
    users = 'authorization { users = [ {user: ada, password: pw, permissions: {publish: "x"}} ] }'
    monkeypatch.setenv("NATS_PASSWORD", "pw")
    with nats_server(tmp_path, users) as server:
        sink = opened(server, jetstream=False, user="ada", password_env="NATS_PASSWORD")
        refused = refusal(sink)
        assert isinstance(refused, ReceiverRefused)
        assert "may not publish" in str(refused)


def test_with_tls_the_certificate_of_the_server_is_verified(tmp_path, opened):
    files = CertificateFiles(tmp_path)
    certificate, key = files.certificate, files.key
    config = f'tls {{ cert_file: "{certificate}", key_file: "{key}" }}'
    with nats_server(tmp_path, config) as server:
        url = f"tls://localhost:{server.port}"
        strange = opened(server, servers=[url], jetstream=False)
        assert not isinstance(refusal(strange), EventRefused)
        sink = opened(server, servers=[url], jetstream=False, ca_file=str(certificate))
        sink.on_event(stored_event())


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"servers": []}, "1 to 32 addresses"),
        ({"servers": ["http://a"]}, "tls://nats.example:4222"),
        ({"servers": ["nats://u:p@127.0.0.1"]}, "without a user"),
        ({"servers": ["nats://nats.example"]}, "without encryption"),
        ({"servers": ["nats://127.0.0.1", "tls://b"]}, "all of them with TLS"),
        ({"subject": "a.*"}, "words of letters"),
        ({"subject": "a..b"}, "words of letters"),
        ({"user": "a"}, "'user' needs"),
        ({"token_file": "a", "token_env": "B"}, "name one of"),
        ({"bytes_max": 10}, "'bytes_max'"),
        ({"key_file": "k"}, "'certificate_file', which is missing"),
        ({"tokenfile": "t"}, "is not known"),
    ],
)
def test_wrong_options_are_refused_with_their_key(given: dict[str, Any], reason: str):
    with pytest.raises(Invalid, match=reason.replace("'", ".")):
        open_nats({"servers": ["nats://127.0.0.1"], **given})


def test_a_missing_secret_is_reported_when_the_subscriber_is_registered(tmp_path):
    sink = open_nats({"servers": ["nats://127.0.0.1"], "token_file": str(tmp_path / "none")})
    with pytest.raises(Invalid, match="the file of the token cannot be read"):
        sink.register(NoRegistrar())
    broken = open_nats({"servers": ["tls://127.0.0.1"], "ca_file": str(Path(ssl.__file__))})
    with pytest.raises(Invalid, match="not readable as PEM"):
        broken.register(NoRegistrar())
