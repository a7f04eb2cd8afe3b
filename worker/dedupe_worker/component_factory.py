"""Make the Kafka clients, the store and the loop of a session.

`Session` and `recovery` call it. It is the seam at which a test puts something between the loop and a component.
"""

from threading import Event
from typing import TYPE_CHECKING, Any

import structlog
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

from dedupe_crds.spec.topics import Delivery
from dedupe_ids.extract import Extractor
from dedupe_kafka.client import client_config, kafka_error, made
from dedupe_kafka.client_config import consumer_config, producer_config
from dedupe_kafka.errors import NotAuthorized
from dedupe_worker.admin.reconcile_requests import ReconcileRequests
from dedupe_worker.clock import SYSTEM_CLOCK, Clock
from dedupe_worker.config import WorkerConfig
from dedupe_worker.dedup.classify import Classifier
from dedupe_worker.dedup.loop import Loop, LoopConfig
from dedupe_worker.dedup.policy import policy_of
from dedupe_worker.dedup.uncommitted_output import UncommittedIds
from dedupe_worker.dedup.window import Window
from dedupe_worker.kafka.admin import Topics
from dedupe_worker.kafka.consumer import PartitionReader
from dedupe_worker.kafka.non_transactional import NonTransactionalOutput
from dedupe_worker.kafka.producer import PartitionOutput, TransactionalOutput
from dedupe_worker.side_topics.writers import side_topic_writers
from dedupe_worker.status import WorkerState
from dedupe_worker.store.api import IdStore
from dedupe_worker.store.column_families import CURRENT
from dedupe_worker.store.inverse_bloom.segments import MANIFEST
from dedupe_worker.store.inverse_bloom.store import check_table, open_table
from dedupe_worker.store.rocksdb import Store

if TYPE_CHECKING:
    from dedupe_worker.snapshots.upload_manager import UploadManager

log = structlog.get_logger()


class ComponentFactory:
    """Make the components of one partition's sessions."""

    def __init__(self, config: WorkerConfig, clock: Clock = SYSTEM_CLOCK) -> None:
        self.config = config
        self.clock = clock
        self.policy = policy_of(config.stream.spec)
        self.worker_state = WorkerState(config.stream, config.partition, clock)
        self.requests = ReconcileRequests(self.worker_state, config.state.reconcile_answer)
        self.upload_manager = self._make_upload_manager()
        kafka = config.stream.spec.kafka
        self._servers = kafka.bootstrap_servers
        self._tuning = config.stream.spec.worker.tuning

    def _make_upload_manager(self) -> "UploadManager | None":
        snapshots = self.config.stream.spec.snapshots
        if snapshots is None or snapshots.s3 is None:
            return None
        # Here, because boto3 is a fifth of a worker's start, and most streams have no bucket.
        from dedupe_worker.snapshots.upload_manager import UploadManager  # noqa: PLC0415

        return UploadManager(
            snapshots.s3,
            self.worker_state,
            self.config.state,
            deadline=snapshots.deadline,
            clock=self.clock,
        )

    def make_topics(self, stop: Event) -> Topics:
        """Make the client for queries to the cluster."""
        admin = made(
            AdminClient, self._watched(client_config(self._servers, self.config.properties))
        )
        return Topics(admin, stop, self.clock)

    def make_reader(self, topic: str) -> PartitionReader:
        """Make a reader of this worker's partition of `topic`."""
        config = consumer_config(
            self._servers,
            self.config.properties,
            group=self.config.group,
            queue_bytes=self._tuning.queue_bytes,
        )
        consumer = made(Consumer, self._watched(config))
        return PartitionReader(consumer, topic, self.config.partition, self.clock)

    def make_output(self, largest_batch_bytes: int) -> PartitionOutput:
        """Make the producer of the output partition."""
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
            return TransactionalOutput(
                producer, spec.output.topic, self.config.partition, self.clock
            )
        return NonTransactionalOutput(config, spec.output.topic, self.config.partition, self.clock)

    def make_store(self) -> IdStore:
        """Open the store in the state directory.

        A store of another type is discarded, and so rebuilt from the output topic.
        """
        state, table = self.config.state, self.config.stream.spec.store.inverse_bloom
        value_bytes = self.policy.layout.dtype.itemsize
        if (state.database / (CURRENT if table else MANIFEST)).exists():
            if table:  # a table that is refused must not cost the existing store
                check_table(state.database, table, value_bytes)
            log.warning("store is of another type", wanted=self.config.stream.spec.store.type)
            state.discard_store()
        if table:
            return open_table(state.database, self.config.bounds, table, value_bytes, self.clock)
        return Store(
            state.database,
            self.config.bounds,
            block_cache_bytes=self._tuning.block_cache_bytes,
            clock=self.clock,
        )

    def make_loop(
        self,
        output_topic_id: str,
        *,
        reader: PartitionReader,
        output: PartitionOutput,
        window: Window,
        extract: Extractor,
        uncommitted: UncommittedIds,
        record_limit: int,
    ) -> Loop:
        """Make the loop; `record_limit` bounds its transactions, see supervisor.py."""
        spec = self.config.stream.spec
        limit = min(record_limit, self.config.bounds.largest_write_records)
        return Loop(
            LoopConfig(
                input_topic=spec.input.topic,
                partition=self.config.partition,
                commit_interval_seconds=self._tuning.commit_interval.total_seconds(),
                max_batch_records=min(limit, self._tuning.max_batch_records),
                max_transaction_records=min(limit, self._tuning.max_transaction_records),
            ),
            reader=reader,
            output=output,
            window=window,
            classifier=Classifier(
                self.policy,
                partition=self.config.partition,
                window=window,
                extract=extract,
                uncommitted=uncommitted,
            ),
            logs=side_topic_writers(spec, output_topic_id),
            worker_state=self.worker_state,
            clock=self.clock,
        )

    def _watched(self, config: dict[str, Any]) -> dict[str, Any]:
        return {**config, "error_cb": self._on_client_error}

    def _on_client_error(self, error: KafkaError) -> None:
        """Record an error that no call raises, because the client retries.

        Examples: brokers that cannot be reached, credentials that are refused.
        """
        named = kafka_error(error, "Kafka client")
        # "All brokers are down" follows the cause, which is more specific.
        if not isinstance(self.worker_state.client_error, NotAuthorized):
            self.worker_state.report_client_error(named)
