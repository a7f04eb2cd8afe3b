"""The stand-in for `confluent_kafka.Producer`, transactional if it has a `transactional.id`."""

from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tests.simulation.kafka.consumer import decoded
from tests.simulation.kafka.failures import failure, kafka_error
from tests.simulation.kafka.groups import Committed
from tests.simulation.kafka.log import NO_PRODUCER, Headers, Record
from tests.simulation.kafka.sending import Queued, Report, Sender
from tests.simulation.kafka.transactional import State, Transactional, timed_out

if TYPE_CHECKING:
    from tests.simulation.kafka.process import Process

_STEP_SECONDS: Final = 0.25
_FOREVER: Final = 1e9


class SimProducer:
    """A producer. Its methods are those of the library that the worker calls."""

    def __init__(self, process: "Process", config: dict[str, Any]) -> None:
        self._process, self._clock = process, process.clock
        self._on_delivery: Report | None = config.get("on_delivery")
        self._transactions = Transactional(process, config)
        self._transactional = self._transactions.name is not None
        idempotent = str(config.get("enable.idempotence", "false")).lower() == "true"
        number = process.cluster.coordinator.new_producer_id() if idempotent else NO_PRODUCER
        transaction = self._transactions if self._transactional else None
        self._sender = Sender(process, config, number, transaction)
        self._shown_fatal = False

    def __len__(self) -> int:
        """Return the number of records that are not delivered yet."""
        return len(self._sender)

    # -- records --------------------------------------------------------------------------------

    def produce(  # noqa: PLR0917 (the library's order)
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int = -1,
        callback: Report | None = None,
        on_delivery: Report | None = None,
        timestamp: int = 0,
        headers: Headers | None = None,
    ) -> None:
        """Queue a record. Raises BufferError if the queue is full, or KafkaException."""
        report = callback or on_delivery or self._on_delivery

        def queue() -> None:
            self._check_produce()
            self._sender.check_partition(topic, partition)
            stamp = timestamp or int(self._clock.time() * 1000)
            record = Record(key, value, stamp, headers or None)
            self._sender.put(topic, partition, Queued(record, report, self._clock.monotonic()))

        self._process.local("producer", "produce", queue)

    def poll(self, timeout: float = -1) -> int:
        """Serve delivery reports; wait for the first. Return their number.

        Raises a fatal error, once.
        """
        deadline = self._clock.monotonic() + max(0.0, timeout)
        return self._process.serve("producer", "poll", lambda: self._poll(deadline), 0, deadline)

    def flush(self, timeout: float = _FOREVER) -> int:
        """Send everything; return the number of records that are not delivered in time.

        Raises a fatal error, once, or SystemError: the library calls delivery reports with the error pending.
        """
        deadline = self._clock.monotonic() + timeout
        return self._process.serve(
            "producer", "flush", lambda: self._flush(deadline), len(self), deadline
        )

    def purge(self) -> None:
        """Give up what is queued."""
        self._process.local("producer", "purge", self._sender.purge)

    def list_topics(self, topic: str, timeout: float = -1) -> None:
        """Learn how many partitions a topic has; what the library returns is not used."""
        assert timeout > 0
        self._process.request("producer", "list_topics", lambda: self._sender.refresh(topic))

    # -- transactions ---------------------------------------------------------------------------

    def init_transactions(self, timeout: float = _FOREVER) -> None:
        """Fence older producers of the transactional id, and abort their open transaction."""

        def init() -> None:
            self._transactions.init(timeout)
            self._sender.producer_id = self._transactions.identity[0]

        self._transactions.call("init_transactions", State.INIT, init, State.READY)

    def begin_transaction(self) -> None:
        """Begin a transaction; the cluster learns of it by its first record or offset."""

        def begin() -> None:
            self._transactions.begin()
            self._sender.failed = 0

        self._process.local("producer", "begin_transaction", begin)

    def send_offsets_to_transaction(
        self,
        positions: list[TopicPartition],
        group_metadata: object,
        timeout: float = _FOREVER,
    ) -> None:
        """Make a group's offsets part of the transaction.

        The library waits longer than `timeout`, as it does here.
        """
        assert timeout >= 0
        offsets = {(each.topic, each.partition): Committed.of(each) for each in positions}

        def add() -> None:
            self._transactions.add_offsets(decoded(group_metadata), offsets)

        self._transactions.call("send_offsets_to_transaction", State.BEGUN, add, State.BEGUN)

    def commit_transaction(self, timeout: float = _FOREVER) -> None:
        """Send what is queued, and commit. After a time-out the call can be repeated."""

        def commit() -> None:
            deadline = self._clock.monotonic() + timeout
            unsent = self._send_until(deadline)
            self._transactions.raise_fatal()
            if self._transactions.abortable is not None:
                raise KafkaException(self._transactions.abortable)
            if unsent:
                raise timed_out()
            self._check_delivered()
            self._transactions.end(deadline - self._clock.monotonic(), commit=True)

        self._transactions.call("commit_transaction", State.BEGUN, commit, State.READY)

    def abort_transaction(self, timeout: float = _FOREVER) -> None:
        """Give up what is queued, and abort. After a time-out the call can be repeated."""

        def abort() -> None:
            self._sender.purge()
            self._sender.serve()
            self._transactions.end(timeout, commit=False)

        self._transactions.call("abort_transaction", State.BEGUN, abort, State.READY)
        self._sender.refused = None

    # -- how ------------------------------------------------------------------------------------

    def _poll(self, deadline: float) -> int:
        while True:
            self._send(all_of_it=False)
            self._raise_fatal_once(serving=False)
            served = self._sender.serve()
            now = self._clock.monotonic()
            if served or now >= deadline:
                return served
            due = self._sender.due_at()
            self._process.wait_until(due if due > now else now + _STEP_SECONDS, deadline)

    def _flush(self, deadline: float) -> int:
        unsent = self._send_until(deadline)
        self._raise_fatal_once(serving=True)
        return unsent

    def _send_until(self, deadline: float) -> int:
        while True:
            self._send(all_of_it=True)
            if self._transactions.fatal is not None and not self._shown_fatal:
                return len(self)
            self._sender.serve()
            now = self._clock.monotonic()
            if not len(self) or now >= deadline:
                return len(self)
            self._process.wait_until(now + _STEP_SECONDS, deadline)

    def _send(self, *, all_of_it: bool) -> None:
        transactions = self._transactions
        if transactions.abortable is None and transactions.fatal is None:
            self._sender.send(all_of_it=all_of_it)
            refused = self._sender.refused
            if self._transactional and refused is not None:
                transactions.abortable = refused
        if transactions.fatal is not None:
            self._sender.fail_all(kafka_error(KafkaError.INVALID_PRODUCER_EPOCH))

    def _raise_fatal_once(self, *, serving: bool) -> None:
        if self._transactions.fatal is None or self._shown_fatal:
            return
        self._shown_fatal = True
        if serving and self._sender.has_reports:
            self._sender.drop_reports()
            raise SystemError("a delivery report returned a result with an exception set")
        self._transactions.raise_fatal()

    def _check_delivered(self) -> None:
        """Raise if a record of the transaction was not delivered, for a reason that no broker gave."""
        if failed := self._sender.failed:
            text = f"{failed} message(s) failed delivery (see individual delivery reports)"
            error = failure(KafkaError._INCONSISTENT, text, abort=True)  # noqa: SLF001 (a public name)
            self._transactions.abortable = error.args[0]
            raise error

    def _check_produce(self) -> None:
        if self._transactions.fatal is not None:
            raise failure(KafkaError._FATAL, "Unable to produce message: Local: Fatal error")  # noqa: SLF001 (a public name)
        if self._transactional and not self._transactions.takes_records:
            raise failure(KafkaError._STATE, "Unable to produce message: Local: Erroneous state")  # noqa: SLF001 (a public name)
