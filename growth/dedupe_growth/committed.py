"""Read the epochs in the committed offsets of routers and workers.

The controller asks it. Only transactions that have ended count.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from confluent_kafka import TopicPartition

from dedupe_crds.clock import Clock
from dedupe_crds.spec.stream import DedupeStream
from dedupe_growth.routed_offsets import decode_routed
from dedupe_kafka.client import calling, client_config, made
from dedupe_kafka.clients import Clients
from dedupe_kafka.group_offsets import read_group_offsets
from dedupe_kafka.offset_metadata import Cut, decode_metadata, split_token
from dedupe_kafka.offsets import Place

REQUEST_SECONDS: Final = 15.0
"""The longest wait for a broker's answer."""


class CommittedEpochs:
    """The committed offsets of a stream's two groups. Its methods raise StreamError."""

    def __init__(
        self, stream: DedupeStream, properties: Mapping[str, str], clients: Clients, clock: Clock
    ) -> None:
        self._stream = stream
        self._properties = properties
        self._clients = clients
        self._clock = clock

    def of(self, group: str, places: Iterable[Place]) -> dict[Place, TopicPartition]:
        """Return a group's committed offsets."""
        wanted = [TopicPartition(*place) for place in places]
        if not wanted:
            return {}
        config = client_config(self._stream.spec.kafka.bootstrap_servers, self._properties)
        # Not read_committed, which waits for what is open: what has ended counts, and no more is needed.
        options = {"group.id": group, "isolation.level": "read_uncommitted"}
        consumer = made(self._clients.consumer, {**config, **options})
        try:
            found = read_group_offsets(
                consumer,
                wanted,
                timeout_seconds=REQUEST_SECONDS,
                deadline=self._clock.deadline(REQUEST_SECONDS),
            )
        finally:
            with calling(f"reading what {group} has committed"):
                consumer.close()
        return {(at.topic, at.partition): at for at in found if at.offset >= 0}

    def routers(self, counts: Mapping[str, int]) -> dict[Place, TopicPartition]:
        """Return the routers' offsets in inputs with so many partitions."""
        return self.of(
            self._stream.router_group,
            [(topic, each) for topic, count in counts.items() for each in range(count)],
        )

    def routed(self, counts: Mapping[str, int]) -> dict[Place, int]:
        """Return the epoch of each of these offsets."""
        return {
            place: decode_routed(at.metadata).epoch for place, at in self.routers(counts).items()
        }

    def cuts(self, workers: int) -> dict[int, Cut]:
        """Return the cut of each worker that has one, by partition."""
        topic = self._stream.spec.worker_input
        found = self.of(self._stream.consumer_group, [(topic, each) for each in range(workers)])
        cuts = {
            partition: decode_metadata(split_token(at.metadata)[0]).cut
            for (_, partition), at in found.items()
        }
        return {partition: cut for partition, cut in cuts.items() if cut is not None}
