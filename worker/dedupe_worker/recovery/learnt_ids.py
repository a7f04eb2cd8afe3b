"""Read again the ids that a partition has learnt from older outputs.

A full reconcile calls it for a partition that a growth has added: its store has ids of its own output, and these. The
cuts are in the epoch log, because the partition has learnt up to them before (learning.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from threading import Event
from typing import Final

import numpy as np
from confluent_kafka import Message

from dedupe_crds.spec.repartition import Repartition
from dedupe_growth.epochs import Epochs
from dedupe_ids.batch import Mask
from dedupe_ids.extract import ID_BYTES, Extractor, PackedIds
from dedupe_ids.route import Route
from dedupe_kafka.offsets import OffsetRange
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.kafka.output_reader import OutputReader
from dedupe_worker.recovery.hidden_records import HiddenRecords
from dedupe_worker.recovery.taken_over import TakenOver

_ID: Final = np.dtype(f"V{ID_BYTES}")


def readable_cuts(partition: TakenOver, cuts: Mapping[int, int]) -> dict[int, int]:
    """Return up to where each old output can be read: its cut, or its end before that.

    An output ends before its cut if it was deleted and created again, or has lost records.
    """
    topics, name = partition.topics, partition.output_topic.name
    return {each: min(cut, topics.high_watermark(name, each)) for each, cut in cuts.items()}


def open_outputs(factory: ComponentFactory, partition: TakenOver) -> OutputReader:
    """Make the reader of old outputs, which waits for open transactions."""
    topic, servers = partition.output_topic.name, factory.config.stream.spec.kafka.bootstrap_servers
    hidden = HiddenRecords(partition.topics, topic, servers, factory.worker_state)
    return factory.make_output_reader(topic, hidden)


def own_rows(
    route: Route, records: Sequence[Message], ids: PackedIds, number: int
) -> tuple[Mask, bytes]:
    """Return the mask (n,) of a partition's own ids in a batch, and these joined."""
    own: Mask = np.array(route.of(records).partitions)[ids.rows] == number
    return own, np.frombuffer(ids.packed, _ID)[own].tobytes()


@dataclass(frozen=True, slots=True)
class LearntIds:
    """The learnt ids of one partition; none without a growth."""

    factory: ComponentFactory
    partition: TakenOver
    repartition: Repartition
    epochs: Epochs
    extract: Extractor
    stop: Event

    @property
    def all_there(self) -> bool:
        """Return whether the old outputs still have each record that was learnt from.

        Asks Kafka. Raises StreamError.
        """
        low = any(offsets.low for offsets in self._there().values())
        return not low and readable_cuts(self.partition, self._cuts) == self._cuts

    def packed(self) -> Iterator[bytes]:
        """Yield joined ids. Ends early once `stop` is set. Raises StreamError."""
        number, cuts = self.factory.config.partition, self._cuts
        if not cuts:
            return
        spec = self.factory.config.stream.spec
        route = Route(spec, self.repartition.by, self.epochs.partitions[self._epoch])
        there = self._there()
        with closing(open_outputs(self.factory, self.partition)) as reader:
            reader.seek(
                {each: offsets.low for each, offsets in there.items()},
                {each: offsets.end for each, offsets in there.items()},
            )
            reader.stop_at(readable_cuts(self.partition, cuts))
            while not (self.stop.is_set() or reader.at_ends):
                for run in reader.read():
                    yield own_rows(route, run.records, self.extract(run.records), number)[1]
                self.factory.worker_state.heartbeat()

    @property
    def _epoch(self) -> int:
        return self.epochs.born(self.factory.config.partition)

    @property
    def _cuts(self) -> Mapping[int, int]:
        cuts = self.epochs.cuts.get(self._epoch)
        return {each: cuts[each] for each in self._sources} if cuts else {}

    @property
    def _sources(self) -> list[int]:
        return self.epochs.sources(self.factory.config.partition)

    def _there(self) -> dict[int, OffsetRange]:
        topics, name = self.partition.topics, self.partition.output_topic.name
        return {each: topics.offsets(name, each) for each in self._sources}
