"""A Kafka cluster: describe, check and create its topics.

The operator, the local runner, the pipeline and the readers of chunk filters use it. Invariant: each request is bounded
in time, and whatever Kafka answers is checked or reported, never assumed.
"""

from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from datetime import timedelta
from functools import partial

from confluent_kafka import IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import NewPartitions, NewTopic  # type: ignore[attr-defined] # public names

from dedupe_crds.clock import SYSTEM_CLOCK, Clock
from dedupe_crds.spec.stream import DedupeStream, Spec
from dedupe_kafka.client import calling, client_config, made
from dedupe_kafka.clients import CLIENTS, Clients
from dedupe_kafka.epochs_topic import check_unused
from dedupe_kafka.errors import (
    BrokerUnavailable,
    OpenTransaction,
    StreamError,
    TopicMissing,
    TopicUnusable,
)
from dedupe_kafka.group_offsets import read_group_offsets
from dedupe_kafka.input_topics import input_topics
from dedupe_kafka.offsets import PartitionState, Place, TopicOffsets
from dedupe_kafka.readable import all_offsets, readable_ends, readable_offsets
from dedupe_kafka.repartition_topic import ensure_repartitioned
from dedupe_kafka.requests import EARLIEST, LATEST, AdminRequests, ClientComplaints, code_of
from dedupe_kafka.stream_topics import StreamTopics, ensure_topics
from dedupe_kafka.topic import Topic, check_input

_INPUT_PARTITIONS = 4
_POLL_SECONDS = 0.1
# Longer than a worker's transaction may last (transaction.timeout.ms, 60 s by default): by then every transaction that
# was open when the wait began is committed or aborted, by the broker if necessary.
_OPEN_TRANSACTIONS_END_AFTER = timedelta(seconds=90)


class Cluster:
    """A Kafka cluster and the user's client properties.

    One request takes at most twice `timeout_seconds`. Every method raises a `dedupe_kafka.errors.StreamError` when
    Kafka does not answer or refuses. Not to be shared between threads.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        properties: Mapping[str, str] | None = None,
        *,
        timeout_seconds: float = 15.0,
        clients: Clients = CLIENTS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clients = clients
        self._deadline = clock.deadline
        self._servers = bootstrap_servers
        self._timeout_seconds = timeout_seconds
        complaints = ClientComplaints()
        self._config = {
            "log_level": 0,  # the errors raised name the failure, so the library need not log it
            **client_config(bootstrap_servers, properties or {}),
        }
        self._requests = AdminRequests(
            made(clients.admin, {**self._config, "error_cb": complaints.hear}),
            timeout_seconds=timeout_seconds,
            hang_seconds=2 * timeout_seconds,
            where=f" on {bootstrap_servers}",
            complaints=complaints,
            deadline=self._deadline,
        )
        self.offsets_of = partial(readable_offsets, self._requests)
        self.readable_ends = partial(readable_ends, self._requests)

    def ensure_output(self, stream: DedupeStream, known: int = 0, *, seen: int = 0) -> StreamTopics:
        """Create the output and side topics that are missing, and check the existing ones.

        `known` is the number of partitions that have had workers. If it is 0, that is not known: then the partitions
        count that the consumer group has read, and the first `seen`, which have volumes. Partitions that were added to
        the input since wait; if the stream accepts them, the other topics get as many. With `spec.repartition` none of
        that counts: all partitions of the repartition topic are served.

        Raises TopicMissing for an absent input, NotAuthorized and TopicRefused for what can't be created.
        """
        inputs = self.inputs(stream.spec)
        if (repartition := stream.spec.repartition) is not None:
            return ensure_repartitioned(self, stream.spec, repartition, inputs)
        (source,) = inputs
        known = known or max(seen, self._partitions_read(stream.consumer_group, source))
        problems = [*check_unused(self, stream.spec.output.topic), *check_input(source)]
        return ensure_topics(self, stream.spec, source, known).with_problems(problems)

    def inputs(self, spec: Spec) -> list[Topic]:
        """Return the input topics; none if no topic matches a pattern.

        Raises TopicMissing if one that spec.input names is absent.
        """
        return input_topics(self, spec, self._servers)

    def ensure_input(self, name: str, partitions: int | None) -> None:
        """Create an absent input topic, with 4 partitions if `partitions` is None.

        Only for a cluster that belongs to the user alone, such as the embedded broker.

        Raises:
            TopicUnusable: it exists with another number of partitions.
        """
        found = self.topic(name)
        if found is None:
            self.create(name, partitions or _INPUT_PARTITIONS, 1, {})
            self.wait_for(name)
        elif partitions not in (None, found.partitions):
            raise TopicUnusable(
                f"Input topic {name} has {found.partitions} partitions, but --partitions asks for {partitions}: "
                "omit the option, or remove the state directory to begin with no data."
            )

    def topic(self, name: str) -> Topic | None:
        """Describe a topic. Returns None if it does not exist."""
        try:
            found = self._requests.describe(name)
            config = self._requests.config(name)
        except TopicMissing:
            return None
        return Topic(
            name=name,
            partitions=len(found.partitions),
            replication_factor=len(found.partitions[0].replicas),
            config=config,
        )

    def topic_id(self, name: str) -> str:
        """Return a topic's UUID. Raises TopicMissing if it does not exist."""
        return str(self._requests.describe(name).topic_id)

    def topic_ids(self, names: Collection[str], *, writable: bool = False) -> dict[str, str]:
        """Return the UUID of each topic that exists, or may be written; one request."""
        found = self._requests.describe_all(names, writable=writable) if names else {}
        return {name: str(topic.topic_id) for name, topic in found.items()}

    def topic_names(self) -> list[str]:
        """Return the names of all topics that may be seen."""
        return self._requests.topic_names()

    def partition_count(self, name: str) -> int:
        """Return the number of partitions. Raises TopicMissing if the topic is absent."""
        return len(self._requests.describe(name).partitions)

    def partition_counts(self, names: Collection[str]) -> dict[str, int]:
        """Return the number of partitions of each topic that exists, by one request."""
        found = self._requests.describe_all(names)
        return {name: len(topic.partitions) for name, topic in found.items()}

    def create(
        self, name: str, partitions: int, replication_factor: int, config: Mapping[str, str]
    ) -> bool:
        """Create a topic. Returns False, and changes nothing, if it exists already."""
        topic = NewTopic(
            name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            config=dict(config),
        )
        action = f"creating topic {name}"
        with calling(action):
            admin = self._requests.admin
            futures = admin.create_topics([topic], request_timeout=self._timeout_seconds)
        try:
            self._requests.answer(futures[name], action)
        except StreamError as error:
            if code_of(error) == KafkaError.TOPIC_ALREADY_EXISTS:
                return False
            raise
        return True

    def grow(self, name: str, partitions: int) -> None:
        """Raise the partition count of a topic, and wait until the brokers know it."""
        action = f"adding partitions to topic {name}"
        with calling(action):
            futures = self._requests.admin.create_partitions(
                [NewPartitions(name, partitions)], request_timeout=self._timeout_seconds
            )
        self._requests.answer(futures[name], action)
        self._deadline(self._timeout_seconds).wait_for(
            lambda: self.partition_count(name) >= partitions, poll_seconds=_POLL_SECONDS
        )

    def wait_for(self, name: str) -> Topic:
        """Wait until the brokers know a new topic, and describe it."""
        deadline = self._deadline(self._timeout_seconds)
        topic = deadline.wait_for(lambda: self.topic(name), poll_seconds=_POLL_SECONDS)
        if topic is None:
            raise BrokerUnavailable(
                f"Topic {name} was created on {self._servers}, and the brokers do not know it after "
                f"{self._timeout_seconds:.0f} s: check their logs, then try again."
            )
        return topic

    def offsets(
        self, name: str, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    ) -> TopicOffsets:
        """Return a topic's UUID and offsets. Raises TopicMissing, and NoLeader."""
        return all_offsets(self._requests, name, isolation)

    def high_watermarks(self, name: str) -> dict[int, int]:
        """Return the end of each partition, after open transactions. Raises TopicMissing."""
        return self.offsets(name, IsolationLevel.READ_UNCOMMITTED).ends

    def unread(self, name: str, partitions: Iterable[int]) -> dict[int, int]:
        """Return the number of offsets in each of the partitions."""
        wanted = list(partitions)
        lows, ends = (self._requests.offsets(name, wanted, spec) for spec in (EARLIEST, LATEST))
        return {partition: ends[partition] - lows[partition] for partition in wanted}

    def settled_offsets(
        self, name: str, within: timedelta = _OPEN_TRANSACTIONS_END_AFTER
    ) -> TopicOffsets:
        """Return a topic's offsets once every transaction that is open now has ended.

        Raises OpenTransaction if one is open for longer than `within`.
        """
        goal = self.high_watermarks(name)

        behind: list[int] = []

        def settled() -> TopicOffsets | None:
            found = self.offsets(name)
            behind[:] = [each for each, end in goal.items() if found.ends[each] < end]
            return None if behind else found

        found = self._deadline(within.total_seconds()).wait_for(settled, poll_seconds=_POLL_SECONDS)
        if found is None:
            raise OpenTransaction(
                f"Topic {name}, partitions {behind}: a transaction is open for over "
                f"{within.total_seconds():.0f} s; find its producer, or end it as docs/operations.md describes, then "
                "run this again"
            )
        return found

    def committed(self, group: str, name: str) -> dict[int, int]:
        """Return a group's committed offset of each partition, 0 where it has none."""
        places = [(name, partition) for partition in range(self.partition_count(name))]
        found = self._committed(group, places)
        return {partition: max(0, offset) for (_, partition), offset in found.items()}

    def committed_now(self, group: str, places: Iterable[Place]) -> dict[Place, int]:
        """Return committed offsets but for refused ones; wait for no open transaction."""
        found = self._committed(group, places, "read_uncommitted", partly=True)
        return {place: max(0, offset) for place, offset in found.items()}

    def _partitions_read(self, group: str, topic: Topic) -> int:
        """Return the number of partitions up to the last one that a group has read; or 0."""
        # Also of a worker that was just killed, whose transaction is open.
        places = [(topic.name, partition) for partition in range(topic.partitions)]
        found = self._committed(group, places, "read_uncommitted")
        return max((place[1] + 1 for place, offset in found.items() if offset >= 0), default=0)

    def _committed(
        self,
        group: str,
        places: Iterable[Place],
        isolation: str = "read_committed",
        *,
        partly: bool = False,
    ) -> dict[Place, int]:
        """Return a group's committed offset of each place, negative where it has none.

        With read_committed an offset in an open transaction is waited for.
        """
        wanted = [TopicPartition(*place) for place in places]
        # Not through the admin client: its answer to a coordinator that is still loading is a crash
        # of the process (librdkafka treats the answer as a consumer's).
        config = {**self._config, "group.id": group, "isolation.level": isolation}
        where = f" of group {group} on {self._servers}"
        with calling(f"asking{where}"), closing(self._clients.consumer(config)) as client:
            found = read_group_offsets(
                client,
                wanted,
                timeout_seconds=self._timeout_seconds,
                deadline=self._deadline(self._timeout_seconds),
                where=where,
                partly=partly,
            )
        return {(at.topic, at.partition): at.offset for at in found if at.error is None}

    def partition_state(self, stream: DedupeStream, partition: int) -> PartitionState:
        """Return the state of one partition of a stream's topics, which must exist."""
        names = (stream.spec.worker_input, stream.spec.output.topic)
        input_id, output_id = map(self.topic_id, names)
        # With the records of open transactions: below one the last stable offset stays behind a store's records.
        uncommitted = IsolationLevel.READ_UNCOMMITTED
        low, end = (
            self._requests.offsets(names[1], [partition], spec, uncommitted)[partition]
            for spec in (EARLIEST, LATEST)
        )
        return PartitionState(input_topic_id=input_id, output_topic_id=output_id, low=low, end=end)
