"""Take over a partition: describe its topics, check its volume, fence a worker.

`Session` calls it first; `startup` and `input_offset` ask its result.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Event

from dedupe_kafka.errors import BrokerUnavailable, Fenced, TakeOverContested
from dedupe_kafka.offset_metadata import decode_metadata
from dedupe_kafka.side_topics import routed_topics
from dedupe_kafka.topic_id import has_id
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.errors import InputTopicReplaced, OutputTopicReplaced
from dedupe_worker.kafka.admin import Topic, Topics, needed_rights
from dedupe_worker.kafka.committed import Committed
from dedupe_worker.kafka.consumer import PartitionReader
from dedupe_worker.kafka.producer import PartitionOutput
from dedupe_worker.store.state_dir import Identity, id_source_text


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOver:
    """A partition whose older worker is fenced, with its topics as they are now.

    `identity` is of these topics, `recorded` the identity on the volume before, None on an empty volume. `committed` is
    the input offset that the group had. `earlier_inputs` are ids of what this worker read before the stream had
    routers: its store is of the same stream.
    """

    topics: Topics
    input_topic: Topic
    output_topic: Topic
    identity: Identity
    recorded: Identity | None
    committed: Committed | None = None
    earlier_inputs: frozenset[str] = frozenset()

    @property
    def same_input(self) -> bool:
        """Return whether an offset that names no topic is of this input topic."""
        return self.recorded is None or self.recorded.input_topic_id == self.input_topic.id

    @property
    def same_stream(self) -> bool:
        """Return whether the volume is of this input topic, or of the one before routers."""
        return self.same_input or (
            self.recorded is not None and self.recorded.input_topic_id in self.earlier_inputs
        )


def take_over(
    factory: ComponentFactory,
    topics: Topics,
    recorded: Identity | None,
    reader: PartitionReader,
    stop: Event,
) -> tuple[TakenOver, PartitionOutput]:
    """Describe the topics, check them against the volume, and fence an older worker.

    Raises Fenced instead if a newer worker came after this process's last session.
    """
    config = factory.config
    spec, number = config.stream.spec, config.partition
    input_topic, output_topic, *_ = [
        topics.describe(name, number, needed) for name, needed in needed_rights(spec).items()
    ]
    identity = Identity(
        stream=config.stream_id,
        partition=number,
        input_topic_id=input_topic.id,
        output_topic_id=output_topic.id,
        id_source=id_source_text(spec.id),
    )
    config.state.check_id_source(recorded, identity)
    factory.worker_state.clear_client_error()
    written = [output_topic.name, *routed_topics(spec)]
    output = factory.make_output(min(map(topics.max_message_bytes, written)))
    partition = TakenOver(
        topics=topics,
        input_topic=input_topic,
        output_topic=output_topic,
        identity=identity,
        recorded=recorded,
    )
    if factory.take_over.recorded_before:
        # `fence` ends an own transaction that is open: until then its offset would be waited for in vain.
        read = reader.committed_now if factory.take_over.is_open else reader.committed
        factory.take_over.check(committed_offset(partition, read, config.group))
    try:
        output.fence(stop)
        committed = committed_offset(partition, reader.committed, config.group)
        if committed:
            _check_topics(partition, committed)
            reader.last_read = committed.last_read
            output.take_over(committed, reader)
    except Fenced as error:
        raise TakeOverContested(
            f"{error}; another producer took over at the same time, taking over again"
        ) from error
    return replace(partition, committed=committed), output


def _check_topics(partition: TakenOver, committed: Committed) -> None:
    """Raise an error if a topic was created again before the take-over.

    The worker may have stood still since it described the topics, and the older one has read or written the new ones:
    what it committed counts. The error is InputTopicReplaced or OutputTopicReplaced.
    """
    of = decode_metadata(committed.metadata)
    for described, named, error in (
        (partition.output_topic, of.output_topic, OutputTopicReplaced),
        (partition.input_topic, of.input_topic, InputTopicReplaced),
    ):
        if named in {"", described.id} or not has_id(described.id):
            continue
        found = partition.topics.describe(described.name, partition.identity.partition)
        if found.id != described.id:
            raise error(
                f"topic {described.name} was deleted and created again during the start; starting again"
            )


def committed_offset(
    partition: TakenOver, read: Callable[[], Committed | None], group: str
) -> Committed | None:
    """Return what `read` says that the group has committed. Raises StreamError."""
    try:
        return read()
    except BrokerUnavailable:
        partition.topics.check_group(group)
        raise
