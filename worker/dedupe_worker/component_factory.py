"""Make the Kafka clients, the store and the loop of a session.

`Session` and `recovery` call it. It is the seam at which a test puts something between the loop and a component.
"""

from collections.abc import Callable
from threading import Event
from typing import TYPE_CHECKING, Any

import structlog
from confluent_kafka import KafkaError

from dedupe_crds.clock import SYSTEM_CLOCK, Clock
from dedupe_crds.spec.topics import Delivery, Mode
from dedupe_crds.status.worker import Phase
from dedupe_growth.log import EpochReader, open_epochs
from dedupe_ids.extract import Extractor
from dedupe_kafka.client import client_config, kafka_error, made
from dedupe_kafka.client_config import consumer_config, producer_config
from dedupe_kafka.clients import CLIENTS, Clients
from dedupe_kafka.errors import NotAuthorized
from dedupe_kafka.topic_id import has_id
from dedupe_worker.admin.reconcile_requests import ReconcileRequests
from dedupe_worker.config import WorkerConfig
from dedupe_worker.dedup.ageing_clock import AgeingClock
from dedupe_worker.dedup.border import NoBorder
from dedupe_worker.dedup.classify import Classifier
from dedupe_worker.dedup.loop import Loop, LoopConfig
from dedupe_worker.dedup.missing_ids import MissingIds
from dedupe_worker.dedup.policy import policy_of
from dedupe_worker.dedup.uncommitted_output import UncommittedIds
from dedupe_worker.dedup.window import Window
from dedupe_worker.kafka.admin import Topic, Topics
from dedupe_worker.kafka.consumer import PartitionReader
from dedupe_worker.kafka.follow_up import follow_up
from dedupe_worker.kafka.key_sample import KeyCounter
from dedupe_worker.kafka.non_transactional import NonTransactionalOutput
from dedupe_worker.kafka.open_reader import open_output_reader, open_reader
from dedupe_worker.kafka.output_reader import Hidden, OutputReader
from dedupe_worker.kafka.producer import PartitionOutput
from dedupe_worker.kafka.take_over import TakeOver
from dedupe_worker.kafka.topic_watch import TopicWatch
from dedupe_worker.kafka.transactional import TransactionalOutput
from dedupe_worker.side_topics.writers import side_topic_writers
from dedupe_worker.status import Degraded, Progress, WorkerState, show_progress
from dedupe_worker.store.api import IdStore
from dedupe_worker.store.column_families import CURRENT
from dedupe_worker.store.inverse_bloom.capacity import check_table
from dedupe_worker.store.inverse_bloom.opening import open_table
from dedupe_worker.store.inverse_bloom.segments import MANIFEST
from dedupe_worker.store.progress import Step
from dedupe_worker.store.rocksdb import Store

if TYPE_CHECKING:
    from dedupe_worker.snapshots.upload_manager import UploadManager

log = structlog.get_logger()


class ComponentFactory:
    """Make the components of one partition's sessions."""

    def __init__(
        self, config: WorkerConfig, clock: Clock = SYSTEM_CLOCK, clients: Clients = CLIENTS
    ) -> None:
        self.config = config
        self.clock = clock
        self._clients = clients
        self.policy = policy_of(config.stream.spec)
        self.take_over = TakeOver(clock)
        # Those of the hand-over stand in the offset of another topic.
        self.take_over_before_routers = TakeOver(clock)
        self.worker_state = WorkerState(config.stream, config.partition, clock)
        self.keys = KeyCounter(config.partition, clock)
        self._step: tuple[Step | None, float] = (None, 0.0)
        self.requests = ReconcileRequests(self.worker_state, config.state.reconcile_answer)
        self.upload_manager = self._make_upload_manager()
        self._servers = config.stream.spec.kafka.bootstrap_servers
        self._tuning = config.stream.spec.worker.tuning
        self.output_queue_bytes = self._tuning.queue_bytes
        """The limit of what is sent and not acknowledged."""

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
        """Make the client for queries to the cluster; each answer is a heartbeat."""
        config = self._watched(client_config(self._servers, self.config.properties))
        admin = made(self._clients.admin, config)
        return Topics(admin, stop, self.clock, on_answer=self.worker_state.heartbeat)

    def make_reader(self, topic: str, partition: int | None = None) -> PartitionReader:
        """Make a reader of a partition of `topic`, by default this worker's."""
        number = self.config.partition if partition is None else partition
        return open_reader(self._clients.consumer, self._reading, topic, number, self.clock)

    def make_output_reader(self, topic: str, hidden: Hidden) -> OutputReader:
        """Make a reader of several partitions of the output `topic`."""
        return open_output_reader(self._clients.consumer, self._reading, topic, self.clock, hidden)

    def make_epoch_reader(self) -> EpochReader:
        """Make a reader of the stream's epoch log."""
        of = (self.config.stream, self.config.properties, self.clock)
        return open_epochs(self._clients.consumer, *of, error_cb=self._on_client_error)

    @property
    def _reading(self) -> dict[str, Any]:
        config = consumer_config(
            self._servers,
            self.config.properties,
            group=self.config.group,
            queue_bytes=self._tuning.queue_bytes,
        )
        return self._watched(config)

    def make_output(self, largest_batch_bytes: int) -> PartitionOutput:
        """Make the producer of the output partition."""
        spec = self.config.stream.spec
        exactly_once = spec.delivery is Delivery.EXACTLY_ONCE
        config = self._watched(
            producer_config(
                self._servers,
                self.config.properties,
                transactional_id=self.config.transactional_id if exactly_once else None,
                queue_bytes=self.output_queue_bytes,
                largest_batch_bytes=largest_batch_bytes,
            )
        )
        if exactly_once:
            producer = made(self._clients.producer, config)
            return TransactionalOutput(
                producer, spec.output.topic, self.config.partition, self.clock, self.take_over
            )
        return NonTransactionalOutput(
            config,
            spec.output.topic,
            self.config.partition,
            self.clock,
            make_producer=self._clients.producer,
        )

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
            return open_table(
                state.database,
                self.config.bounds,
                table,
                value_bytes,
                clock=self.clock,
                report=self.report,
            )
        return Store(
            state.database,
            self.config.bounds,
            block_cache_bytes=self._tuning.block_cache_bytes,
            clock=self.clock,
            report=self.report,
        )

    def report(self, step: Step, done: int, total: int) -> None:
        """Record that the store gets on, and show how far it is while it is opened."""
        self.worker_state.heartbeat()
        if self.worker_state.phase is not Phase.STARTING:
            return
        now = self.clock.monotonic()
        if step is not self._step[0]:
            self._step = (step, now)
        show_progress(self.worker_state, step, Progress(done, total - done, now - self._step[1]))

    def make_window(self, store: IdStore) -> Window:
        """Make the window of a store; its ids age from the store's last time on."""
        return Window(
            store,
            self.policy.layout.dtype,
            ageing=AgeingClock(self.clock, store.aged_ms),
            on_dropped=self._report_dropped,
            observes=self.policy.mode is Mode.OBSERVE,
        )

    def make_loop(
        self,
        output_topic_id: str,
        input_topic: str = "",
        *,
        partitions: int,
        reader: PartitionReader,
        output: PartitionOutput,
        window: Window,
        extract: Extractor,
        uncommitted: UncommittedIds,
        border: NoBorder,
        record_limit: int,
    ) -> Loop:
        """Make the loop of a worker; supervisor.py has the `record_limit`."""
        longest = self._tuning.longest_commit_interval(partitions)
        spec = self.config.stream.spec
        limit = min(record_limit, self.config.bounds.largest_write_records)
        return Loop(
            LoopConfig(
                input_topic=spec.worker_input,
                partition=self.config.partition,
                commit_interval_seconds=self._tuning.commit_interval.total_seconds(),
                longest_commit_interval_seconds=longest.total_seconds(),
                max_batch_records=min(limit, self._tuning.max_batch_records),
                max_transaction_records=min(limit, self._tuning.max_transaction_records),
                proves_input=not has_id(output_topic_id),
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
                on_read=self.keys.offer if spec.repartition is None else lambda _: None,
                routed_from=spec.worker_input if spec.repartition else None,
            ),
            missing_ids=MissingIds(spec.id, self.worker_state),
            logs=side_topic_writers(
                spec,
                output_topic_id,
                input_topic,
                window.store.origins if spec.repartition else None,
                transactional_id=self.config.transactional_id,
            ),
            border=border,
            worker_state=self.worker_state,
            clock=self.clock,
        )

    def make_follow_up(
        self,
        topics: Topics,
        input_topic: Topic,
        output_topic: Topic,
        reader: PartitionReader,
        output: PartitionOutput,
        *,
        window: Window,
    ) -> Callable[[TopicWatch], None]:
        """Return what to do each time the topics were checked, see follow_up.py."""
        spec = self.config.stream.spec
        return follow_up(
            topics,
            input_topic,
            output_topic,
            reader,
            output,
            self.keys,
            partition=self.config.partition,
            servers=spec.kafka.bootstrap_servers,
            origins=window.store.origins if spec.repartition else None,
            worker_state=self.worker_state,
            clock=self.clock,
        )

    def _report_dropped(self, generations: int) -> None:
        if generations < 2:
            return
        log.warning("several generations dropped at once", generations=generations)
        why = (
            f"{generations} generations of ids were dropped at once: the window's bounds were lowered, or the ids were "
            "learnt at one time, as in a rebuild; their repeats pass now"
        )
        self.worker_state.degradations.record(Degraded.GENERATIONS_DROPPED, why)

    def _watched(self, config: dict[str, Any]) -> dict[str, Any]:
        return {**config, "error_cb": self._on_client_error}

    def _on_client_error(self, error: KafkaError) -> None:
        """Record an error that no call raises, as of brokers that can't be reached."""
        named = kafka_error(error, "Kafka client")
        # "All brokers are down" follows the cause, which is more specific.
        if not isinstance(self.worker_state.client_error, NotAuthorized):
            self.worker_state.report_client_error(named)
