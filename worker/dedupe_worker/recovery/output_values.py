"""Make the readers of the values of output records: own ones, and old ones.

`Startup` and `Learning` call it. Where records are routed to side topics, owners come from the owner log.
"""

from contextlib import ExitStack, closing
from datetime import UTC, datetime
from functools import partial

from confluent_kafka import Message

from dedupe_ids.batch import Rows
from dedupe_kafka.offsets import OffsetRange
from dedupe_kafka.side_topics import needs_owner_log, owners_topic
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.dedup.window import Window
from dedupe_worker.kafka.admin import Topics
from dedupe_worker.kafka.consumer import PartitionReader
from dedupe_worker.recovery.taken_over import TakenOver
from dedupe_worker.side_topics.owner_log import CLOCK_SKEW, OutputValues, OwnerLogReader
from dedupe_worker.values import Times, Values


def settled(
    factory: ComponentFactory, topics: Topics, name: str, partition: int | None = None
) -> OffsetRange:
    """Wait until no transaction of another producer hides records of the partition.

    By default it is the own one. Below one the last stable offset stays behind this worker's own records, and it is no
    sign that they are lost.
    """
    try:
        return topics.settled_offsets(
            name,
            factory.config.partition if partition is None else partition,
            servers=factory.config.stream.spec.kafka.bootstrap_servers,
            on_wait=factory.worker_state.report_waiting,
        )
    finally:
        factory.worker_state.clear_waiting()


def own_values(
    factory: ComponentFactory,
    partition: TakenOver,
    window: Window,
    readers: ExitStack,
    *,
    rebuild: bool,
) -> OutputValues:
    """Make the reader of the values of the own output; `readers` closes its consumer."""
    number, layout = factory.config.partition, factory.policy.layout
    if not needs_owner_log(factory.config.stream.spec):
        return OutputValues(layout, partition=number, owner_log=None)
    topic = owners_topic(partition.output_topic.name)
    there = settled(factory, partition.topics, topic)
    start: int | None = there.low
    if (metadata := window.store.metadata) and not rebuild:
        since = datetime.fromtimestamp(metadata.last_seen_ms / 1000, UTC) - CLOCK_SKEW
        start = partition.topics.offset_at(topic, number, since)
    reader = readers.enter_context(closing(factory.make_reader(topic)))
    reader.seek(there.end if start is None else start)
    # Entries that name no topic are of an earlier release; which input they are of is known of the tail only.
    tail_of = partition.input_topic.id if partition.same_input and not rebuild else ""
    owner_log = _owner_log(
        factory,
        *(partition, window, reader, there),
        rewinds=start != there.low,
        unlabelled=tail_of,
    )
    return OutputValues(layout, partition=number, owner_log=owner_log)


def _owner_log(
    factory: ComponentFactory,
    partition: TakenOver,
    window: Window,
    reader: PartitionReader,
    there: OffsetRange,
    *,
    rewinds: bool,
    unlabelled: str = "",
    grows: bool = False,
) -> OwnerLogReader:
    def find_end() -> int:
        return settled(factory, partition.topics, reader.topic, reader.partition).end

    return OwnerLogReader(
        reader,
        there.end,
        partition.output_topic.id,
        rewind=partial(reader.seek, there.low) if rewinds else None,
        input_topic=partition.input_topic.id,
        unlabelled=unlabelled,
        origins=window.store.origins if factory.config.stream.spec.repartition else None,
        on_read=factory.worker_state.heartbeat,
        find_end=find_end if grows else None,
    )


class ValuesOfOutputs:
    """The values of other outputs' records; `readers` closes its consumers."""

    def __init__(
        self,
        factory: ComponentFactory,
        partition: TakenOver,
        window: Window,
        readers: ExitStack,
    ) -> None:
        self._factory = factory
        self._partition = partition
        self._window = window
        self._readers = readers
        self._made: dict[int, OutputValues] = {}

    def of(self, number: int, records: list[Message], rows: Rows, times: Times) -> Values:
        """Return the values of `rows` (n,) of a batch of an output partition: shape (n,)."""
        if number not in self._made:
            self._made[number] = self._make(number)
        return self._made[number].values(records, rows, times)

    def _make(self, number: int) -> OutputValues:
        factory, owner_log = self._factory, None
        if needs_owner_log(factory.config.stream.spec):
            topic = owners_topic(self._partition.output_topic.name)
            there = self._partition.topics.offsets(topic, number)
            reader = factory.make_reader(topic, number)
            self._readers.enter_context(closing(reader))
            reader.seek(there.low)
            owner_log = _owner_log(
                factory, self._partition, self._window, reader, there, rewinds=False, grows=True
            )
        return OutputValues(factory.policy.layout, partition=number, owner_log=owner_log)
