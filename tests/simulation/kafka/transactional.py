"""The transactional calls of a simulated producer, with librdkafka's states and errors.

After a fatal error (it is fenced) every call raises it. After an abortable one (a record was refused) every call but
`abort` raises it. An abort is refused, which is fatal, if the library has tried in vain to add a partition and the
cluster knows of nothing else in the transaction. A call that timed out is resumed by repeating it, and conflicts with
every other until then; the cluster may do meanwhile what it asked for.
"""

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException

from tests.simulation.kafka.failures import failure, fenced, kafka_error
from tests.simulation.kafka.groups import Committed
from tests.simulation.kafka.log import NO_PRODUCER, PartitionLog
from tests.simulation.kafka.members import GroupMetadata
from tests.simulation.kafka.rights import Right
from tests.simulation.kafka.transactions import Identity, StaleEpoch

if TYPE_CHECKING:
    from tests.simulation.kafka.process import Process

_RETRY_TEXT: Final = "Timed out waiting for operation to finish, retry call to resume"


class State(Enum):
    """The states of librdkafka, as its messages name them."""

    INIT = "Init"
    READY = "Ready"
    BEGUN = "InTransaction"


class Transactional:
    """The state of one producer's transactions, and its requests to the coordinator."""

    def __init__(self, process: "Process", config: dict[str, Any]) -> None:
        self._process, self._cluster = process, process.cluster
        self.name: str | None = config.get("transactional.id")
        self.timeout_seconds = int(config.get("transaction.timeout.ms", 60_000)) / 1000
        self.identity: Identity = (NO_PRODUCER, 0)
        self.state = State.INIT
        self.fatal: KafkaError | None = None
        self.abortable: KafkaError | None = None
        self._logs: list[PartitionLog] = []
        self._has_offsets = False
        self._waits_for_partition = False
        self._resumable: str | None = None
        self._completed = False

    def call(self, name: str, allowed: State, work: Callable[[], None], then: State) -> None:
        """Make a call, or resume it, or raise why it is not possible now."""
        self._check(name, allowed)

        def run() -> None:
            if not self._completed:
                work()
                self._completed = True

        try:
            self._process.request("producer", name, run)
        except KafkaException as error:
            resumes = error.args[0].retriable() or self._completed
            self._resumable = name if resumes else None
            raise
        except SystemError:  # of Python, after the library has done its work
            if self._completed:
                self._done(then)
            raise
        self._done(then)

    def _done(self, then: State) -> None:
        self._resumable, self._completed = None, False
        self._enter(then)

    def _check(self, name: str, allowed: State) -> None:
        if self._resumable not in {None, name}:
            text = f"Conflicting {self._resumable} API call is already in progress"
            raise failure(KafkaError._CONFLICT, text, retriable=True)  # noqa: SLF001 (a public name)
        if self._completed:
            return
        self.raise_fatal()
        if self.abortable is not None and name != "abort_transaction":
            self._resumable = None
            raise KafkaException(self.abortable)
        if self.state is not allowed:
            raise self._not_valid()

    def init(self, timeout: float) -> None:
        """Fence older producers."""
        self._reach_coordinator(timeout)
        self._check_right("Failed to initialize transactions")
        self.identity = self._cluster.coordinator.init(self.name or "", self.timeout_seconds)

    def begin(self) -> None:
        """Begin a transaction, of which the cluster does not learn yet."""
        self._check("begin_transaction", State.READY)
        self.state = State.BEGUN

    def admit(self, log: PartitionLog) -> bool:
        """Add a partition to the transaction; return whether records can be sent to it."""
        known = log in self._logs
        away = self._cluster.coordinator.back_at > self._process.clock.monotonic()
        if away and not known:
            return False
        try:
            self._cluster.coordinator.add_partition(self.name or "", self.identity, log)
        except StaleEpoch:
            what = "ProduceRequest failed" if known else "Failed to add partitions to transaction"
            self.fatal = fenced(what)
            return False
        if not known:
            self._logs.append(log)
        return True

    def may_send_to(self, log: PartitionLog) -> int | None:
        """Return why records for a partition are refused, None if they are not.

        One that is not added yet can't be without the right to the transactional id, which is fatal.
        """
        if not self._cluster.rights.lacks(Right.TRANSACT, self.name or ""):
            return None
        code = KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if log not in self._logs:
            text = f"Failed to add partitions to transaction: {KafkaError(code).str()}"
            self.fatal = kafka_error(code, text, fatal=True)
        return code

    def has(self, topic: str, partition: int) -> bool:
        """Return whether the transaction has added the partition."""
        return any((log.topic, log.partition) == (topic, partition) for log in self._logs)

    def wait_for_partition(self) -> None:
        """Record that the library tries to add a partition that does not exist."""
        self._waits_for_partition = True

    def add_offsets(self, sender: GroupMetadata, offsets: dict[tuple[str, int], Committed]) -> None:
        """Make a group's offsets part of the transaction; librdkafka waits up to a minute.

        The coordinator of the group refuses them if their sender is no member, or of an older generation.
        """
        self._reach_coordinator(60.0)
        for topic, partition in offsets:
            if self._cluster.rights.lacks(Right.READ, topic):
                self._refuse_offsets(KafkaError.TOPIC_AUTHORIZATION_FAILED)
            if self._cluster.topics.log(topic, partition) is None:
                text = "Failed to commit offsets to transaction: Broker: Unknown topic or partition"
                error = failure(KafkaError.UNKNOWN_TOPIC_OR_PART, text, abort=True)
                self.abortable = error.args[0]
                raise error
        coordinator = self._cluster.coordinator
        action, name = "Failed to add offsets to transaction", self.name or ""
        self._serve_epoch(action, lambda: coordinator.begin(name, self.identity))
        self._has_offsets = True
        refused = self._cluster.members.refusal(sender, transactional=True)
        if self._cluster.rights.lacks(Right.GROUP, sender.group):
            refused = KafkaError.GROUP_AUTHORIZATION_FAILED
        if refused is not None:
            self._refuse_offsets(refused)
        self._serve_epoch(
            action, lambda: coordinator.add_offsets(name, self.identity, sender.group, offsets)
        )

    def _refuse_offsets(self, code: int) -> None:
        text = f"Failed to commit offsets to transaction: {KafkaError(code).str()}"
        self.abortable = kafka_error(code, text, abort=True)
        raise KafkaException(self.abortable)

    def _check_right(self, action: str) -> None:
        """Raise a fatal error without the right to the transactional id."""
        if self._cluster.rights.lacks(Right.TRANSACT, self.name or ""):
            code = KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            self.fatal = kafka_error(code, f"{action}: {KafkaError(code).str()}", fatal=True)
            raise KafkaException(self.fatal)

    def end(self, timeout: float, *, commit: bool) -> None:
        """Commit or abort. What the cluster does not know of takes no request."""
        if not self._logs and not self._has_offsets:
            if self._waits_for_partition:
                self._refuse_end()
            return
        try:
            self._reach_coordinator(timeout)
        except KafkaException:
            # The library goes on trying.
            self._cluster.coordinator.later(self._process.name, lambda: self._late(commit))
            raise
        self._check_right("Failed to end transaction")
        self._serve_epoch("Failed to end transaction", lambda: self._send_end(commit))

    @property
    def takes_records(self) -> bool:
        """Return whether a transaction has begun, and is not being ended."""
        return self.state is State.BEGUN and self._resumable is None and self.abortable is None

    def raise_fatal(self) -> None:
        """Raise the fatal error, if there is one."""
        if self.fatal is not None:
            raise KafkaException(self.fatal)

    def _not_valid(self) -> KafkaException:
        return failure(KafkaError._STATE, f"Operation not valid in state {self.state.value}")  # noqa: SLF001 (a public name)

    def _late(self, commit: bool) -> None:
        if self._completed or self.state is not State.BEGUN or self.fatal is not None:
            return
        try:
            self._send_end(commit)
        except StaleEpoch:
            self.fatal = fenced("Failed to end transaction")
        else:
            self._completed = True

    def _refuse_end(self) -> None:
        text = (
            "Failed to end transaction: Broker: Producer attempted a transactional operation in an "
            "invalid state"
        )
        error = failure(KafkaError.INVALID_TXN_STATE, text, fatal=True)
        self.fatal = error.args[0]
        raise error

    def _send_end(self, commit: bool) -> None:
        self._cluster.coordinator.end(self.name or "", self.identity, commit=commit)

    def _enter(self, state: State) -> None:
        self.state = state
        if state is State.READY:
            self.abortable, self._has_offsets, self._waits_for_partition = None, False, False
            self._logs.clear()

    def _serve_epoch(self, action: str, request: Callable[[], None]) -> None:
        try:
            request()
        except StaleEpoch as error:
            self.fatal = fenced(action)
            raise KafkaException(self.fatal) from error

    def _reach_coordinator(self, timeout: float) -> None:
        deadline = self._process.clock.monotonic() + max(0.0, timeout)
        self._process.wait_request()
        if not self._process.wait_until(self._cluster.coordinator.back_at, deadline):
            raise timed_out()
        self._cluster.coordinator.expire()


def timed_out() -> KafkaException:
    """Return the error of a call that can be repeated to resume it."""
    return failure(KafkaError._TIMED_OUT, _RETRY_TEXT, retriable=True)  # noqa: SLF001 (a public name)
