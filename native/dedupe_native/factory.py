"""Make a worker's components, those of its input and output over the extension."""

from typing import Any, Final, cast

import structlog
from confluent_kafka import Producer

from dedupe_crds.clock import SYSTEM_CLOCK, Clock
from dedupe_crds.spec.topics import Delivery, IdFrom
from dedupe_kafka.client import made
from dedupe_kafka.client_config import TRANSACTION_SECONDS, producer_config
from dedupe_kafka.clients import CLIENTS, Clients
from dedupe_kafka.errors import InvalidConfig
from dedupe_kafka.side_topics import metadata_topics, routed_topics
from dedupe_native._native import Writer
from dedupe_native.output import NativeOutput, NativeProducer
from dedupe_native.reader import NativeReader
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.config import WorkerConfig
from dedupe_worker.kafka.consumer import PartitionReader
from dedupe_worker.kafka.producer import PartitionOutput

_COMPRESSION: Final = "compression.type"
_CODECS: Final = ("lz4", "none")

log = structlog.get_logger()


class NativeFactory(ComponentFactory):
    """The components of one partition's sessions.

    Raises InvalidConfig for a stream that is beyond the experiment.
    """

    def __init__(
        self, config: WorkerConfig, clock: Clock = SYSTEM_CLOCK, clients: Clients = CLIENTS
    ) -> None:
        if missing := find_missing(config):
            raise InvalidConfig(f"the experimental native path has no {', no '.join(missing)}")
        super().__init__(config, clock, clients)
        log.warning("the experimental native path is on")

    def make_reader(self, topic: str, partition: int | None = None) -> PartitionReader:
        """Make a reader of a partition: of the worker's own input over the extension."""
        if topic != self.config.stream.spec.worker_input or partition is not None:
            return super().make_reader(topic, partition)
        consumer = made(self._clients.consumer, self._reading)
        where = consumer, topic, self.config.partition, self.clock
        queue_bytes = self._tuning.queue_bytes
        return NativeReader(*where, servers=self._servers, queue_bytes=queue_bytes)

    def make_output(self, largest_batch_bytes: int) -> PartitionOutput:
        """Make the producer of the output partition over the extension."""
        config, topic = self.config, self.config.stream.spec.output.topic
        settings = producer_config(
            self._servers,
            config.properties,
            transactional_id=config.transactional_id,
            queue_bytes=self._tuning.queue_bytes,
            largest_batch_bytes=largest_batch_bytes,
        )

        def make_writer(seconds: float) -> Any:  # noqa: ANN401 (Writer, of a module without types)
            return Writer(
                self._servers,
                topic=topic,
                partition=config.partition,
                transactional_id=config.transactional_id,
                group=config.group,
                transaction_ms=int(TRANSACTION_SECONDS * 1000),
                batch_bytes=settings["batch.size"],
                compressed=settings[_COMPRESSION] == "lz4",
                seconds=seconds,
            )

        producer = cast("Producer", NativeProducer(make_writer))  # its methods that are used
        return NativeOutput(producer, topic, config.partition, self.clock, self.take_over)


def find_missing(config: WorkerConfig) -> list[str]:
    """Return what a worker needs and the native path does not have."""
    spec, properties = config.stream.spec, config.properties
    found = {
        "AtLeastOnce": spec.delivery is not Delivery.EXACTLY_ONCE,
        "ids but those from keys": spec.id.from_ is not IdFrom.KEY,
        "routers": spec.repartition is not None,
        "side topics": bool(routed_topics(spec) or metadata_topics(spec)),
        f"Kafka properties but {_COMPRESSION}": not properties.keys() <= {_COMPRESSION},
        "compression but lz4": properties.get(_COMPRESSION, "lz4") not in _CODECS,
    }
    return [each for each, is_missing in found.items() if is_missing]
