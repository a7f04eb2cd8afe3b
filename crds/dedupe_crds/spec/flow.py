"""Model of the way of messages: from the input through the store to the output.

`dedupe_crds.spec.stream` adds how that runs.
"""

from typing import Annotated, Final

from pydantic import Field

from dedupe_crds.base import Model
from dedupe_crds.rules import never_changes, rule
from dedupe_crds.spec.input import EXACTLY_ONE, Input
from dedupe_crds.spec.repartition import Repartition
from dedupe_crds.spec.topic_names import (
    OWN_TOPIC,
    OWNERS_TOPIC,
    REPARTITION_TOPIC,
    REPARTITION_TOPIC_CEL,
    has_owners_topic,
    has_repartition_topic,
    is_own_topic,
    not_input_cel,
    own_topic_cel,
    owners_topic_cel,
)
from dedupe_crds.spec.topics import (
    Conflicts,
    Delivery,
    Duplicates,
    IdSource,
    Kafka,
    Late,
    Mode,
    Output,
)

_OTHER_ID: Final = (
    "create another stream with its own output topic instead, and import past ids with "
    "`dedupe bootstrap` (docs/bootstrap.md)"
)


class Flow(Model):
    """The way of the messages through a stream."""

    kafka: Kafka = Field(description="The Kafka cluster.")
    input: Annotated[Input, EXACTLY_ONE] = Field(description="The topic or topics to read.")
    output: Output = Field(description="The topic to write.")
    id: Annotated[IdSource, never_changes("the id", instead=_OTHER_ID)] = Field(
        description="The id of a message: messages with the same id are duplicates."
    )
    duplicates: Duplicates = Field(default=Duplicates(), description="Handling of duplicates.")
    conflicts: Conflicts = Field(
        default=Conflicts(),
        description="Handling of conflicts: messages with a known id but different content.",
    )
    late: Late = Field(
        default=Late(),
        description="Handling of late messages: older than the window, so duplicates cannot be detected.",
    )
    repartition: Repartition | None = Field(
        default=None,
        description="Routers send each message to the partition of its id, so that its copies meet in one worker. "
        "Default: none; then a worker reads the input partition of its number, and copies meet only if their "
        "producers send them to one partition. It may be added to a stream that runs, and is never removed.",
    )
    delivery: Delivery = Field(
        default=Delivery.EXACTLY_ONCE,
        description="ExactlyOnce: with Kafka transactions. AtLeastOnce: for brokers without transactions; after "
        "a crash some messages may pass twice, but none is lost.",
    )
    mode: Mode = Field(
        default=Mode.ENFORCE,
        description="Enforce: duplicates are removed. Observe: duplicates are only counted, and all messages "
        "pass.",
    )

    @rule(
        "input",
        "output",
        below="topic",
        cel=not_input_cel(),
        message="must differ from the topics of spec.input: a worker would read its own output",
    )
    @staticmethod
    def _output_is_not_the_input(source: Input, target: Output) -> bool:
        return target.topic not in source.names

    @rule(
        "input",
        "output",
        below="topic",
        cel=f"!has(self.output.filter) || {not_input_cel('-filters')}",
        message="with -filters appended must differ from the topics of spec.input: a worker would read its own filters",
    )
    @staticmethod
    def _filters_are_not_the_input(source: Input, target: Output) -> bool:
        return target.filter is None or f"{target.topic}-filters" not in source.names

    @rule(
        "input",
        "output",
        "duplicates",
        below="topic",
        cel=own_topic_cel("duplicates"),
        message=OWN_TOPIC,
    )
    @staticmethod
    def _duplicates_have_their_own_topic(
        source: Input, target: Output, duplicates: Duplicates
    ) -> bool:
        return is_own_topic(duplicates.topic, source, target)

    @rule(
        "input",
        "output",
        "conflicts",
        below="topic",
        cel=own_topic_cel("conflicts"),
        message=OWN_TOPIC,
    )
    @staticmethod
    def _conflicts_have_their_own_topic(
        source: Input, target: Output, conflicts: Conflicts
    ) -> bool:
        return is_own_topic(conflicts.topic, source, target)

    @rule(
        "input",
        "output",
        "duplicates",
        below="policy",
        cel=owners_topic_cel("duplicates"),
        message=OWNERS_TOPIC,
    )
    @staticmethod
    def _duplicates_have_an_owners_topic(
        source: Input, target: Output, duplicates: Duplicates
    ) -> bool:
        return has_owners_topic(duplicates.topic, source, target)

    @rule(
        "input",
        "output",
        "conflicts",
        below="policy",
        cel=owners_topic_cel("conflicts"),
        message=OWNERS_TOPIC,
    )
    @staticmethod
    def _conflicts_have_an_owners_topic(
        source: Input, target: Output, conflicts: Conflicts
    ) -> bool:
        return has_owners_topic(conflicts.topic, source, target)

    @rule(
        "input",
        "output",
        "late",
        below="topic",
        cel=own_topic_cel("late"),
        message=OWN_TOPIC,
    )
    @staticmethod
    def _late_messages_have_their_own_topic(source: Input, target: Output, late: Late) -> bool:
        return is_own_topic(late.topic, source, target)

    @rule(
        "input",
        "output",
        "duplicates",
        "conflicts",
        "late",
        "repartition",
        below="topic",
        cel=REPARTITION_TOPIC_CEL,
        message=REPARTITION_TOPIC,
    )
    @staticmethod
    def _repartition_has_its_own_topic(  # noqa: PLR0917 (a rule takes fields in their order)
        source: Input,
        target: Output,
        duplicates: Duplicates,
        conflicts: Conflicts,
        late: Late,
        repartition: Repartition | None,
    ) -> bool:
        routed = (duplicates.topic, conflicts.topic, late.topic)
        return has_repartition_topic(source, target, routed, repartition)

    @rule(
        "input",
        "repartition",
        cel="has(self.input.topic) || has(self.repartition)",
        message="must be given with spec.input.topics or spec.input.pattern: only routers read several topics",
    )
    @staticmethod
    def _several_topics_are_repartitioned(source: Input, repartition: Repartition | None) -> bool:
        return source.topic is not None or repartition is not None

    @rule(
        "input",
        "repartition",
        cel="!has(self.input.addedPartitions) || !has(self.repartition)",
        message="must be absent with spec.input.addedPartitions: routers read partitions that are added, so remove "
        "that field in the same change",
    )
    @staticmethod
    def _routers_read_added_partitions(source: Input, repartition: Repartition | None) -> bool:
        return source.added_partitions is None or repartition is None

    @property
    def worker_input(self) -> str:
        """Return the name of the topic that the workers read."""
        if self.repartition is not None:
            return self.repartition.topic_name(self.output.topic)
        return self.input.single
