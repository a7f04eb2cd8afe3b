"""Model of the input: one topic, several topics, or all topics of a pattern.

`dedupe_crds.spec.flow` uses it.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, StrictInt

from dedupe_crds.base import Model
from dedupe_crds.names import TopicName, TopicPattern
from dedupe_crds.rules import FieldRule, shown


class AddedPartitions(StrEnum):
    """Handling of partitions that are added to the input of a stream that runs."""

    WAIT = "Wait"
    ACCEPT = "Accept"


def _are_different(names: Sequence[str]) -> bool:
    return len(set(names)) == len(names)


_EACH_ONCE: Final = FieldRule(
    cel="self.all(name, self.exists_one(other, other == name))",
    message="must name each topic once",
    holds=_are_different,
)
_Topics = Annotated[list[TopicName], Field(min_length=1, max_length=100), _EACH_ONCE]


class AcceptedTruncation(Model):
    """A loss of records of an input partition, as its error names it."""

    topic: TopicName = Field(
        description="The topic, as the error names it: an input, or with spec.repartition the repartition topic."
    )
    partition: Annotated[StrictInt, Field(ge=0)] = Field(description="The partition.")
    offset: Annotated[StrictInt, Field(ge=0)] = Field(
        description="The first offset that was lost, from which on the partition is read again."
    )
    epoch: Annotated[StrictInt, Field(ge=0)] = Field(
        description="The leader epoch of the last record that was read before the loss."
    )


class Input(Model):
    """Topics to read: exactly one of topic, topics and pattern."""

    topic: TopicName | None = Field(
        default=None,
        description="Topic with duplicates. Without spec.repartition a worker runs for each of its partitions, and it "
        "never changes.",
    )
    # None, not an empty list: a stream without it is one that an operator of the release before can read.
    topics: _Topics | None = Field(
        default=None,
        description="Topics with duplicates, which become one stream; only with spec.repartition. Ids must be unique "
        "over all of them: of two records with the same id, such as order 1 and return 1, one is removed.",
    )
    pattern: TopicPattern | None = Field(
        default=None,
        description="Regular expression that the whole name of a topic must match, such as orders-.*; only with "
        "spec.repartition. Topics that are created later are read from their beginning. Topics of this stream and "
        "those whose names begin with __ are not read. Ids must be unique over all of them, as of topics.",
    )
    # None, not Wait: a stream without it is one that an operator of the release before can read.
    added_partitions: AddedPartitions | None = Field(
        default=None,
        description="Partitions that are added to the topic later, which sends keys to other partitions than before; "
        "only without spec.repartition. Wait, the default: their records stay in Kafka, and the stream reports them. "
        "Accept: they get workers, and a message passes although a copy of it has passed in another partition.",
    )

    # None, not an empty list, as above.
    accept_truncated: (
        Annotated[list[AcceptedTruncation], Field(min_length=1, max_length=1000)] | None
    ) = Field(
        default=None,
        description="Losses of input after which its partition is read on. A partition whose brokers have lost records "
        "that were read waits as InputTruncated, and says what to add here. An entry counts for that loss only.",
    )

    @property
    def accepts_added(self) -> bool:
        """Return whether added partitions get workers."""
        return self.added_partitions is AddedPartitions.ACCEPT

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the topics; none for a pattern."""
        return (self.topic,) if self.topic is not None else tuple(self.topics or ())

    @property
    def may_be_several(self) -> bool:
        """Return whether there may be more than one topic."""
        return self.pattern is not None or len(self.names) > 1

    @property
    def single(self) -> str:
        """Return the name of the topic.

        Raises:
            ValueError: these are several topics, or a pattern; not so without spec.repartition.
        """
        (name,) = self.names
        return name

    @property
    def shown(self) -> str:
        """Return it as a text for users."""
        return ", ".join(self.names) or f"/{self.pattern}/"


def _is_one(source: Input) -> bool:
    return [source.topic, source.topics, source.pattern].count(None) == 2


def _written(source: Input) -> str:
    return shown(source.model_dump(mode="json", by_alias=True, exclude_none=True))


EXACTLY_ONE: Final = FieldRule(
    cel="[has(self.topic), has(self.topics), has(self.pattern)].filter(x, x).size() == 1",
    message="must have exactly one of topic, topics and pattern",
    holds=_is_one,
    write=_written,
)
