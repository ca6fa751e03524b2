"""A real Kafka of the tests: one node, on free ports of this machine; nothing here is a test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lochan.testing.jars import JavaServer, Package, find_jars, free_port

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
listeners=PLAIN://127.0.0.1:PORT,LOGIN://127.0.0.1:SASL,CONTROL://127.0.0.1:CTL
advertised.listeners=PLAIN://127.0.0.1:PORT,LOGIN://127.0.0.1:SASL
listener.security.protocol.map=PLAIN:PLAINTEXT,LOGIN:SASL_PLAINTEXT,CONTROL:PLAINTEXT
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


class KafkaServer:
    """A running server; it can be stopped and started again with its data."""

    def __init__(self) -> None:
        jars = find_jars(PACKAGE)
        assert jars is not None
        control, login = free_port(), free_port()
        lines = _PROPERTIES.replace("CTL", str(control))
        lines = lines.replace("127.0.0.1:SASL", f"127.0.0.1:{login}")
        # What its own tool would write into a new folder.
        identity = "version=1\ncluster.id=lochan-tests\nnode.id=1\n"
        files = {"server.properties": lines, "meta.properties": identity}
        self.java = JavaServer(
            jars, "kafka.Kafka", "FOLDER/server.properties", heap_mb=320, files=files
        )
        self.login_address = f"127.0.0.1:{login}"

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
