"""A real Kafka of the tests: one node, on free ports of this machine; nothing here is a test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from lochan.testing.jars import JavaServer, Package, find_jars, free_port
from tests.transport.certificates import make_pair

PACKAGE = Package("org.apache.kafka", "kafka_2.13", "4.3.1")
TOPIC = "lake"
PARTITIONS = 3
USER, PASSWORD = "ada", "canary-password-of-kafka"

_WAIT_S = 60.0
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_PROPERTIES = f"""
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:CTL
listeners=PLAIN://127.0.0.1:PORT,LOGIN://127.0.0.1:SASL,CONTROL://127.0.0.1:CTL,TLS://localhost:ENC
advertised.listeners=PLAIN://127.0.0.1:PORT,LOGIN://127.0.0.1:SASL,TLS://localhost:ENC
listener.security.protocol.map=PLAIN:PLAINTEXT,LOGIN:SASL_PLAINTEXT,CONTROL:PLAINTEXT,TLS:SSL
listener.name.tls.ssl.keystore.type=PEM
listener.name.tls.ssl.keystore.location=FOLDER/keystore.pem
controller.listener.names=CONTROL
inter.broker.listener.name=PLAIN
sasl.enabled.mechanisms=PLAIN
listener.name.login.plain.sasl.jaas.config={_LOGIN} user_{USER}="{PASSWORD}";
log.dirs=FOLDER
auto.create.topics.enable=false
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


def _for_java(key: str) -> str:
    """Returns a private key in the one form that Java reads."""
    read = load_pem_private_key(key.encode(), None)
    return read.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


class KafkaServer:
    """A running server; it can be stopped and started again with its data."""

    def __init__(self) -> None:
        jars = find_jars(PACKAGE)
        assert jars is not None
        control, login, encrypted = free_port(), free_port(), free_port()
        lines = _PROPERTIES.replace("CTL", str(control)).replace("ENC", str(encrypted))
        lines = lines.replace("127.0.0.1:SASL", f"127.0.0.1:{login}")
        self.certificate, key = make_pair()
        # What its own tool would write into a new folder.
        identity = "version=1\ncluster.id=lochan-tests\nnode.id=1\n"
        files = {
            "server.properties": lines,
            "meta.properties": identity,
            "keystore.pem": _for_java(key) + self.certificate,
        }
        self.java = JavaServer(
            jars, "kafka.Kafka", "FOLDER/server.properties", heap_mb=320, files=files
        )
        self.login_address = f"127.0.0.1:{login}"
        self.tls_address = f"localhost:{encrypted}"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.java.port}"

    def add_topic(self, name: str = TOPIC, **config: str) -> None:
        """Makes a topic and returns when it is there."""
        topic = NewTopic(name, PARTITIONS, 1, config=config)
        # The client has to live until the answer is there.
        admin = AdminClient({"bootstrap.servers": self.address})
        admin.create_topics([topic])[name].result(_WAIT_S)

    def messages(self, name: str = TOPIC) -> Sequence[Any]:
        """Returns all messages of a topic, those of each partition in their order."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": "tests",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        try:
            consumer.assign([TopicPartition(name, number, 0) for number in range(PARTITIONS)])
            found, ended = [], 0
            while ended < PARTITIONS:
                message = consumer.poll(_WAIT_S)
                assert message is not None, "the server does not answer"
                if message.error() is None:
                    found.append(message)
                else:
                    ended += 1
            return found
        finally:
            consumer.close()
