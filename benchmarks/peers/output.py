"""The topic that a peer writes to, and what else it leaves in Kafka."""

import time
from typing import Final

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # public names
    AdminClient,
    OffsetSpec,
)

from benchmarks.harness.check import Output, check_all_partitions
from benchmarks.harness.testbed import Testbed, client
from benchmarks.harness.traffic import Traffic
from benchmarks.peers.peer import PARTITIONS

_TIMEOUT_SECONDS: Final = 30.0
_RETRY_SECONDS: Final = 0.1
# A new topic's leader is named before it leads.
_NOT_YET: Final = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)


class Topic:
    """A topic of a peer with PARTITIONS partitions."""

    def __init__(self, servers: str, name: str) -> None:
        self.name = name
        self._servers = servers
        self._admin = AdminClient(client(servers))

    def written(self) -> int:
        """Return the offsets taken in all partitions: records and transaction markers.

        Records count whether they are committed or not.
        """
        return self._ends(IsolationLevel.READ_UNCOMMITTED)

    def committed(self) -> int:
        """Return the same up to the end that a reader of committed records sees."""
        return self._ends(IsolationLevel.READ_COMMITTED)

    def _ends(self, isolation: IsolationLevel) -> int:
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while True:
            try:
                return self._ask_ends(isolation)
            except KafkaException as error:
                if error.args[0].code() not in _NOT_YET or time.monotonic() > deadline:
                    raise
            time.sleep(_RETRY_SECONDS)

    def _ask_ends(self, isolation: IsolationLevel) -> int:
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call] # confluent-kafka's, untyped
        ends = self._admin.list_offsets(
            {TopicPartition(self.name, each): latest for each in range(PARTITIONS)},
            isolation_level=isolation,
        )
        return sum(int(end.result(_TIMEOUT_SECONDS).offset) for end in ends.values())


class OutputTopic(Topic):
    """A fresh topic whose records carry the time at which the broker appended them."""

    def __init__(self, testbed: Testbed, peer: str) -> None:
        name = testbed.create_topic(peer, partitions=PARTITIONS, log_append_time=True)
        super().__init__(testbed.bootstrap_servers, name)

    def judge(self, sent: Traffic, *, deduplicated: bool) -> Output:
        """Read all of it, in the order of time. Raises KafkaException, TimeoutError."""
        return check_all_partitions(
            self._servers, self.name, sent, partitions=PARTITIONS, deduplicated=deduplicated
        )

    def delete(self) -> None:
        """Delete it, and the topics that the peer has created and named after it."""
        topics = self._admin.list_topics(timeout=_TIMEOUT_SECONDS).topics
        own = [topic for topic in topics if self.name in topic]
        for deleted in self._admin.delete_topics(own).values():
            deleted.result(_TIMEOUT_SECONDS)
