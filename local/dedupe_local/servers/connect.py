"""The Kafka of a local command: the manifest's, an option's, or an embedded one.

Invariant: an embedded broker is started only if it is asked for. One that a user does not expect is empty, and looks
like a cluster that has lost its topics.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dedupe_crds.spec.stream import DedupeStream
from dedupe_kafka.client import read_properties
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.reachable import check_reachable
from dedupe_local.run.preflight import embedded_port, refuse_unsupported
from dedupe_local.run.stream_changes import with_bootstrap_servers
from dedupe_local.servers.kafka import EmbeddedBroker
from dedupe_local.state_dir import StateDir

_ADVICE = " (spec.kafka.bootstrapServers or --bootstrap-servers); --embedded starts a broker here"


@dataclass(frozen=True, kw_only=True)
class KafkaOptions:
    """The options about Kafka that commands share.

    Without `bootstrap_servers` and `embedded` the manifest names the cluster. `embedded` starts a broker in the state
    directory; input topics that are absent are created with `partitions` each.
    """

    bootstrap_servers: str | None = None
    embedded: bool = False
    state_dir: Path | None = None
    kafka_properties: Path | None = None
    partitions: int | None = None

    def check(self, stream: DedupeStream) -> None:
        """Raise Refused if the options do not fit together, or not the manifest."""
        refuse_unsupported(
            stream,
            has_properties=self.kafka_properties is not None,
            embedded=self.embedded,
            has_servers=self.bootstrap_servers is not None,
            has_partitions=self.partitions is not None,
        )


@dataclass(frozen=True, kw_only=True)
class Kafka:
    """The stream at the brokers that the command uses.

    `servers` are these brokers if the manifest does not name them; `broker` is the embedded one, if there is one.
    """

    stream: DedupeStream
    servers: str | None = None
    broker: EmbeddedBroker | None = None


@contextmanager
def connected(stream: DedupeStream, options: KafkaOptions, state: StateDir) -> Iterator[Kafka]:
    """Wait for the cluster's answer, or run an embedded broker with the input topics.

    Raises:
        BrokerUnavailable: no broker can be reached; within seconds if all refuse or their hosts are unknown.
    """
    if options.embedded:
        with EmbeddedBroker(
            state.broker, embedded_port(stream.spec.kafka.bootstrap_servers)
        ) as broker:
            servers = broker.bootstrap_servers
            for name in stream.spec.input.names:
                Cluster(servers).ensure_input(name, options.partitions)
            stream = with_bootstrap_servers(stream, servers)
            yield Kafka(stream=stream, servers=servers, broker=broker)
        return
    servers = options.bootstrap_servers or stream.spec.kafka.bootstrap_servers
    check_reachable(servers, read_properties(options.kafka_properties), advice=_ADVICE)
    stream = with_bootstrap_servers(stream, servers)
    yield Kafka(stream=stream, servers=options.bootstrap_servers)
