"""Requests to a cluster's admin API, for `Cluster` and the worker.

Invariant: every request is bounded in time, and every error is a `StreamError` that names what a user can do. A request
that is cut short because its caller stops is no error: it raises `Stopped`.
"""

import re
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from contextlib import suppress
from threading import Event
from typing import Any, Final, TypeVar

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined] # public names
    AclOperation,
    AdminClient,
    ConfigResource,
    OffsetSpec,
    ResourceType,
)

from dedupe_crds.deadline import Deadline
from dedupe_kafka.client import calling, kafka_error
from dedupe_kafka.errors import (
    BrokerUnavailable,
    NotAuthorized,
    Stopped,
    StreamError,
    TopicMissing,
)
from dedupe_kafka.offsets import OffsetRange

EARLIEST: Final = OffsetSpec.earliest()  # type: ignore[no-untyped-call] # confluent-kafka's, untyped
LATEST: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call] # confluent-kafka's, untyped
_POLL_SECONDS: Final = 0.1
_REACHABLE: Final = "check that Kafka runs there and can be reached from here"
# How long librdkafka tried. Without it, the same problem has the same text each time.
_TIMING: Final = re.compile(r" \(after \d+ms in state .*\)")

T = TypeVar("T")


class ClientComplaints:
    """The cause why a client cannot reach Kafka, which no call raises."""

    def __init__(self) -> None:
        self._cause: KafkaError | None = None

    def hear(self, error: KafkaError) -> None:
        """Record an error, as the client's `error_cb`.

        Refused credentials are kept as the cause, because the errors after them are only consequences.
        """
        # "All brokers are down" follows the cause, which is more precise.
        if error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 (its public name)
            return
        if self._cause is None or not isinstance(kafka_error(self._cause, ""), NotAuthorized):
            self._cause = error

    def forget(self) -> None:
        """Clear the cause, because the client reached Kafka."""
        self._cause = None

    def explain(self, error: BrokerUnavailable, action: str) -> StreamError:
        """Return the error with its cause: refused credentials, or unreachable brokers."""
        if self._cause is None:
            return BrokerUnavailable(f"{error}; {_REACHABLE}")
        text = _TIMING.sub("", self._cause.str())
        named = kafka_error(KafkaError(self._cause.code(), text), action)
        if isinstance(named, BrokerUnavailable):
            return BrokerUnavailable(f"{error}: {text}; {_REACHABLE}")
        return named


class AdminRequests:
    """Bounded requests through one admin client. Not to be shared between threads.

    `timeout_seconds` is the client's own bound on a request, which comes first and knows the cause; `hang_seconds` is
    the bound for a client that hangs. Error messages end with `where`, such as " on kafka:9092". Once `stop` is set, a
    request raises Stopped. `complaints` receives the client's errors. `deadline` makes a deadline on another clock than
    the machine's. `on_answer` is called after each answer.
    """

    def __init__(
        self,
        admin: AdminClient,
        *,
        timeout_seconds: float,
        hang_seconds: float,
        where: str = "",
        stop: Event | None = None,
        complaints: ClientComplaints | None = None,
        deadline: Callable[[float], Deadline] = Deadline,
        on_answer: Callable[[], None] = lambda: None,
    ) -> None:
        self.admin = admin
        self.timeout_seconds = timeout_seconds
        self._hang_seconds = hang_seconds
        self._where = where
        self._stop = stop or Event()
        self._complaints = complaints
        self._deadline = deadline
        self._on_answer = on_answer

    def describe(self, name: str, *, include_authorized_operations: bool = False) -> Any:  # noqa: ANN401 (the library's)
        """Describe a topic. Raises TopicMissing if it does not exist."""
        with calling(f"describing topic {name}"):
            futures = self.admin.describe_topics(
                TopicCollection([name]),
                include_authorized_operations=include_authorized_operations,
                request_timeout=self.timeout_seconds,
            )
        return self.answer(futures[name], f"describing topic {name}")

    def describe_all(self, names: Collection[str], *, writable: bool = False) -> dict[str, Any]:
        """Describe those of the topics that exist and may be seen, by one request.

        With `writable` only those that may be written. Of a broker that does not report what it allows, all count.
        """
        with calling("describing topics"):
            futures = self.admin.describe_topics(
                TopicCollection(sorted(names)),
                include_authorized_operations=writable,
                request_timeout=self.timeout_seconds,
            )
        found = {}
        for name, future in futures.items():
            with suppress(TopicMissing, NotAuthorized):
                topic = self.answer(future, f"describing topic {name}")
                allowed = topic.authorized_operations if writable else None
                if not allowed or AclOperation.WRITE in allowed:
                    found[name] = topic
        return found

    def topic_names(self) -> list[str]:
        """Return the names of all topics that may be seen."""
        with calling(f"listing the topics{self._where}", self._explained):
            return sorted(self.admin.list_topics(timeout=self.timeout_seconds).topics)

    def config(self, name: str) -> dict[str, str]:
        """Return the configuration of a topic, without entries that have no value."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        with calling(f"reading the configuration of topic {name}"):
            futures = self.admin.describe_configs([resource], request_timeout=self.timeout_seconds)
        found = self.answer(futures[resource], f"reading the configuration of topic {name}")
        return {key: entry.value for key, entry in found.items() if entry.value is not None}

    def offsets(
        self,
        topic: str,
        partitions: Iterable[int],
        spec: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
        failed: dict[int, StreamError] | None = None,
    ) -> dict[int, int]:
        """Return one offset of each partition.

        With READ_COMMITTED the latest is the last stable offset. What a broker refuses of one partition is raised; with
        `failed` it is put there instead. That no broker answers is always raised.
        """
        with calling(f"listing offsets of {topic}"):
            futures = self.admin.list_offsets(
                {TopicPartition(topic, p): spec for p in partitions},
                isolation_level=isolation,
                request_timeout=self.timeout_seconds,
            )
        found = {}
        for at, future in futures.items():
            try:
                answer = self.answer(future, f"listing offsets of {topic}/{at.partition}")
            except StreamError as error:
                if failed is None or code_of(error) <= 0:
                    raise
                failed[at.partition] = error
            else:
                found[at.partition] = int(answer.offset)
        return found

    def offset_range(self, topic: str, partition: int) -> OffsetRange:
        """Return the offsets of a partition that a `read_committed` consumer can read."""
        low, end = (
            self.offsets(topic, [partition], spec)[partition] for spec in (EARLIEST, LATEST)
        )
        return OffsetRange(low, end)

    def answer(self, future: Future[T], action: str) -> T:
        """Wait for an answer. Errors are named by what a user can do about them."""
        action += self._where
        deadline = self._deadline(self._hang_seconds)
        while not deadline.expired:
            if self._stop.is_set():
                raise Stopped(action)
            with calling(action, self._explained):
                try:
                    answer = future.result(_POLL_SECONDS)
                except TimeoutError:
                    self.admin.poll(0)  # lets the client report why it cannot reach Kafka
                    continue
            self._on_answer()
            if self._complaints is not None:
                self._complaints.forget()
            return answer
        raise self._with_cause(BrokerUnavailable(f"{action}: no answer"), action)

    def _explained(self, error: KafkaException, action: str) -> StreamError:
        """Return the named error, with the cause that the client has reported."""
        with calling(action):
            self.admin.poll(0)
        return self._with_cause(kafka_error(error, action), action)

    def _with_cause(self, error: StreamError, action: str) -> StreamError:
        if self._complaints is None or not isinstance(error, BrokerUnavailable):
            return error
        return self._complaints.explain(error, action)


def code_of(error: StreamError) -> int:
    """Return Kafka's code of an error: 0 without one, negative if the client found it."""
    cause = error.__cause__
    return int(cause.args[0].code()) if isinstance(cause, KafkaException) else 0
