"""What a session is built of, and the seam at which a test puts something between the loop and a part."""

from threading import Event
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

from dedupe_kafka.client import client_config, kafka_error, made
from dedupe_kafka.errors import NotAuthorized
from dedupe_worker.board import Board
from dedupe_worker.config import WorkerConfig
from dedupe_worker.input import PartitionReader
from dedupe_worker.kafka_client import consumer_config, producer_config
from dedupe_worker.output import TransactionalOutput
from dedupe_worker.requests import ReconcileRequests
from dedupe_worker.store import Store
from dedupe_worker.topics import Topics

if TYPE_CHECKING:
    from dedupe_worker.s3.keeper import SnapshotKeeper


class Parts:
    """Makes the parts of one partition's sessions."""

    def __init__(self, config: WorkerConfig) -> None:
        self.config = config
        self.board = Board(config.stream, config.partition)
        self.requests = ReconcileRequests(self.board, config.state.reconcile_answer)
        self.keeper = self._keeper()
        kafka = config.stream.spec.kafka
        self._servers = kafka.bootstrap_servers
        self._tuning = config.stream.spec.worker.tuning

    def _keeper(self) -> "SnapshotKeeper | None":
        snapshots = self.config.stream.spec.snapshots
        if snapshots is None or snapshots.s3 is None:
            return None
        # Here, because boto3 is a fifth of a worker's start, and most streams have no bucket.
        from dedupe_worker.s3.keeper import SnapshotKeeper  # noqa: PLC0415

        return SnapshotKeeper(
            snapshots.s3, self.board, self.config.state, deadline=snapshots.deadline
        )

    def topics(self, stop: Event) -> Topics:
        """Questions to the cluster."""
        admin = made(
            AdminClient, self._watched(client_config(self._servers, self.config.properties))
        )
        return Topics(admin, stop)

    def reader(self, topic: str) -> PartitionReader:
        """A reader of this worker's partition of `topic`."""
        config = consumer_config(
            self._servers,
            self.config.properties,
            group=self.config.group,
            queue_bytes=self._tuning.queue_bytes,
        )
        consumer = made(Consumer, self._watched(config))
        return PartitionReader(consumer, topic, self.config.partition)

    def output(self, largest_batch_bytes: int) -> TransactionalOutput:
        """The output partition."""
        config = producer_config(
            self._servers,
            self.config.properties,
            transactional_id=self.config.transactional_id,
            queue_bytes=self._tuning.queue_bytes,
            largest_batch_bytes=largest_batch_bytes,
        )
        producer = made(Producer, self._watched(config))
        return TransactionalOutput(
            producer, self.config.stream.spec.output.topic, self.config.partition
        )

    def store(self) -> Store:
        """The store in the state directory."""
        return Store(
            self.config.state.database,
            self.config.bounds,
            block_cache_bytes=self._tuning.block_cache_bytes,
        )

    def _watched(self, config: dict[str, Any]) -> dict[str, Any]:
        return {**config, "error_cb": self._on_client_error}

    def _on_client_error(self, error: KafkaError) -> None:
        """Brokers out of reach, credentials refused: the client goes on trying and no call raises it."""
        named = kafka_error(error, "Kafka client")
        # "All brokers are down" follows the cause, which says more.
        if not isinstance(self.board.disturbance, NotAuthorized):
            self.board.disturb(named)
