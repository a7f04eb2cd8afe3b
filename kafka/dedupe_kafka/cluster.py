"""What is asked of a Kafka cluster and created in it, each request bounded in time."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined] # public names
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from dedupe_crds.spec.stream import DedupeStream, Spec
from dedupe_kafka.client import client_config, kafka_error, made
from dedupe_kafka.errors import BrokerUnavailable, NotAuthorized, StreamError, TopicMissing
from dedupe_kafka.side_topics import (
    check_notes,
    check_routed,
    notes_config,
    notes_topics,
    routed_config,
    routed_topics,
)
from dedupe_kafka.topic import Topic, TopicProblem, check, config_for

_POLL_SECONDS = 0.1
_REACHABLE = "check that Kafka runs there and can be reached from here"
# How long librdkafka had tried: the same trouble has the same text each time without it.
_TIMING = re.compile(r" \(after \d+ms in state .*\)")

T = TypeVar("T")

_Check = Callable[[Topic, Topic], Iterator[TopicProblem]]
"""Of the output and of a topic beside it."""


@dataclass(frozen=True, kw_only=True)
class StreamTopics:
    """A stream's topics: the input's partition count, and what is wrong with the output.

    With `created` the output topic was absent and is there now.
    """

    partitions: int
    problems: tuple[TopicProblem, ...]
    created: bool


@dataclass(frozen=True, kw_only=True)
class PartitionState:
    """What a copy of a store is judged by: the UUIDs of both topics, and what the output partition holds.

    `low` is the first offset that is kept, `end` the last stable one.
    """

    input_topic_id: str
    output_topic_id: str
    low: int
    end: int


@dataclass(frozen=True, kw_only=True)
class TopicState:
    """A topic's UUID (one deleted and created again has another), and what its partitions hold, by number.

    `lows` are the first offsets that are kept, `ends` the last stable ones.
    """

    id: str
    lows: dict[int, int]
    ends: dict[int, int]


class Cluster:
    """A Kafka cluster, reached with the user's client properties; one request takes at most twice `timeout_seconds`.

    Every method raises a `dedupe_kafka.errors.StreamError` when Kafka does not answer or refuses. Not to be
    shared between threads.
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
        self._complaints = _Complaints()
        config = {
            "log_level": 0,  # the errors raised say what fails, so the library need not log it
            **client_config(bootstrap_servers, properties or {}),
            "error_cb": self._complaints.hear,
        }
        self._admin = made(AdminClient, config)

    def ensure_output(self, stream: DedupeStream) -> StreamTopics:
        """Create the output topic and those beside it if they are absent, or check those that are there.

        Raises:
            TopicMissing: the input topic is absent.
            NotAuthorized, TopicRefused: a topic is absent, and may not be created so.
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
        problems += self._ensure_beside(stream.spec, source, output)
        problems.sort(key=lambda problem: not problem.fatal)
        return StreamTopics(partitions=source.partitions, problems=tuple(problems), created=created)

    def _ensure_beside(self, spec: Spec, source: Topic, output: Topic) -> Iterator[TopicProblem]:
        for name in routed_topics(spec):
            config = routed_config(source)
            yield from self._ensure(name, output, config, partial(check_routed, source))
        for name in notes_topics(spec):
            yield from self._ensure(name, output, notes_config(output), check_notes)

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
        """Describe a topic; None if there is none of that name."""
        futures = self._admin.describe_topics(
            TopicCollection([name]), request_timeout=self._timeout_seconds
        )
        try:
            found = self._answer(futures[name], f"describing topic {name}")
            config = self._config(name)
        except TopicMissing:
            return None
        return Topic(
            name=name,
            partitions=len(found.partitions),
            replication_factor=len(found.partitions[0].replicas),
            config=config,
        )

    def create(
        self, name: str, partitions: int, replication_factor: int, config: Mapping[str, str]
    ) -> bool:
        """Create a topic; returns False if there is one of that name, which is left as it is."""
        topic = NewTopic(
            name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            config=dict(config),
        )
        futures = self._admin.create_topics([topic], request_timeout=self._timeout_seconds)
        try:
            self._answer(futures[name], f"creating topic {name}")
        except _Exists:
            return False
        return True

    def end_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        """Return the offset after the last committed record of each partition."""
        return self._offsets(topic, range(partitions), OffsetSpec.latest())  # type: ignore[no-untyped-call] # confluent-kafka's, untyped

    def topic_state(self, name: str) -> TopicState:
        """Return what a topic holds now. Raises TopicMissing if it is absent."""
        described = self._admin.describe_topics(
            TopicCollection([name]), request_timeout=self._timeout_seconds
        )
        found = self._answer(described[name], f"describing topic {name}")
        lows, ends = (
            self._offsets(name, range(len(found.partitions)), spec)
            for spec in (OffsetSpec.earliest(), OffsetSpec.latest())  # type: ignore[no-untyped-call] # confluent-kafka's, untyped
        )
        return TopicState(id=str(found.topic_id), lows=lows, ends=ends)

    def partition_state(self, stream: DedupeStream, partition: int) -> PartitionState:
        """Return the state of one partition of a stream's topics, which must be there."""
        names = [stream.spec.input.topic, stream.spec.output.topic]
        described = self._admin.describe_topics(
            TopicCollection(names), request_timeout=self._timeout_seconds
        )
        ids = [
            str(self._answer(described[name], f"describing topic {name}").topic_id)
            for name in names
        ]
        low, end = (
            self._offsets(names[1], [partition], spec)[partition]
            for spec in (OffsetSpec.earliest(), OffsetSpec.latest())  # type: ignore[no-untyped-call] # confluent-kafka's, untyped
        )
        return PartitionState(input_topic_id=ids[0], output_topic_id=ids[1], low=low, end=end)

    def _offsets(self, topic: str, partitions: Iterable[int], spec: OffsetSpec) -> dict[int, int]:
        futures = self._admin.list_offsets(
            {TopicPartition(topic, p): spec for p in partitions},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=self._timeout_seconds,
        )
        action = f"asking for offsets of {topic}"
        return {
            where.partition: int(self._answer(future, action).offset)
            for where, future in futures.items()
        }

    def _config(self, name: str) -> dict[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, name)
        futures = self._admin.describe_configs([resource], request_timeout=self._timeout_seconds)
        found = self._answer(futures[resource], f"reading the configuration of topic {name}")
        return {key: entry.value for key, entry in found.items() if entry.value is not None}

    def wait_for(self, name: str) -> Topic:
        """Wait until the brokers know a topic that was created."""
        deadline = time.monotonic() + self._timeout_seconds
        while time.monotonic() < deadline:
            if (topic := self.topic(name)) is not None:
                return topic
            time.sleep(_POLL_SECONDS)
        raise BrokerUnavailable(
            f"Topic {name} was created on {self._servers}, and the brokers do not know it after "
            f"{self._timeout_seconds:.0f} s: look at their logs, and try again."
        )

    def _answer(self, future: Future[T], action: str) -> T:
        """Wait for an answer, its errors named by what a user can do about them."""
        action = f"{action} on {self._servers}"
        # The client's own bound comes first and knows why; this one is for a client that hangs.
        deadline = time.monotonic() + 2 * self._timeout_seconds
        while time.monotonic() < deadline:
            try:
                answer = future.result(_POLL_SECONDS)
            except TimeoutError:
                self._admin.poll(0)  # lets the client say why it can't get through
            except KafkaException as error:
                self._admin.poll(0)
                raise self._named(error, action) from error
            else:
                self._complaints.forget()
                return answer
        raise self._complaints.explain(BrokerUnavailable(f"{action}: no answer"), action)

    def _named(self, error: KafkaException, action: str) -> StreamError:
        if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return _Exists(f"{action}: there is one already")
        named = kafka_error(error, action)
        return (
            self._complaints.explain(named, action)
            if isinstance(named, BrokerUnavailable)
            else named
        )


class _Exists(StreamError):
    """There is a topic of that name."""


class _Complaints:
    """Why a client can't get through: it goes on trying, and no call raises the cause."""

    def __init__(self) -> None:
        self._cause: KafkaError | None = None

    def hear(self, error: KafkaError) -> None:
        """Note an error; that credentials are refused says more than what comes of it."""
        # "All brokers are down" follows the cause, which says more.
        if error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 (its public name)
            return
        if self._cause is None or not isinstance(kafka_error(self._cause, ""), NotAuthorized):
            self._cause = error

    def forget(self) -> None:
        """The client got through."""
        self._cause = None

    def explain(self, error: BrokerUnavailable, action: str) -> StreamError:
        """Return the error with its cause: refused credentials, or brokers out of reach."""
        if self._cause is None:
            return BrokerUnavailable(f"{error}; {_REACHABLE}")
        text = _TIMING.sub("", self._cause.str())
        named = kafka_error(KafkaError(self._cause.code(), text), action)
        if isinstance(named, BrokerUnavailable):
            return BrokerUnavailable(f"{error}: {text}; {_REACHABLE}")
        return named
