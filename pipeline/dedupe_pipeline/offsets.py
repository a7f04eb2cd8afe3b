"""Which offsets a topic has, and up to where they are final. Says nothing of how many records.

Asked of Kafka directly, before Spark reads: a batch that names its first and last offset is the same
batch each time, and a broker that is not there is reported in seconds.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    IsolationLevel,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined] # lacks __all__

from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.errors import KafkaUnreachable, PipelineError, TopicMissing

Answer = TypeVar("Answer")

_ANSWER_SECONDS = 10.0
_EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call] # theirs is not annotated
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call] # theirs is not annotated
# Longer than a worker's transaction may last (transaction.timeout.ms, 60 s by default): whatever was
# open when the wait began has then been committed or aborted, by the broker if need be.
_SETTLE = timedelta(seconds=90)
_POLL_SECONDS = 0.05


@dataclass(frozen=True, kw_only=True)
class TopicRange:
    """For each partition of a topic the first offset it still has, and one past the last final one."""

    topic: str
    starts: dict[int, int]
    ends: dict[int, int]


class Offsets:
    """Asks one cluster for offsets. Each question is answered within seconds or raises."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._where = connection.bootstrap_servers
        # librdkafka logs every failed attempt to connect; the error raised says it once.
        self._config: dict[str, str | int | float | bool] = {
            **connection.client_config(),
            "log_level": "0",
        }
        self._admin = AdminClient(self._config)

    def partitions(self, topic: str) -> list[int]:
        """The topic's partitions, in order.

        Raises:
            KafkaUnreachable: no broker answered.
            TopicMissing: the cluster has no such topic.
        """
        found = self._ask(
            lambda: self._admin.list_topics(topic, timeout=_ANSWER_SECONDS), "its topics"
        )
        metadata = found.topics[topic]
        if metadata.error is not None:
            raise TopicMissing(
                f"topic {topic!r} is not on {self._where} ({metadata.error.str()}); "
                "check the manifest and --bootstrap-servers, or create the topic"
            )
        return sorted(metadata.partitions)

    def topic_id(self, topic: str) -> str:
        """The topic's UUID; one that is deleted and created again has another.

        Raises:
            KafkaUnreachable: no broker answered.
        """
        asked = TopicCollection([topic])
        [described] = self._admin.describe_topics(asked, request_timeout=_ANSWER_SECONDS).values()
        return str(self._ask(described.result, f"the id of {topic!r}").topic_id)

    def final_range(self, topic: str) -> TopicRange:
        """What a read_committed reader can see now: ends at the last stable offset."""
        return TopicRange(
            topic=topic,
            starts=self._list(topic, _EARLIEST, IsolationLevel.READ_COMMITTED),
            ends=self._list(topic, _LATEST, IsolationLevel.READ_COMMITTED),
        )

    def settled_range(self, topic: str, within: timedelta = _SETTLE) -> TopicRange:
        """Like `final_range`, and includes every transaction that was under way when it was called.

        Raises:
            PipelineError: a transaction stayed open for longer than `within`.
        """
        goal = self._list(topic, _LATEST, IsolationLevel.READ_UNCOMMITTED)
        deadline = time.monotonic() + within.total_seconds()
        while True:
            final = self.final_range(topic)
            hanging = [p for p, end in goal.items() if final.ends[p] < end]
            if not hanging:
                return final
            if time.monotonic() > deadline:
                raise PipelineError(
                    f"a transaction on {topic!r}, partitions {hanging}, is open for over "
                    f"{within.total_seconds():.0f} s; find its producer, or abort it "
                    "(kafka-transactions.sh abort), then run this again"
                )
            time.sleep(_POLL_SECONDS)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """What a consumer group has committed, one past the last processed offset; 0 = nothing yet."""
        # Not through the admin client: its answer to a coordinator that is still loading is a crash
        # of the process (librdkafka treats the answer as a consumer's).
        asker = Consumer(
            {
                **self._config,
                "group.id": group,
                "isolation.level": "read_committed",  # an offset in an open transaction is not final
            }
        )
        asked = [TopicPartition(topic, p) for p in self.partitions(topic)]
        try:
            answers = self._ask(
                lambda: asker.committed(asked, timeout=_ANSWER_SECONDS),
                f"the committed offsets of group {group!r}",
            )
        finally:
            asker.close()
        for found in answers:
            if found.error is not None:
                raise PipelineError(
                    f"committed offset of group {group!r}, {topic!r} partition {found.partition}: "
                    f"{found.error.str()}"
                )
        return {
            found.partition: 0 if found.offset == OFFSET_INVALID else found.offset
            for found in answers
        }

    def _list(self, topic: str, spec: OffsetSpec, isolation: IsolationLevel) -> dict[int, int]:
        asked = {TopicPartition(topic, p): spec for p in self.partitions(topic)}
        futures = self._admin.list_offsets(
            asked, isolation_level=isolation, request_timeout=_ANSWER_SECONDS
        )
        return {
            at.partition: self._ask(future.result, f"the offsets of {topic!r}").offset
            for at, future in futures.items()
        }

    def _ask(self, question: Callable[[], Answer], what: str) -> Answer:
        try:
            return question()
        except KafkaException as error:
            raise KafkaUnreachable(
                f"{self._where} did not tell {what}: {error.args[0].str()}; check that the broker "
                "runs there, and the address, SASL and TLS settings"
            ) from error
