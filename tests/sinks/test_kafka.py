"""Events in a real Kafka: what is published, in which order, and what each failure does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from lochan.base.errors import Invalid
from lochan.events.observers import TRACEPARENT
from lochan.events.reactions import DeliveryFailed, EventRefused, ReceiverRefused
from lochan.sinks.kafka import KafkaSubscriber, open_kafka
from lochan.testing.jars import find_jars
from tests.events.test_delivery import Bench
from tests.profile import counted
from tests.sinks.kafka_server import PACKAGE, PASSWORD, USER, KafkaServer
from tests.sinks.samples import commit_event, stored_event
from tests.sinks.webhooks import NoRegistrar

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("kafka")]

_numbers = count()


@pytest.fixture(scope="module")
def server() -> Iterator[KafkaServer]:
    if find_jars(PACKAGE) is None:
        pytest.skip(PACKAGE.missing)
    made = KafkaServer()
    yield made
    made.java.stop()


@pytest.fixture
def topic(server: KafkaServer) -> str:
    name = f"lake-{next(_numbers)}"
    server.add_topic(name)
    return name


def opened(server: KafkaServer, topic: str, **given: Any) -> KafkaSubscriber:
    sink = open_kafka({"servers": [server.address], "topic": topic, "tls": False, **given})
    sink.register(NoRegistrar())
    return sink


def refusal(sink: KafkaSubscriber, event: Any = None) -> DeliveryFailed:
    with pytest.raises(DeliveryFailed) as raised:
        sink.on_event(event or stored_event())
    return raised.value


def test_an_event_is_a_message_whose_key_is_its_reference(server, topic):
    sink = opened(server, topic, source="https://lake.example")
    token = TRACEPARENT.set("00-" + "1" * 32 + "-" + "2" * 16 + "-01")
    event = stored_event(reference="größe")
    sink.on_event(event)
    TRACEPARENT.reset(token)
    (message,) = server.messages(topic)
    assert message.key() == "default/refs/heads/größe".encode()
    assert {name: text.decode() for name, text in message.headers()} == {
        "content-type": "application/json",
        "ce_specversion": "1.0",
        "ce_id": event.id,
        "ce_source": "https://lake.example/r/default",
        "ce_type": "dev.lochan.CONTENT_STORED",
        "ce_subject": "größe",
        "ce_time": "2023-11-14T22:13:20.123457Z",
        "ce_traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01",
    }
    assert json.loads(message.value())["id"] == event.id


def test_in_structured_mode_the_message_is_the_whole_cloud_event(server, topic):
    opened(server, topic, mode="structured").on_event(stored_event())
    (message,) = server.messages(topic)
    ((name, kind),) = message.headers()
    assert (name, kind.decode().partition(";")[0]) == (
        "content-type",
        "application/cloudevents+json",
    )
    body = json.loads(message.value())
    assert (body["type"], body["data"]["type"]) == ("dev.lochan.CONTENT_STORED", "CONTENT_STORED")


def test_references_keep_their_order_when_the_broker_is_started_again(server, topic):
    bench, commits = Bench(), counted(12, 120)
    delivery = bench.hub.subscribe(opened(server, topic))
    names = ["main", "a", "b"]
    for name in names[1:]:
        bench.repository.references.create(name)
    for number in range(commits):
        bench.commit_on(names[number % 3], f"t{number}")
        if number == commits // 2:
            server.java.restart()
        while delivery.turn():
            pass
    found: dict[str, list[str]] = {name: [] for name in names}
    for message in server.messages(topic):
        event = json.loads(message.value())
        if event["type"] == "COMMIT":
            found[event["reference"]["name"]].append(event["meta"]["message"])
    # What was acknowledged too late may come twice, one after the other.
    once = {name: list(dict.fromkeys(messages)) for name, messages in found.items()}
    assert once == {
        name: [f"t{number}" for number in range(at, commits, 3)] for at, name in enumerate(names)
    }
    assert delivery.status().dead == 0


def test_a_message_that_is_too_large_for_the_topic_is_refused(server):
    server.add_topic("small", **{"max.message.bytes": "2000"})
    sink = opened(server, "small")
    refused = refusal(sink, commit_event(1_000))
    assert isinstance(refused, EventRefused)
    assert not isinstance(refused, ReceiverRefused)
    opened(server, "small", bytes_max=1_500).on_event(commit_event(1_000))
    (message,) = server.messages("small")
    assert json.loads(message.value())["operationsLeftOut"] > 900


def test_a_topic_that_does_not_exist_is_refused_until_it_is_made(server):
    sink = opened(server, "later")
    assert isinstance(refusal(sink), ReceiverRefused)
    server.add_topic("later")
    sink.on_event(stored_event())
    assert len(server.messages("later")) == 1


def test_a_password_comes_from_a_file_and_a_new_one_counts_without_a_restart(
    server, topic, tmp_path
):
    secret = tmp_path / "password"
    secret.write_text("wrong\n")
    sink = opened(
        server,
        topic,
        servers=[server.login_address],
        user=USER,
        password_file=str(secret),
        mechanism="PLAIN",
    )
    refused = refusal(sink)
    assert isinstance(refused, ReceiverRefused)
    secret.write_text(f"{PASSWORD}\n")
    sink.on_event(stored_event())
    assert len(server.messages(topic)) == 1
    assert PASSWORD not in repr(sink._options) + str(refused)


def test_with_tls_the_certificate_of_the_broker_is_verified(server, topic, tmp_path, monkeypatch):
    known = tmp_path / "ca.pem"
    known.write_text(server.certificate)
    encrypted = {"servers": [server.tls_address], "tls": True}
    with monkeypatch.context() as patch:
        patch.setattr("lochan.sinks.kafka.BROKER_TIMEOUT_MS", 1_000)
        assert not isinstance(refusal(opened(server, topic, **encrypted)), EventRefused)
    opened(server, topic, **encrypted, ca_file=str(known)).on_event(stored_event())
    assert len(server.messages(topic)) == 1


def test_without_a_broker_an_event_is_tried_again(monkeypatch):
    monkeypatch.setattr("lochan.sinks.kafka.BROKER_TIMEOUT_MS", 1_000)
    sink = open_kafka({"servers": ["127.0.0.1:1"], "topic": "t", "tls": False})
    away = refusal(sink)
    assert not isinstance(away, EventRefused)
    assert "has not acknowledged it" in str(away)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"servers": []}, "1 to 32 addresses"),
        ({"servers": ["kafka.example"]}, "addresses HOST:PORT"),
        ({"servers": ["u:p@kafka.example:1"]}, "addresses HOST:PORT"),
        ({"servers": ["kafka.example:1"], "tls": False}, "without encryption"),
        ({"topic": ""}, "'topic': it is empty"),
        ({"mechanism": "GSSAPI"}, "'mechanism'"),
        ({"user": "a"}, "'user' needs"),
        ({"user": "a", "password_file": "f", "password_env": "E"}, "not in both"),
        ({"password": "p"}, "is not known"),
    ],
)
def test_wrong_options_are_refused_with_their_key(given: dict[str, Any], reason: str):
    with pytest.raises(Invalid, match=reason.replace("'", ".")):
        open_kafka({"servers": ["127.0.0.1:1"], "topic": "t", **given})
