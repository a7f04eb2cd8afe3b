"""The queues of a simulated producer, and sending from them in batches.

Sending happens at calls, where the library has a thread: what lingers long enough goes at any call, all goes at a
flush. A batch of a partition is sent only after the one before it.

Records to a topic that is gone wait for it, for half a minute. Then the library knows that it does not exist, and takes
no more until it has found the topic at one of its looks. A transaction that has not yet added the partition waits for
that instead, until its records time out (measured with Kafka 4.3 and librdkafka 2.16).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException, Message

from tests.simulation.kafka.failures import failure, kafka_error
from tests.simulation.kafka.log import NO_PRODUCER, PartitionLog, Record
from tests.simulation.kafka.rights import Right

if TYPE_CHECKING:
    from tests.simulation.kafka.process import Process
    from tests.simulation.kafka.transactional import Transactional

Report = Callable[[KafkaError | None, Message], None]
_BATCH_OVERHEAD_BYTES: Final = 61
_MISSING_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 1.0
_RECORD_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class Queued:
    """A record with its delivery report, and the monotonic time at which it was queued."""

    record: Record
    report: Report | None
    since: float


@dataclass(slots=True)
class Queue:
    """What waits for one partition. `blocked`: a refused record blocks those after it."""

    topic: str
    partition: int
    waiting: list[Queued]
    blocked: bool = False


class Sender:
    """The queues of one producer. Each batch of a `transaction` needs its leave.

    `refused` is why the transaction must be aborted. `failed` counts the records that were not delivered.
    """

    def __init__(
        self,
        process: "Process",
        config: dict[str, Any],
        producer_id: int,
        transaction: "Transactional | None",
    ) -> None:
        self._process, self._cluster, self._clock = process, process.cluster, process.clock
        self._linger_seconds = float(config.get("linger.ms", 5)) / 1000
        self._batch_bytes = int(config.get("batch.size", 1_000_000))
        self._most = int(config.get("queue.buffering.max.messages", 100_000))
        self._most_bytes = int(config.get("queue.buffering.max.kbytes", 1 << 20)) << 10
        self.producer_id = producer_id
        self._transaction = transaction
        self._record_seconds = _RECORD_SECONDS
        if transaction is not None:
            self._record_seconds = min(_RECORD_SECONDS, transaction.timeout_seconds)
        self._queues: dict[tuple[str, int], Queue] = {}
        self._unreported: list[tuple[Queued, KafkaError | None, Message | None]] = []
        self._known: dict[str, int] = {}
        self._missing: dict[str, float] = {}
        """The topics that do not exist as far as is known, and when the library looks for each."""
        self._bytes = 0
        self._count = 0
        self.refused: KafkaError | None = None
        self.failed = 0

    def __len__(self) -> int:
        """Return the number of records that are queued, or whose report is not served."""
        return self._count + len(self._unreported)

    def check_partition(self, topic: str, partition: int) -> None:
        """Raise KafkaException if the topic or the partition does not exist, as far as is known."""
        if topic in self._missing and not self._look_for(topic):
            text = "Unable to produce message: Local: Unknown topic"
            raise failure(KafkaError._UNKNOWN_TOPIC, text)  # noqa: SLF001 (a public name)
        if partition >= self._known.get(topic, partition + 1):
            text = "Unable to produce message: Local: Unknown partition"
            raise failure(KafkaError._UNKNOWN_PARTITION, text)  # noqa: SLF001 (a public name)

    def refresh(self, topic: str) -> None:
        """Learn how many partitions a topic has now."""
        if (found := self._cluster.topics.find(topic)) is not None:
            self._known[topic] = len(found.logs)

    def put(self, topic: str, partition: int, queued: Queued) -> None:
        """Queue a record. Raises BufferError if there is no room."""
        size = queued.record.size
        if len(self) >= self._most or self._bytes + size > self._most_bytes:
            raise BufferError("Local: Queue full")
        queue = self._queues.get((topic, partition))
        if queue is None:
            queue = self._queues[topic, partition] = Queue(topic, partition, [])
        queue.waiting.append(queued)
        self._count += 1
        self._bytes += size

    def send(self, *, all_of_it: bool) -> None:
        """Send what has lingered, or all of it, as far as brokers are there."""
        now = self._clock.monotonic()
        for queue in self._queues.values():
            while queue.waiting and not queue.blocked:
                lingered = now - queue.waiting[0].since >= self._linger_seconds
                if not (all_of_it or lingered or len(queue.waiting) >= self._cluster.most_in_batch):
                    break
                if not self._send_batch(queue):
                    break

    def due_at(self) -> float:
        """Return when the first queued record has lingered long enough."""
        waiting = [each.waiting[0].since for each in self._queues.values() if each.waiting]
        return min(waiting, default=float("inf")) + self._linger_seconds

    def purge(self) -> None:
        """Give up everything that is queued."""
        self.fail_all(kafka_error(KafkaError._PURGE_QUEUE))  # noqa: SLF001 (a public name)

    def fail_all(self, error: KafkaError) -> None:
        """Give up everything that is queued, for this reason."""
        for queue in self._queues.values():
            self._fail(queue, len(queue.waiting), error)
            queue.blocked = False

    @property
    def has_reports(self) -> bool:
        """Return whether `serve` would call a delivery report."""
        return any(message is not None for _, _, message in self._unreported)

    def drop_reports(self) -> None:
        """Forget the delivery reports."""
        self._unreported.clear()

    def serve(self) -> int:
        """Call the delivery reports; return their number."""
        served, self._unreported = self._unreported, []
        for queued, error, message in served:
            if queued.report is not None and message is not None:
                queued.report(error, message)
        return len(served)

    def _send_batch(self, queue: Queue) -> bool:
        """Send one batch; return whether the next can follow."""
        topic = self._cluster.topics.find(queue.topic)
        if topic is None:
            return self._await_topic(queue)
        known = self._known.setdefault(queue.topic, len(topic.logs))
        if queue.partition >= known:
            error = kafka_error(KafkaError._UNKNOWN_PARTITION, "Local: Unknown partition")  # noqa: SLF001 (a public name)
            self._fail(queue, len(queue.waiting), error)
            return False
        log = topic.logs[queue.partition]
        if log.leader_back_at > self._clock.monotonic():
            return False
        count, size = self._batch(queue)
        refused = self._unauthorized(log)
        if refused is None and self._transaction is not None and not self._transaction.admit(log):
            return False
        if refused is None:
            refused = _refusal(topic.number, queue.waiting[:count], size, self._clock.time())
        if refused is not None:
            queue.blocked = self._transaction is not None
            self._refuse(queue, count, refused)
            return not queue.blocked
        return self._append(queue, log, count)

    def _unauthorized(self, log: PartitionLog) -> KafkaError | None:
        """Return why a partition may not be written, None if it may."""
        code = self._transaction.may_send_to(log) if self._transaction is not None else None
        if code is None and self._cluster.rights.lacks(Right.WRITE, log.topic):
            code = KafkaError.TOPIC_AUTHORIZATION_FAILED
        return None if code is None else kafka_error(code)

    def _append(self, queue: Queue, log: PartitionLog, count: int) -> bool:
        batch = queue.waiting[:count]
        base: int | None = None

        def append() -> None:
            nonlocal base
            # The leader checks the epoch itself: a newer producer may have come since the partition was added.
            transaction = self._transaction
            if transaction is None or transaction.admit(log):
                records = [each.record for each in batch]
                transactional = transaction is not None
                base = log.append(records, self.producer_id, transactional=transactional)

        try:
            self._process.request("producer", "send", append)
        except KafkaException as error:
            # An idempotent producer sends again, and the broker has it.
            if base is None or self.producer_id == NO_PRODUCER:
                self._refuse(queue, count, error.args[0])
                return True
        if base is None:
            return False
        self._process.wait_request()
        self._delivered(queue, batch, base)
        return True

    def _delivered(self, queue: Queue, batch: list[Queued], base: int) -> None:
        self._take(queue, len(batch))
        for offset, each in enumerate(batch, base):
            message = None
            if each.report is not None:
                message = _message(queue, each.record, offset=offset)
            self._unreported.append((each, None, message))

    def _await_topic(self, queue: Queue) -> bool:
        now, topic, transaction = self._clock.monotonic(), queue.topic, self._transaction
        waited = now - queue.waiting[0].since
        if topic not in self._known:
            text = "Broker: Unknown topic or partition"
            error = kafka_error(KafkaError.UNKNOWN_TOPIC_OR_PART, text)
        elif transaction is not None and not transaction.has(topic, queue.partition):
            transaction.wait_for_partition()
            if waited >= self._record_seconds:
                self._time_out(queue)
            return False
        else:
            error = kafka_error(KafkaError._UNKNOWN_PARTITION, "Local: Unknown partition")  # noqa: SLF001 (a public name)
        if waited >= _MISSING_SECONDS:
            self._fail(queue, len(queue.waiting), error)
            self._missing[topic] = now + _LOOK_SECONDS
        return False

    def _look_for(self, topic: str) -> bool:
        """Look for a missing topic, unless the library did so just before; return whether it is there."""
        now = self._clock.monotonic()
        if now < self._missing[topic]:
            return False
        if self._cluster.topics.find(topic) is None:
            self._missing[topic] = now + _LOOK_SECONDS
            return False
        del self._missing[topic]
        self._known.pop(topic, None)
        return True

    def _time_out(self, queue: Queue) -> None:
        count = len(queue.waiting)
        self._fail(queue, count, kafka_error(KafkaError._MSG_TIMED_OUT))  # noqa: SLF001 (a public name)
        text = f"{count} message(s) timed out on {queue.topic} [{queue.partition}]"
        self.refused = self.refused or kafka_error(KafkaError._TIMED_OUT, text, abort=True)  # noqa: SLF001 (a public name)

    def _batch(self, queue: Queue) -> tuple[int, int]:
        """Return the number of records of the next batch, and its size in bytes."""
        size, count = _BATCH_OVERHEAD_BYTES, 0
        for each in queue.waiting[: self._cluster.most_in_batch]:
            more = each.record.size
            if count and size + more > self._batch_bytes:
                break
            size += more
            count += 1
        return count, size

    def _refuse(self, queue: Queue, count: int, error: KafkaError) -> None:
        self._fail(queue, count, error)
        text = (
            f"ProduceRequest with {count} message(s) failed: {error.str()}: current transaction must be "
            "aborted"
        )
        self.refused = self.refused or kafka_error(error.code(), text, abort=True)

    def _fail(self, queue: Queue, count: int, error: KafkaError) -> None:
        batch = queue.waiting[:count]
        self._take(queue, count)
        self.failed += count
        self._unreported += [
            (each, error, _message(queue, each.record, error=error) if each.report else None)
            for each in batch
        ]

    def _take(self, queue: Queue, count: int) -> None:
        self._bytes -= sum(each.record.size for each in queue.waiting[:count])
        self._count -= count
        del queue.waiting[:count]


def _refusal(
    number: Callable[[str], int], batch: list[Queued], size: int, unix_seconds: float
) -> KafkaError | None:
    if size > number("max.message.bytes"):
        return kafka_error(KafkaError.MSG_SIZE_TOO_LARGE, "Broker: Message size too large")
    latest = unix_seconds * 1000 + number("message.timestamp.after.max.ms")
    if any(each.record.timestamp_ms > latest for each in batch):
        return kafka_error(KafkaError.INVALID_TIMESTAMP, "Broker: Invalid timestamp")
    return None


def _message(
    queue: Queue, record: Record, *, offset: int | None = None, error: KafkaError | None = None
) -> Message:
    return Message(
        topic=queue.topic,
        partition=queue.partition,
        offset=-1001 if offset is None else offset,
        key=record.key,
        value=record.value,
        timestamp=(1, record.timestamp_ms),
        headers=record.headers or None,
        error=error,
    )
