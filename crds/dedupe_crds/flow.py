"""What flows through a stream: its topics, its ids, and what becomes of duplicates."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from dedupe_crds.model import Model
from dedupe_crds.names import BootstrapServers, HeaderName, JsonPath, ObjectName, TopicName
from dedupe_crds.rules import never_changes, rule


class IdFrom(StrEnum):
    """Where the id of a message is."""

    KEY = "Key"
    HEADER = "Header"
    JSON_PATH = "JsonPath"
    CONTENT = "Content"


class DuplicatePolicy(StrEnum):
    """What becomes of a duplicate."""

    DROP = "Drop"
    TOPIC = "Topic"


class Mode(StrEnum):
    """Whether duplicates are removed or only counted."""

    ENFORCE = "Enforce"
    OBSERVE = "Observe"


class SecretRef(Model):
    """A Secret in the stream's namespace."""

    name: ObjectName = Field(description="Name of the Secret.")


class Kafka(Model):
    """The Kafka cluster."""

    bootstrap_servers: BootstrapServers = Field(
        description="Brokers to ask first: host:port, several with commas."
    )
    config_secret_ref: SecretRef | None = Field(
        default=None,
        description="Secret with librdkafka client properties (SASL, TLS), one key=value a line.",
    )


class Input(Model):
    """What is read."""

    topic: Annotated[TopicName, never_changes("the input topic")] = Field(
        description="Topic with duplicates. One worker runs for each of its partitions."
    )


class Output(Model):
    """What is written."""

    topic: Annotated[TopicName, never_changes("the output topic")] = Field(
        description="Topic without duplicates. Created if absent, with the input's partition count "
        "and max.message.bytes; partition p holds what partition p of the input holds, once."
    )


class IdSource(Model):
    """What makes two messages the same."""

    from_: IdFrom = Field(
        alias="from",
        description="Key: the record's key. Header: the last header of the given name. JsonPath: "
        "text or a whole number in a JSON value. Content: key and value together. Records without "
        "an id pass through and are counted.",
    )
    name: HeaderName | None = Field(
        default=None, description="Name of the header; only with from: Header."
    )
    path: JsonPath | None = Field(
        default=None,
        description="RFC 9535 singular query into the value, such as $.order.id; only with "
        "from: JsonPath.",
    )

    @rule(
        "from_",
        "name",
        cel="(self.from == 'Header') == has(self.name)",
        says="must name the header if spec.id.from is Header, and must be absent otherwise",
    )
    @staticmethod
    def _header_and_only_header_has_a_name(source: IdFrom, name: str | None) -> bool:
        return (source is IdFrom.HEADER) == (name is not None)

    @rule(
        "from_",
        "path",
        cel="(self.from == 'JsonPath') == has(self.path)",
        says="must say where the id is (such as $.order.id) if spec.id.from is JsonPath, "
        "and must be absent otherwise",
    )
    @staticmethod
    def _json_path_and_only_json_path_has_a_path(source: IdFrom, path: str | None) -> bool:
        return (source is IdFrom.JSON_PATH) == (path is not None)


class Duplicates(Model):
    """What becomes of a duplicate."""

    policy: DuplicatePolicy = Field(
        default=DuplicatePolicy.DROP,
        description="Drop: counted and dropped. Topic: written to a topic of their own, with the "
        "record each one repeats.",
    )
    topic: TopicName | None = Field(
        default=None, description="Topic for duplicates; only with policy: Topic."
    )

    @rule(
        "policy",
        "topic",
        cel="(self.policy == 'Topic') == has(self.topic)",
        says="must name a topic if spec.duplicates.policy is Topic, and must be absent otherwise",
    )
    @staticmethod
    def _topic_policy_and_only_it_has_a_topic(policy: DuplicatePolicy, topic: str | None) -> bool:
        return (policy is DuplicatePolicy.TOPIC) == (topic is not None)
