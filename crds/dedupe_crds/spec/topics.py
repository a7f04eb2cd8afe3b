"""What flows through a stream: its topics, its ids, and what becomes of duplicates."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StrictInt

from dedupe_crds.base import Model
from dedupe_crds.names import BootstrapServers, HeaderName, JsonPath, ObjectName, TopicName
from dedupe_crds.quantity import Duration
from dedupe_crds.rules import duration_between, never_changes, rule


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


class ConflictPolicy(StrEnum):
    """What becomes of a message that has the id of another and not its content."""

    IGNORE = "Ignore"
    TOPIC = "Topic"


class LatePolicy(StrEnum):
    """What becomes of a message that is too old to be judged."""

    PASS = "Pass"  # noqa: S105 (no password)
    TOPIC = "Topic"


class Delivery(StrEnum):
    """What a worker promises of the output."""

    EXACTLY_ONCE = "ExactlyOnce"
    AT_LEAST_ONCE = "AtLeastOnce"


class FilterFrom(StrEnum):
    """Where the value is that readers select by."""

    HEADER = "Header"
    JSON_PATH = "JsonPath"


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


class OutputFilter(Model):
    """A small Bloom filter for each transaction of the output, so that readers skip what cannot match."""

    from_: FilterFrom = Field(
        alias="from",
        description="Header: the last header of the given name. JsonPath: text or a whole number in a "
        "JSON value. Records without a value are kept apart from all others.",
    )
    name: HeaderName | None = Field(
        default=None, description="Name of the header; only with from: Header."
    )
    path: JsonPath | None = Field(
        default=None,
        description="RFC 9535 singular query into the value, such as $.order.country; only with "
        "from: JsonPath.",
    )
    size_bytes: Annotated[StrictInt, Field(ge=16, le=255)] = Field(
        default=16,
        description="Size of one filter. 16 bytes take 10 values with 2 % false matches and 30 with "
        "14 %, 128 bytes take 200 with 10 %.",
    )

    @rule(
        "from_",
        "name",
        cel="(self.from == 'Header') == has(self.name)",
        says="must name the header if spec.output.filter.from is Header, and must be absent otherwise",
    )
    @staticmethod
    def _header_and_only_header_has_a_name(source: FilterFrom, name: str | None) -> bool:
        return (source is FilterFrom.HEADER) == (name is not None)

    @rule(
        "from_",
        "path",
        cel="(self.from == 'JsonPath') == has(self.path)",
        says="must say where the value is (such as $.order.country) if spec.output.filter.from is "
        "JsonPath, and must be absent otherwise",
    )
    @staticmethod
    def _json_path_and_only_json_path_has_a_path(source: FilterFrom, path: str | None) -> bool:
        return (source is FilterFrom.JSON_PATH) == (path is not None)


class Output(Model):
    """What is written."""

    topic: Annotated[TopicName, never_changes("the output topic")] = Field(
        description="Topic without duplicates. Created if absent, with the input's partition count "
        "and max.message.bytes; partition p holds what partition p of the input holds, once."
    )
    filter: OutputFilter | None = Field(
        default=None,
        description="Filters for readers, in the topic <output>-filters, which is created if absent; "
        "none are written if this is absent.",
    )

    @rule(
        "topic",
        "filter",
        cel="!has(self.filter) || size(self.topic) <= 241",
        says="needs spec.output.topic to have at most 241 characters, as that of its filters has 8 more",
    )
    @staticmethod
    def _the_topic_of_filters_has_a_name(topic: str, filter: OutputFilter | None) -> bool:  # noqa: A002 (the field)
        return filter is None or len(topic) <= 241


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


class Conflicts(Model):
    """What becomes of a message that has the id of another and not its content."""

    policy: ConflictPolicy = Field(
        default=ConflictPolicy.IGNORE,
        description="Ignore: a duplicate like any other, and not looked for. Topic: counted, and "
        "written to a topic of their own, with the record each one contradicts.",
    )
    topic: TopicName | None = Field(
        default=None, description="Topic for conflicts; only with policy: Topic."
    )

    @rule(
        "policy",
        "topic",
        cel="(self.policy == 'Topic') == has(self.topic)",
        says="must name a topic if spec.conflicts.policy is Topic, and must be absent otherwise",
    )
    @staticmethod
    def _topic_policy_and_only_it_has_a_topic(policy: ConflictPolicy, topic: str | None) -> bool:
        return (policy is ConflictPolicy.TOPIC) == (topic is not None)


class Late(Model):
    """What becomes of a message that is older than what is remembered, so that nothing can be said of it."""

    policy: LatePolicy = Field(
        default=LatePolicy.PASS,
        description="Pass: counted, and passed on unless its id is still known. Topic: written to a "
        "topic of their own, with a header that says why.",
    )
    topic: TopicName | None = Field(
        default=None, description="Topic for late messages; only with policy: Topic."
    )
    max_age: Annotated[Duration, duration_between("1s", "3650d")] | None = Field(
        default=None,
        description="Age (by the record's timestamp) from which a message is late in any case; if "
        "absent, only those are that are older than what the store has forgotten.",
    )

    @rule(
        "policy",
        "topic",
        cel="(self.policy == 'Topic') == has(self.topic)",
        says="must name a topic if spec.late.policy is Topic, and must be absent otherwise",
    )
    @staticmethod
    def _topic_policy_and_only_it_has_a_topic(policy: LatePolicy, topic: str | None) -> bool:
        return (policy is LatePolicy.TOPIC) == (topic is not None)
