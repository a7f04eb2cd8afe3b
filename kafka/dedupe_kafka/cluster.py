"""A Kafka cluster: describe, check and create its topics.

The operator, the local runner, the pipeline and the readers of chunk filters use it. Invariant: each request is bounded
in time, and whatever Kafka answers is checked or reported, never assumed.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined] # public names

from dedupe_crds.deadline import Deadline
from dedupe_crds.spec.stream import DedupeStream, Spec
from dedupe_kafka.client import client_config, kafka_error, made
from dedupe_kafka.errors import (
    BrokerUnavailable,
    OpenTransaction,
    StreamError,
    TopicMissing,
    TopicUnusable,
)
from dedupe_kafka.offsets import PartitionState, TopicOffsets
from dedupe_kafka.requests import EARLIEST, LATEST, AdminRequests, ClientComplaints
from dedupe_kafka.side_topics import (
    check_metadata,
    check_routed,
    metadata_config,
    metadata_topics,
    routed_config,
    routed_topics,
)
from dedupe_kafka.topic import Topic, TopicProblem, check, config_for

_INPUT_PARTITIONS = 4
_POLL_SECONDS = 0.1
# Longer than a worker's transaction may last (transaction.timeout.ms, 60 s by default): by then every transaction that
# was open when the wait began is committed or aborted, by the broker if necessary.
_OPEN_TRANSACTIONS_END_AFTER = timedelta(seconds=90)

_Check = Callable[[Topic, Topic], Iterator[TopicProblem]]
"""Checks a side topic; its arguments are the output and the side topic."""


@dataclass(frozen=True, kw_only=True)
class StreamTopics:
    """The state of a stream's topics.

    `partitions` is the input's partition count; `problems` are those of the output and the side topics; `created`: the
    output topic did not exist and was created.
    """

    partitions: int
    problems: tuple[TopicProblem, ...]
    created: bool


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
    ) -> None:
        self._servers = bootstrap_servers
        self._timeout_seconds = timeout_seconds
        complaints = ClientComplaints()
        self._config = {
            "log_level": 0,  # the errors raised name the failure, so the library need not log it
            **client_config(bootstrap_servers, properties or {}),
        }
        self._requests = AdminRequests(
            made(AdminClient, {**self._config, "error_cb": complaints.hear}),
            timeout_seconds=timeout_seconds,
            hang_seconds=2 * timeout_seconds,
            where=f" on {bootstrap_servers}",
            complaints=complaints,
        )

    def ensure_output(self, stream: DedupeStream) -> StreamTopics:
        """Create the output and side topics that are missing, and check the existing ones.

        Raises:
            TopicMissing: the input topic is absent.
            NotAuthorized, TopicRefused: a topic is absent and cannot be created.
        """
        source = self.topic(stream.spec.input.topic)
        if source is None:
            raise TopicMissing(
                f"Input topic {stream.spec.input.topic} does not exist on {self._servers}: create "
                "it, or correct spec.input.topic."
            )
        max_age = stream.spec.store.window.max_age
        name = stream.spec.output.topic
        created = False
        if (output := self.topic(name)) is None:
            config = config_for(source, max_age)
            created = self.create(name, source.partitions, source.replication_factor, config)
            output = self.wait_for(name)
        problems = [] if created else check(source, output, max_age)
        problems += self._ensure_side_topics(stream.spec, source, output)
        problems.sort(key=lambda problem: not problem.fatal)
        return StreamTopics(partitions=source.partitions, problems=tuple(problems), created=created)

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

    def _ensure_side_topics(
        self, spec: Spec, source: Topic, output: Topic
    ) -> Iterator[TopicProblem]:
        for name in routed_topics(spec):
            config = routed_config(source)
            yield from self._ensure(name, output, config, partial(check_routed, source))
        for name in metadata_topics(spec):
            yield from self._ensure(name, output, metadata_config(output), check_metadata)

    def _ensure(
        self,
        name: str,
        output: Topic,
        config: Mapping[str, str],
        problems: _Check,
    ) -> Iterator[TopicProblem]:
        if (found := self.topic(name)) is not None:
            yield from problems(output, found)
        elif self.create(name, output.partitions, output.replication_factor, config):
            self.wait_for(name)

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

    def partition_count(self, name: str) -> int:
        """Return the number of partitions. Raises TopicMissing if the topic is absent."""
        return len(self._requests.describe(name).partitions)

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
        futures = self._requests.admin.create_topics([topic], request_timeout=self._timeout_seconds)
        try:
            self._requests.answer(futures[name], f"creating topic {name}")
        except StreamError as error:
            if _exists_already(error):
                return False
            raise
        return True

    def wait_for(self, name: str) -> Topic:
        """Wait until the brokers know a new topic, and describe it."""
        deadline = Deadline(self._timeout_seconds)
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
        """Return a topic's UUID and offsets. Raises TopicMissing if it is absent."""
        found = self._requests.describe(name)
        partitions = range(len(found.partitions))
        lows, ends = (
            self._requests.offsets(name, partitions, spec, isolation) for spec in (EARLIEST, LATEST)
        )
        return TopicOffsets(topic=name, id=str(found.topic_id), lows=lows, ends=ends)

    def settled_offsets(
        self, name: str, within: timedelta = _OPEN_TRANSACTIONS_END_AFTER
    ) -> TopicOffsets:
        """Return a topic's offsets once every transaction that is open now has ended.

        Raises OpenTransaction if one is open for longer than `within`.
        """
        goal = self.offsets(name, IsolationLevel.READ_UNCOMMITTED).ends

        behind: list[int] = []

        def settled() -> TopicOffsets | None:
            found = self.offsets(name)
            behind[:] = _behind(goal, found.ends)
            return None if behind else found

        found = Deadline(within.total_seconds()).wait_for(settled, poll_seconds=_POLL_SECONDS)
        if found is None:
            raise OpenTransaction(
                f"Topic {name}, partitions {behind}: a transaction is open for over "
                f"{within.total_seconds():.0f} s; find its producer, or end it as docs/operations.md describes, then "
                "run this again"
            )
        return found

    def committed(self, group: str, name: str) -> dict[int, int]:
        """Return a group's committed offset of each partition, 0 where it has none."""
        partitions = [TopicPartition(name, p) for p in range(self.partition_count(name))]
        # Not through the admin client: its answer to a coordinator that is still loading is a crash
        # of the process (librdkafka treats the answer as a consumer's).
        consumer = Consumer(
            {
                **self._config,
                "group.id": group,
                "isolation.level": "read_committed",  # an offset in an open transaction is not final
            }
        )
        action = f"asking for the committed offsets of group {group} on {self._servers}"
        try:
            found = consumer.committed(partitions, timeout=self._timeout_seconds)
        except KafkaException as error:
            raise kafka_error(error, action) from error
        finally:
            consumer.close()
        for at in found:
            if at.error is not None:
                raise kafka_error(at.error, f"{action}, {name}/{at.partition}")
        return {at.partition: 0 if at.offset == OFFSET_INVALID else at.offset for at in found}

    def partition_state(self, stream: DedupeStream, partition: int) -> PartitionState:
        """Return the state of one partition of a stream's topics, which must exist."""
        names = (stream.spec.input.topic, stream.spec.output.topic)
        input_id, output_id = map(self.topic_id, names)
        # With the records of open transactions: below one the last stable offset stays behind a store's records.
        uncommitted = IsolationLevel.READ_UNCOMMITTED
        low, end = (
            self._requests.offsets(names[1], [partition], spec, uncommitted)[partition]
            for spec in (EARLIEST, LATEST)
        )
        return PartitionState(input_topic_id=input_id, output_topic_id=output_id, low=low, end=end)


def _behind(goal: Mapping[int, int], ends: Mapping[int, int]) -> list[int]:
    return [partition for partition, end in goal.items() if ends[partition] < end]


def _exists_already(error: StreamError) -> bool:
    cause = error.__cause__
    return (
        isinstance(cause, KafkaException)
        and cause.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    )
