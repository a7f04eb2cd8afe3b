"""Run one router, from its start to a stop or a failure, in this order.

    1  read how many partitions there are, and describe the topics
    2  take over the number of this router (fences an older process, aborts its open transaction)
    3  join the consumer group
    4  route batch after batch

`Supervisor` runs one session after another. A failure anywhere ends the session with a named error; the next one
begins at 1, and the group's offsets say what is routed.
"""

from contextlib import ExitStack
from threading import Event
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError

from dedupe_crds.clock import Clock
from dedupe_crds.spec.topics import Delivery
from dedupe_growth.log import open_epochs
from dedupe_kafka.client import kafka_error, made
from dedupe_kafka.client_config import consumer_config, producer_config
from dedupe_kafka.clients import CLIENTS, Clients
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import BrokerUnavailable, NotAuthorized, StreamError
from dedupe_kafka.fetch_progress import STATISTICS_MS, FetchProgress
from dedupe_router.adoption import Adoption
from dedupe_router.config import RouterConfig
from dedupe_router.held import HeldInputs
from dedupe_router.loop import Loop
from dedupe_router.lost_tail import LostTails
from dedupe_router.output import (
    TRANSACTION_SECONDS,
    NonTransactionalOutput,
    Output,
    TransactionalOutput,
)
from dedupe_router.reader import InputReader
from dedupe_router.stalls import StallWatch
from dedupe_router.start import StartFinder
from dedupe_router.state import RouterState
from dedupe_router.watch import StreamWatch

# As long as a transaction may last: the partitions of a killed router are given away after it.
_SESSION_MS: Final = 10_000
_HEARTBEAT_MS: Final = 2_000
# How soon added partitions of an input are noticed.
_METADATA_MS: Final = 10_000
# More at once would not fit into a processor's cache; fewer would be more transactions.
_MOST_RECORDS: Final = 10_000


class Session:
    """One run of the steps above. Every Kafka client is made through `clients`."""

    def __init__(
        self,
        config: RouterConfig,
        state: RouterState,
        clock: Clock,
        stop: Event,
        clients: Clients = CLIENTS,
        *,
        output_queue_bytes: int,
    ) -> None:
        self._config = config
        self._spec = config.stream.spec
        self._state = state
        self._clock = clock
        self._stop = stop
        self._clients = clients
        self._output_queue_bytes = output_queue_bytes

    def run(self) -> None:
        """Run until `stop` is set. Raises StreamError for a failure before."""
        try:
            self._run()
        except BrokerUnavailable as error:
            cause = self._state.client_error
            if isinstance(cause, NotAuthorized):
                raise cause from error
            raise

    def _run(self) -> None:
        config, spec = self._config, self._spec
        cluster = Cluster(
            config.servers, config.properties, clients=self._clients, clock=self._clock
        )
        with ExitStack() as cleanup:
            epochs = open_epochs(
                self._clients.consumer,
                *(config.stream, config.properties, self._clock),
                error_cb=self._on_client_error,
            )
            cleanup.callback(epochs.close)
            adoption = Adoption(epochs, spec, config.repartition.by)
            adoption.begin(self._stop)
            watch = StreamWatch(config, cluster, adoption, self._state, self._clock)
            watch.check()
            progress = FetchProgress()
            consumer = self._consumer(progress)
            starts = StartFinder(consumer, cluster, self._clock, self._state.warn, adoption)
            tails = LostTails(spec.input.accept_truncated or (), self._state.warn)
            reader = InputReader(consumer, starts, self._clock, self._on_rebalance, tails, progress)
            cleanup.callback(reader.close)
            output = self._output(cluster, reader)
            output.fence(self._stop)
            starts.require_offsets(watch.topics, routed=watch.has_routed)
            loop = Loop(
                reader=reader,
                output=output,
                adoption=adoption,
                watch=watch,
                held_inputs=HeldInputs(cluster, config.servers, self._state, self._clock),
                stalls=StallWatch(cluster, reader),
                state=self._state,
                clock=self._clock,
                most=_MOST_RECORDS,
            )
            while not self._stop.is_set():
                loop.turn()

    def _consumer(self, progress: FetchProgress) -> Consumer:
        config = {
            **consumer_config(
                self._config.servers,
                self._config.properties,
                group=self._config.stream.router_group,
                queue_bytes=self._spec.worker.tuning.queue_bytes,
            ),
            # Only what changes hands stops in a rebalance.
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": _SESSION_MS,
            "heartbeat.interval.ms": _HEARTBEAT_MS,
            "topic.metadata.refresh.interval.ms": _METADATA_MS,
            "stats_cb": progress,
            "statistics.interval.ms": STATISTICS_MS,
        }
        consumer: Consumer = made(self._clients.consumer, self._watched(config))
        return consumer

    def _output(self, cluster: Cluster, reader: InputReader) -> Output:
        exactly_once = self._spec.delivery is Delivery.EXACTLY_ONCE
        topic = self._spec.worker_input
        described = cluster.topic(topic)
        largest = described.number("max.message.bytes") if described else 0
        config = self._watched(
            producer_config(
                self._config.servers,
                self._config.properties,
                transactional_id=self._config.transactional_id if exactly_once else None,
                queue_bytes=self._output_queue_bytes,
                largest_batch_bytes=largest,
                transaction_seconds=TRANSACTION_SECONDS,
            )
        )
        if exactly_once:
            return TransactionalOutput(made(self._clients.producer, config), topic, self._clock)
        return NonTransactionalOutput(
            config,
            topic,
            self._clock,
            commit=reader.commit,
            make_producer=self._clients.producer,
        )

    def _on_rebalance(self) -> None:
        self._state.tally.rebalances += 1

    def _watched(self, config: dict[str, Any]) -> dict[str, Any]:
        return {**config, "error_cb": self._on_client_error}

    def _on_client_error(self, error: KafkaError) -> None:
        """Record an error that no call raises, because the client retries."""
        named: StreamError = kafka_error(error, "Kafka client")
        self._state.report_client_error(named)
