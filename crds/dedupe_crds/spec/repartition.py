"""Model of the repartition: routers send each message to the partition of its id.

`dedupe_crds.spec.flow` uses it.
"""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, StrictInt

from dedupe_crds.base import Model
from dedupe_crds.names import TopicName
from dedupe_crds.quantity import GIB, ByteSize
from dedupe_crds.rules import FieldRule, never_changes, size_between
from dedupe_crds.spec.resources import Resources

MOST_PARTITIONS: Final = 10_000
"""Partitions of one stream at most, whatever its manifest, Kafka or objects of its namespace say."""


class RepartitionBy(StrEnum):
    """Part of a message that its partition follows from."""

    ID = "Id"
    KEY = "Key"


class RepartitionTopic(Model):
    """The topic between routers and workers."""

    # None, not the name: it follows from the output.
    name: Annotated[TopicName, never_changes("the repartition topic")] | None = Field(
        default=None,
        description="Name of the topic. Default: the output topic with -repartition appended.",
    )
    max_bytes: Annotated[ByteSize, size_between("1Mi", "1Pi")] = Field(
        default=100 * GIB,
        description="Bytes of records that no worker has read yet, over all partitions, from which the routers pause. "
        "Kafka keeps each record until its worker has committed it, however long that takes.",
    )


class Routers(Model):
    """The processes that send messages to their partitions; they have no state."""

    replicas: Annotated[StrictInt, Field(ge=1, le=1000)] = Field(
        default=1, description="Number of routers. They share the partitions of the input."
    )
    resources: Resources = Field(
        default=Resources(), description="CPU and memory of a router's container."
    )


REPARTITION_SUFFIX: Final = "-repartition"
_SAME_NAME: Final = FieldRule(
    cel="has(self.name) == has(oldSelf.name)",
    message="the name of the repartition topic never changes; create another stream instead",
)

_ONLY_GROWS: Final = FieldRule(
    cel="self >= oldSelf",
    message="the number of partitions is never lowered: the ids of a partition that is removed would be forgotten; "
    "create another stream instead",
)


class Repartition(Model):
    """Partitioning by id: the copies of a message meet in one worker."""

    by: Annotated[RepartitionBy, never_changes("the repartition")] = Field(
        default=RepartitionBy.ID,
        description="Id: by the id of the message, and the copies of an id keep their order. Key: by the key of the "
        "record, and the records of a key keep their order; then equal ids need equal keys.",
    )
    partitions: Annotated[StrictInt, Field(ge=1, le=MOST_PARTITIONS), _ONLY_GROWS] = Field(
        description="Number of partitions of the repartition topic and of the output. A worker runs for each of them. "
        "It may be raised while the stream runs: the new workers learn the ids that become theirs first."
    )
    topic: Annotated[RepartitionTopic, _SAME_NAME] = Field(
        default=RepartitionTopic(), description="The topic between routers and workers."
    )
    routers: Routers = Field(
        default=Routers(), description="The processes that send messages to their partitions."
    )

    def topic_name(self, output: str) -> str:
        """Return the name of the repartition topic of a stream with this output."""
        return self.topic.name or f"{output}{REPARTITION_SUFFIX}"
