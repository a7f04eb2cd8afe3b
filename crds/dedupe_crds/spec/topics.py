"""Models of a stream's output, ids and routing of messages.

`dedupe_crds.spec.flow` puts them together.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StrictBool, StrictInt

from dedupe_crds.base import Model
from dedupe_crds.names import BootstrapServers, FoundAt, HeaderName, JsonPath, ObjectName, TopicName
from dedupe_crds.quantity import Duration
from dedupe_crds.rules import duration_between, never_changes, rule
from dedupe_crds.spec.filter_from import FilterFrom


class IdFrom(StrEnum):
    """Source of a message's id."""

    KEY = "Key"
    HEADER = "Header"
    JSON_PATH = "JsonPath"
    CONTENT = "Content"


class DuplicatePolicy(StrEnum):
    """Handling of duplicates."""

    DROP = "Drop"
    TOPIC = "Topic"


class ConflictPolicy(StrEnum):
    """Handling of conflicts: messages with a known id but different content."""

    IGNORE = "Ignore"
    TOPIC = "Topic"


class LatePolicy(StrEnum):
    """Handling of late messages: older than the window."""

    PASS = "Pass"  # noqa: S105 (no password)
    TOPIC = "Topic"


class Delivery(StrEnum):
    """Delivery guarantee of the output."""

    EXACTLY_ONCE = "ExactlyOnce"
    AT_LEAST_ONCE = "AtLeastOnce"


class Mode(StrEnum):
    """Mode of the stream: remove duplicates, or only count them."""

    ENFORCE = "Enforce"
    OBSERVE = "Observe"


class SecretRef(Model):
    """A Secret in the stream's namespace."""

    name: ObjectName = Field(description="Name of the Secret.")


class Kafka(Model):
    """The Kafka cluster."""

    bootstrap_servers: BootstrapServers = Field(
        description="Bootstrap brokers: host:port, comma-separated."
    )
    config_secret_ref: SecretRef | None = Field(
        default=None,
        description="Secret with librdkafka client properties (SASL, TLS) in its key client.properties, a key=value "
        "per line.",
    )
    # None, not False: a manifest without it is one that a worker of the release before can read.
    accept_unproved_topics: StrictBool | None = Field(
        default=None,
        description="For brokers without topic ids only: continue although the last known record of a topic is "
        "gone, so that it can't be proved that the topic was not deleted and created again.",
    )


class OutputFilter(Model):
    """A small Bloom filter per output transaction; readers skip what cannot match."""

    from_: FilterFrom = Field(
        alias="from",
        description="Source of the value to filter by. Header: the last header with the given name. JsonPath: text or "
        "a whole number in a JSON value. Records without a value are indexed as a separate value.",
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
        description="Size of each filter. False matches: 2 % with 16 bytes and 10 values, 14 % with 16 bytes "
        "and 30 values, 10 % with 128 bytes and 200 values.",
    )

    @rule(
        "from_",
        "name",
        cel="(self.from == 'Header') == has(self.name)",
        message="must name the header if spec.output.filter.from is Header, and must be absent otherwise",
    )
    @staticmethod
    def _header_and_only_header_has_a_name(source: FilterFrom, name: str | None) -> bool:
        return (source is FilterFrom.HEADER) == (name is not None)

    @rule(
        "from_",
        "path",
        cel="(self.from == 'JsonPath') == has(self.path)",
        message="must be the path of the value (such as $.order.country) if spec.output.filter.from is "
        "JsonPath, and must be absent otherwise",
    )
    @staticmethod
    def _json_path_and_only_json_path_has_a_path(source: FilterFrom, path: str | None) -> bool:
        return (source is FilterFrom.JSON_PATH) == (path is not None)


class AcceptedOutputLoss(Model):
    """A loss of records of an output partition, as OutputTruncated names it."""

    topic: TopicName = Field(description="The output topic.")
    partition: Annotated[StrictInt, Field(ge=0)] = Field(description="The partition.")
    offset: Annotated[StrictInt, Field(ge=0)] = Field(
        description="The offset of the last record that is known to be lost."
    )
    found: FoundAt = Field(description="When the loss was found, such as 20260131T235959Z.")


class Output(Model):
    """The topic to write."""

    topic: Annotated[TopicName, never_changes("the output topic")] = Field(
        description="Topic without duplicates. Created if it does not exist, with the input's partition count "
        "and max.message.bytes. Output partition p gets each message of input partition p once."
    )
    filter: OutputFilter | None = Field(
        default=None,
        description="Bloom filters for readers, written to the topic <output>-filters, which is created if it "
        "does not exist. Default: no filters.",
    )
    # None, not an empty list: a stream without it is one that an operator of the release before can read.
    accept_truncated: (
        Annotated[list[AcceptedOutputLoss], Field(min_length=1, max_length=1000)] | None
    ) = Field(
        default=None,
        description="Losses of output that are dealt with. A worker whose output has lost records continues with what "
        "is left, says so as OutputTruncated, and what to add here for it to be silent.",
    )

    @rule(
        "topic",
        "filter",
        cel="!has(self.filter) || size(self.topic) <= 241",
        message="needs spec.output.topic to have at most 241 characters: the topic of the filters has 8 more",
    )
    @staticmethod
    def _the_topic_of_filters_has_a_name(topic: str, filter: OutputFilter | None) -> bool:  # noqa: A002 (the field)
        return filter is None or len(topic) <= 241


class IdSource(Model):
    """The id of a message: messages with the same id are duplicates."""

    from_: IdFrom = Field(
        alias="from",
        description="Source of the id. Key: the record's key. Header: the last header with the given name. "
        "JsonPath: text or a whole number in a JSON value. Content: a hash of key and value. Records "
        "without an id pass through and are counted.",
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
        message="must name the header if spec.id.from is Header, and must be absent otherwise",
    )
    @staticmethod
    def _header_and_only_header_has_a_name(source: IdFrom, name: str | None) -> bool:
        return (source is IdFrom.HEADER) == (name is not None)

    @rule(
        "from_",
        "path",
        cel="(self.from == 'JsonPath') == has(self.path)",
        message="must be the path of the id (such as $.order.id) if spec.id.from is JsonPath, "
        "and must be absent otherwise",
    )
    @staticmethod
    def _json_path_and_only_json_path_has_a_path(source: IdFrom, path: str | None) -> bool:
        return (source is IdFrom.JSON_PATH) == (path is not None)


class Duplicates(Model):
    """Handling of duplicates: messages whose id is already known."""

    policy: DuplicatePolicy = Field(
        default=DuplicatePolicy.DROP,
        description="Drop: count and drop them. Topic: write them to a separate topic, each with a reference "
        "to the record that it repeats.",
    )
    topic: TopicName | None = Field(
        default=None, description="Topic for duplicates; only with policy: Topic."
    )

    @rule(
        "policy",
        "topic",
        cel="(self.policy == 'Topic') == has(self.topic)",
        message="must name a topic if spec.duplicates.policy is Topic, and must be absent otherwise",
    )
    @staticmethod
    def _topic_policy_and_only_it_has_a_topic(policy: DuplicatePolicy, topic: str | None) -> bool:
        return (policy is DuplicatePolicy.TOPIC) == (topic is not None)


class Conflicts(Model):
    """Handling of conflicts: messages with a known id but different content."""

    policy: ConflictPolicy = Field(
        default=ConflictPolicy.IGNORE,
        description="Ignore: do not detect them; they are handled as duplicates. Topic: count them and write "
        "them to a separate topic, each with a reference to the record that it contradicts.",
    )
    topic: TopicName | None = Field(
        default=None, description="Topic for conflicts; only with policy: Topic."
    )

    @rule(
        "policy",
        "topic",
        cel="(self.policy == 'Topic') == has(self.topic)",
        message="must name a topic if spec.conflicts.policy is Topic, and must be absent otherwise",
    )
    @staticmethod
    def _topic_policy_and_only_it_has_a_topic(policy: ConflictPolicy, topic: str | None) -> bool:
        return (policy is ConflictPolicy.TOPIC) == (topic is not None)


class Late(Model):
    """Handling of late messages, older than the window: duplicates are not detected."""

    policy: LatePolicy = Field(
        default=LatePolicy.PASS,
        description="Pass: count them, and pass each one through unless its id is still known. Topic: write "
        "them to a separate topic, with a header that gives the reason.",
    )
    topic: TopicName | None = Field(
        default=None, description="Topic for late messages; only with policy: Topic."
    )
    max_age: Annotated[Duration, duration_between("1s", "3650d")] | None = Field(
        default=None,
        description="Age, by the record's timestamp, from which a message is always late. Default: a message is "
        "late only if it is older than ids that the store has already evicted.",
    )

    @rule(
        "policy",
        "topic",
        cel="(self.policy == 'Topic') == has(self.topic)",
        message="must name a topic if spec.late.policy is Topic, and must be absent otherwise",
    )
    @staticmethod
    def _topic_policy_and_only_it_has_a_topic(policy: LatePolicy, topic: str | None) -> bool:
        return (policy is LatePolicy.TOPIC) == (topic is not None)
