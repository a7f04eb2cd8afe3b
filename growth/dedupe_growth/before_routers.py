"""Find what ran before a stream got routers, and what was handed over.

The controller asks it. Without routers worker p reads partition p of the input, and commits its offsets with the group
of the workers. When it hands its partition over, it commits the last of these offsets once more, with its cut
(worker: recovery/hand_over.py).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from confluent_kafka import TopicPartition

from dedupe_crds.spec.stream import DedupeStream
from dedupe_growth.decide import HandOver
from dedupe_growth.entries import Direct, RouterStart
from dedupe_kafka.errors import StreamError, TopicUnusable
from dedupe_kafka.offset_metadata import decode_metadata, split_token
from dedupe_kafka.offsets import Place, TopicOffsets
from dedupe_kafka.topic_id import has_id

Committed = Callable[[str, Iterable[Place]], Mapping[Place, TopicPartition]]
"""Takes a group and places; returns what the group has committed."""


class RoutersRefused(StreamError):
    """A stream that runs without routers can't get them in place."""

    retriable = True


class Topics(Protocol):
    """The part of `Cluster` that this needs."""

    def offsets(self, name: str) -> TopicOffsets: ...  # noqa: D102


class Ran(NamedTuple):
    """The topic that workers read without routers, and the number of workers."""

    topic: str
    workers: int


def find_direct(
    stream: DedupeStream,
    inputs: Mapping[str, int],
    topics: Topics,
    committed: Committed,
    ran: Ran | None = None,
) -> Direct | None:
    """Return the epoch before the routers; None of a stream that had none.

    It is asked while the epoch log is empty. If there was such an epoch, the workers have committed offsets of an
    input, or, where Kafka has deleted these, have written output, and no router has written anything. Workers that
    still run may not have committed yet: who knows of them says so by `ran`. Raises StreamError, RoutersRefused among
    them.
    """
    spec = stream.spec
    if any(topics.offsets(spec.worker_input).ends.values()):
        return None  # of a release without epochs
    places = [(topic, each) for topic, count in inputs.items() for each in range(count)]
    read = sorted(committed(stream.consumer_group, places))
    ends = topics.offsets(spec.output.topic).ends
    written = [partition for partition, end in sorted(ends.items()) if end]
    names = [ran.topic] if ran else sorted({topic for topic, _ in read})
    if not names and written and len(spec.input.names) == 1 and inputs:
        names = list(spec.input.names)
    if not names and not written:
        return None
    if not names:
        raise RoutersRefused(
            f"the output {spec.output.topic} has records, and the workers' group {stream.consumer_group} has no offset "
            "of an input, so it is not known which input they were made of: name that one alone in spec.input.topic "
            "until routers run"
        )
    if len(names) > 1:
        raise RoutersRefused(
            f"the workers' group {stream.consumer_group} has offsets of several inputs, {', '.join(names)}, and the "
            "stream has read one of them without routers: delete those of the others, with kafka-consumer-groups.sh "
            "--delete-offsets"
        )
    found = topics.offsets(names[0])
    if not has_id(found.id):
        raise RoutersRefused(
            "the brokers give topics no ids, so a store could not tell the offsets of the input from those of the "
            "repartition topic: create another stream with spec.repartition"
        )
    known = [partition + 1 for topic, partition in read if topic == names[0]]
    count = max([*known, *(each + 1 for each in written), ran.workers if ran else 0])
    return Direct(epoch=0, partitions=count, topic=names[0], topic_id=found.id)


def check_partitions(before: int, wanted: int) -> None:
    """Raise TopicUnusable if there are fewer partitions than the stream had before."""
    if wanted < before:
        raise TopicUnusable(
            f"spec.repartition.partitions is {wanted}, and the stream has {before} partitions: make it at least "
            f"{before}"
        )


def find_handed_over(
    direct: Direct, stream: DedupeStream, committed: Committed
) -> dict[int, HandOver]:
    """Return what is handed over, by input partition. Raises StreamError."""
    places = [(direct.topic, each) for each in range(direct.partitions)]
    found = {}
    for (_, partition), at in committed(stream.consumer_group, places).items():
        said = decode_metadata(split_token(at.metadata)[0])
        if said.cut is not None:
            start = RouterStart(offset=at.offset, topic_id=said.input_topic)
            found[partition] = HandOver(start, said.cut.position)
    return found
