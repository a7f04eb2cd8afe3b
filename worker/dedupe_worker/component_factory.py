"""What a session is built of, and the seam at which a test puts something between the loop and a part."""

from threading import Event
from typing import TYPE_CHECKING, Any

import structlog
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

from dedupe_crds.spec.topics import Delivery
from dedupe_kafka.client import client_config, kafka_error, made
from dedupe_kafka.client_config import consumer_config, producer_config
from dedupe_kafka.errors import NotAuthorized
from dedupe_worker.admin.reconcile_requests import ReconcileRequests
from dedupe_worker.config import WorkerConfig
from dedupe_worker.dedup.judge import policy_of
from dedupe_worker.kafka.admin import Topics
from dedupe_worker.kafka.consumer import PartitionReader
from dedupe_worker.kafka.non_transactional import AcknowledgedOutput
from dedupe_worker.kafka.producer import PartitionOutput, TransactionalOutput
from dedupe_worker.status import Board
from dedupe_worker.store.api import IdStore
from dedupe_worker.store.inverse_bloom.segments import MANIFEST
from dedupe_worker.store.inverse_bloom.store import check_table, open_table
from dedupe_worker.store.rocksdb import CURRENT, Store

if TYPE_CHECKING:
    from dedupe_worker.snapshots.upload_manager import SnapshotKeeper

log = structlog.get_logger()


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
        from dedupe_worker.snapshots.upload_manager import SnapshotKeeper  # noqa: PLC0415

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

    def output(self, largest_batch_bytes: int) -> PartitionOutput:
        """The output partition."""
        spec = self.config.stream.spec
        exactly_once = spec.delivery is Delivery.EXACTLY_ONCE
        config = self._watched(
            producer_config(
                self._servers,
                self.config.properties,
                transactional_id=self.config.transactional_id if exactly_once else None,
                queue_bytes=self._tuning.queue_bytes,
                largest_batch_bytes=largest_batch_bytes,
            )
        )
        if exactly_once:
            producer = made(Producer, config)
            return TransactionalOutput(producer, spec.output.topic, self.config.partition)
        return AcknowledgedOutput(config, spec.output.topic, self.config.partition)

    def store(self) -> IdStore:
        """The store in the state directory; one of another type is discarded, and so rebuilt from the output topic."""
        state, table = self.config.state, self.config.stream.spec.store.inverse_bloom
        value_bytes = policy_of(self.config.stream.spec).layout.dtype.itemsize
        if (state.database / (CURRENT if table else MANIFEST)).exists():
            if table:  # what is refused must not cost the store that is there
                check_table(state.database, table, value_bytes)
            log.warning("store is of another type", wanted=self.config.stream.spec.store.type)
            state.discard_store()
        if table:
            return open_table(state.database, self.config.bounds, table, value_bytes)
        return Store(
            state.database,
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
