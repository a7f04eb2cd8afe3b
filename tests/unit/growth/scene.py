"""A stream with routers on the simulated Kafka, as its controllers see it."""

from collections.abc import Collection
from typing import Final

from dedupe_crds.manifest import parse_manifest
from dedupe_growth.controller import GrowthController
from dedupe_growth.entries import Entry, Record, decode_entry, encode_entry
from dedupe_growth.epochs import Epochs, epochs_of
from dedupe_growth.log import EpochReader, open_epochs
from dedupe_growth.mark import Mark, mark_of
from dedupe_growth.routed_offsets import encode_routed
from dedupe_growth.writer import TRANSACTION_SECONDS, EpochWriter
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import StreamError
from dedupe_kafka.offset_metadata import Cut, encode_metadata, with_token
from dedupe_kafka.offsets import TopicOffsets
from tests.simulation.kafka.calls import Call, Hook, Moment
from tests.simulation.kafka.cluster import SimKafka, no_faults, record
from tests.simulation.kafka.groups import Committed
from tests.simulation.kafka.simple_clock import SimpleClock
from tests.unit.crds.manifests import changed

EPOCHS: Final = "orders-clean-epochs"
BETWEEN: Final = "orders-clean-repartition"
STREAM: Final = parse_manifest(changed({"spec.repartition": {"partitions": 2}}), "-")
TRANSACTIONAL_ID: Final = "default.orders.epochs"


class Scene:
    """A cluster with the topics of the stream `orders`, and 2 partitions of each but the epoch log."""

    def __init__(self) -> None:
        self.clock = SimpleClock()
        self.cluster = SimKafka(self.clock)
        for name, partitions in (("orders", 2), ("orders-clean", 2), (BETWEEN, 2), (EPOCHS, 1)):
            self.cluster.create_topic(name, partitions)
        self.hidden: set[str] = set()
        self.unreadable: dict[str, StreamError] = {}

    # -- whom a test watches -------------------------------------------------------------------------

    def reader(self, process: str = "reader", hook: Hook = no_faults) -> EpochReader:
        clients = self.cluster.clients(process, hook)
        return open_epochs(clients.consumer, STREAM, {}, self.clock)

    def writer(self, process: str = "writer", hook: Hook = no_faults) -> EpochWriter:
        producer = self.cluster.clients(process, hook).producer(
            {
                "transactional.id": TRANSACTIONAL_ID,
                "transaction.timeout.ms": TRANSACTION_SECONDS * 1000,
            }
        )
        return EpochWriter(producer, self.reader(process, hook), EPOCHS, self.clock)

    def controller(self, process: str = "controller", hook: Hook = no_faults) -> GrowthController:
        clients = self.cluster.clients(process, hook)
        return GrowthController(STREAM, {}, self, clock=self.clock, clients=clients)

    def topic_names(self) -> list[str]:
        return self.cluster.topics.names()

    def partition_counts(self, names: Collection[str]) -> dict[str, int]:
        """Return those of the topics that may be described."""
        found = {name: self.cluster.topics.find(name) for name in {*names} - self.hidden}
        return {name: len(topic.logs) for name, topic in found.items() if topic}

    def offsets(self, name: str) -> TopicOffsets:
        """Return a topic's id and offsets, as a cluster does."""
        cluster = Cluster(
            "sim:9092", {}, clients=self.cluster.clients("admin", no_faults), clock=self.clock
        )
        return cluster.offsets(name)

    def offsets_of(self, name: str, partitions: Collection[int]) -> TopicOffsets:
        """Return what keeps a client from reading a topic, if something does."""
        failed = dict.fromkeys(partitions, self.unreadable[name]) if name in self.unreadable else {}
        return TopicOffsets(topic=name, id="", lows={}, ends={}, failed=failed)

    # -- the epoch log -------------------------------------------------------------------------------

    def write(self, *records: Record) -> None:
        """Write to the epoch log without a writer."""
        self.cluster.write(EPOCHS, 0, [record(each.key, each.value) for each in records])

    def enter(self, *entries: Entry) -> None:
        known = len(self.entries)
        self.write(*[encode_entry(number, each) for number, each in enumerate(entries, known)])

    @property
    def entries(self) -> list[Entry]:
        """Return what is in the log, whose numbers have no gap."""
        return [
            decode_entry(number, Record(each.key() or b"", each.value() or b""))
            for number, each in enumerate(self.cluster.visible(EPOCHS, 0))
        ]

    @property
    def epochs(self) -> Epochs:
        return epochs_of(self.entries)

    # -- routers and workers -------------------------------------------------------------------------

    def grow(self, partitions: int) -> None:
        """Add partitions to the stream's topics, as the operator does."""
        for name in ("orders-clean", BETWEEN):
            self.cluster.add_partitions(name, partitions)

    def route(self, partition: int, epoch: int, topic: str = "orders") -> None:
        """Commit an input offset as a router of this epoch does."""
        self._commit(STREAM.router_group, topic, partition, encode_routed("In1", epoch))

    def pass_epoch(self, partition: int, epoch: int, position: int) -> None:
        """Commit an offset as a worker that has passed an epoch does."""
        text = encode_metadata("Out1", "Btw1", None, Cut(epoch, position))
        self._commit(STREAM.consumer_group, BETWEEN, partition, with_token(text, "3-17"))

    def read_directly(self, partition: int, cut: Cut | None = None) -> None:
        """Commit an offset of the input as a worker without routers does, the last one with a cut."""
        text = encode_metadata("Out1", self.offsets("orders").id, None, cut)
        self._commit(STREAM.consumer_group, "orders", partition, with_token(text, "3-17"))

    def _commit(self, group: str, topic: str, partition: int, metadata: str) -> None:
        groups = self.cluster.groups
        committed = Committed(7, metadata)
        groups.commit((group, topic, partition), committed, groups.next_commit())

    def marks(self, partition: int) -> list[Mark | None]:
        """Return the records of the repartition topic, which are marks, or None."""
        return [mark_of(each) for each in self.cluster.visible(BETWEEN, partition)]


def once(name: str, moment: Moment, do: Hook) -> Hook:
    """Return a hook that does something at the first such call."""
    left = [do]

    def hook(call: Call) -> None:
        if left and (call.name, call.moment) == (name, moment):
            left.pop()(call)

    return hook
