"""Prove by a record that a topic is the one known before, and has what it had.

The store keeps a fingerprint of the last record written (values.py); a start reads that record again. Another one at
that offset, or an end before it, means that the output has lost it (lost_output.py).

A broker without topic ids gives every topic the same id. There the store keeps a fingerprint of the last record read as
well, and another record means another topic. A record that retention has deleted proves nothing. Of a repartition topic
only its workers delete records, after they have read them: that the record is gone shows that they came further.

An input that was created again gets an id here: that of the broker with a number, so that what names its topic
(input_offset.py) works as with topic ids.
"""

from collections.abc import Callable
from contextlib import closing
from enum import Enum, auto
from functools import partial
from threading import Event
from typing import Final, NamedTuple

from dedupe_kafka.errors import Stopped
from dedupe_kafka.offsets import OffsetRange
from dedupe_kafka.topic_id import NO_TOPIC_ID, has_id
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.errors import TopicUnproved
from dedupe_worker.kafka.consumer import PartitionReader, read_output
from dedupe_worker.recovery.taken_over import TakenOver
from dedupe_worker.store.metadata import StoreMetadata
from dedupe_worker.values import fingerprint

_NUMBER: Final = "#"


class Proof(Enum):
    """The result of a comparison."""

    SAME = auto()
    """The record is the same; or none was recorded yet, or the topic is empty up to its end: nothing can be skipped."""
    ANEW = auto()
    """Another record is there, or the topic ends before."""
    GONE = auto()
    """No record is there, though the topic reaches back: it was compacted, or another one's transaction aborted."""
    UNPROVED = auto()
    """The topic no longer reaches back."""


def next_id(topic_id: str) -> str:
    """Return the id of the topic that came after this one.

    >>> next_id(NO_TOPIC_ID), next_id(next_id(NO_TOPIC_ID))
    ('AAAAAAAAAAAAAAAAAAAAAA#2', 'AAAAAAAAAAAAAAAAAAAAAA#3')
    """
    _, _, number = topic_id.partition(_NUMBER)
    return f"{NO_TOPIC_ID}{_NUMBER}{int(number or 1) + 1}"


def prove(
    recorded: str,
    available: OffsetRange,
    open_reader: Callable[[], PartitionReader],
    stop: Event,
) -> Proof:
    """Compare the record at a fingerprint's offset with it.

    Raises StreamError, and Stopped if `stop` is set before the record is read.
    """
    if not recorded:
        return Proof.SAME
    offset = int(recorded.partition(" ")[0])
    if offset >= available.end:
        return Proof.ANEW
    if offset < available.low:
        return Proof.UNPROVED if available.count else Proof.SAME
    with closing(open_reader()) as reader:
        reader.seek(offset)
        batches = read_output(reader, start=offset, end=available.end, stop=stop, largest=1)
        found = next((batch.records[0] for batch in batches if batch.records), None)
    if found is None and stop.is_set():
        raise Stopped("reading the last known record")  # not read, which proves nothing
    if found is None or found.offset() != offset:
        return Proof.GONE
    return Proof.SAME if fingerprint(found, offset) == recorded else Proof.ANEW


class ProvedTopics(NamedTuple):
    """The id of the input topic, and whether the output topic is a new one."""

    input_id: str
    output_anew: bool = False


def prove_topics(
    factory: ComponentFactory,
    partition: TakenOver,
    metadata: StoreMetadata | None,
    output: OffsetRange,
    stop: Event,
) -> ProvedTopics:
    """Prove both topics, if the brokers have no topic ids.

    Raises StreamError, and Stopped if `stop` is set before that is done.
    """
    source, target = partition.input_topic, partition.output_topic
    if has_id(source.id) or metadata is None:
        return ProvedTopics(source.id)
    spec = factory.config.stream.spec
    unproved = bool(spec.kafka.accept_unproved_topics)
    trimmed = spec.repartition is not None
    available = partition.topics.offsets(source.name, partition.identity.partition)
    proofs = [
        accept(
            prove(recorded, there, partial(factory.make_reader, name), stop),
            name,
            unproved=accepted,
        )
        for name, recorded, there, accepted in (
            (source.name, metadata.last_read, available, unproved or trimmed),
            (target.name, metadata.last_written, output, unproved),
        )
    ]
    known = metadata.input_topic or source.id
    input_id = next_id(known) if proofs[0] is Proof.ANEW else known
    return ProvedTopics(input_id, proofs[1] is Proof.ANEW)


def accept(proof: Proof, topic: str, *, unproved: bool) -> Proof:
    """Return the proof to act on. Raises TopicUnproved if there is none.

    `unproved` is spec.kafka.acceptUnprovedTopics.
    """
    if proof in {Proof.SAME, Proof.ANEW}:
        return proof
    if unproved:
        return Proof.SAME
    raise TopicUnproved(
        f"the brokers give topics no ids, and the last known record of {topic} is gone, so it can't be proved that the "
        "topic was not created again. If it is the same, set spec.kafka.acceptUnprovedTopics: true"
    )
