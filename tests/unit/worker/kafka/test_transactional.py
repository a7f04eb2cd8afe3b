"""The time that a transaction may take, and what others write between its records."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from confluent_kafka import KafkaError, KafkaException

from dedupe_kafka.client_config import TRANSACTION_SECONDS
from dedupe_kafka.errors import BrokerUnavailable, StreamError, TransactionExpired
from dedupe_kafka.offset_metadata import encode_metadata
from dedupe_kafka.offsets import NOTHING_READ, OffsetRange
from dedupe_worker.kafka import transactional
from dedupe_worker.kafka.committed import Committed
from dedupe_worker.kafka.take_over import TakeOver
from dedupe_worker.kafka.transactional import TransactionalOutput
from tests.unit.worker.still_clock import StillClock


class Record:
    def __init__(self, offset: int = 0) -> None:
        self._offset = offset

    def value(self) -> bytes:
        return b"v"

    key = value

    def timestamp(self) -> tuple[int, int]:
        return 1, 1

    def headers(self) -> None:
        return None

    def offset(self) -> int:
        return self._offset


class TimedOut(KafkaError):
    def retriable(self) -> bool:
        return True


class Broker:
    """A producer and its partition, in which others may write too."""

    def __init__(self, clock: StillClock) -> None:
        self.clock = clock
        self.end = 0
        self.hangs: set[str] = set()
        self.offsets: list[Any] = []
        self._sent = False
        self._waiting: list[Callable[[None, Record], None]] = []

    def __len__(self) -> int:
        return 1

    def begin_transaction(self) -> None: ...

    def produce(self, *arguments: Any, **_: object) -> None:  # noqa: ANN401 # the client's
        if "produce" in self.hangs:
            raise BufferError
        offset, self.end = self.end, self.end + 1
        self._sent = True
        report = arguments[4]
        if report:
            self._waiting.append(lambda error, _: report(error, Record(offset)))

    def poll(self, seconds: float) -> None:
        self.clock.sleep(seconds)

    def flush(self, seconds: float) -> int:
        self._hang("flush", seconds)
        for report in self._waiting:
            report(None, Record())
        self._waiting.clear()
        return int("flush" in self.hangs)

    def send_offsets_to_transaction(
        self, offsets: Sequence[Any], _: object, seconds: float
    ) -> None:
        self._hang("send_offsets", seconds)
        self.offsets += offsets

    def commit_transaction(self, seconds: float) -> None:
        self._hang("commit", seconds)
        if "commit" in self.hangs:
            raise KafkaException(TimedOut(KafkaError._TIMED_OUT))  # noqa: SLF001
        self.flush(0)
        self.end += self._sent  # the marker
        self._sent = False

    def abort_transaction(self, seconds: float) -> None:
        self._hang("abort", seconds)

    def _hang(self, call: str, seconds: float) -> None:
        if call in self.hangs:
            self.clock.sleep(seconds)


class Source:
    topic = "raw"
    last_read = NOTHING_READ

    def group_metadata(self) -> object:
        return None


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def broker(clock: StillClock) -> Broker:
    return Broker(clock)


@pytest.fixture
def output(broker: Broker, clock: StillClock) -> TransactionalOutput:
    made = TransactionalOutput(broker, "clean", 0, clock, TakeOver(clock))  # type: ignore[arg-type] # a stand-in
    made.resume(0, str)
    return made


def passed_on(output: TransactionalOutput, records: int = 1) -> None:
    output.begin()
    output.produce([Record()] * records, np.ones(records, np.int64))  # type: ignore[list-item] # a stand-in
    output.commit(9, Source())  # type: ignore[arg-type] # a stand-in


ALL_CALLS = {"flush", "send_offsets", "commit", "abort"}


@pytest.mark.parametrize("hangs", [{"produce"}, *({each} for each in ALL_CALLS), ALL_CALLS])
def test_all_calls_of_a_transaction_take_less_time_than_kafka_gives_it(
    output: TransactionalOutput, broker: Broker, clock: StillClock, hangs: set[str]
) -> None:
    broker.hangs = hangs
    began = clock.monotonic()
    try:
        output.begin()
        output.produce([Record()] * 3, np.ones(3, np.int64))  # type: ignore[list-item] # a stand-in
        output.flush()
        output.commit(9, Source())  # type: ignore[arg-type] # a stand-in
    except StreamError:
        output.abort()
    assert clock.monotonic() - began < TRANSACTION_SECONDS


def test_the_longest_sum_of_all_deadlines_is_below_the_transactions_own() -> None:
    longest = transactional._CALLS_SECONDS + transactional._COMMIT_SLICE_SECONDS  # noqa: SLF001
    assert longest + transactional._ABORT_SECONDS < TRANSACTION_SECONDS  # noqa: SLF001


class SuspendedClock(StillClock):
    """A clock of a machine that is suspended, or of a virtual one that is paused."""

    def __init__(self) -> None:
        super().__init__()
        self.suspended = self.paused = 0.0

    def since_boot(self) -> float:
        return self.monotonic() + self.suspended

    def time(self) -> float:
        return self.seconds + self.paused


@pytest.mark.parametrize("kind", ["suspended", "paused"])
def test_a_transaction_that_outlived_its_time_out_is_not_committed(kind: str) -> None:
    """The monotonic clock stands still while a machine is suspended."""
    clock = SuspendedClock()
    broker = Broker(clock)
    output = TransactionalOutput(broker, "clean", 0, clock, TakeOver(clock))  # type: ignore[arg-type] # a stand-in
    output.begin()
    setattr(clock, kind, TRANSACTION_SECONDS)
    assert output.expired
    with pytest.raises(TransactionExpired, match="60 s old"):
        output.commit(9, Source())  # type: ignore[arg-type] # a stand-in
    assert TransactionExpired.retriable
    assert broker.offsets == []


def test_a_commit_that_gets_no_answer_ends_in_time(
    output: TransactionalOutput, broker: Broker
) -> None:
    broker.hangs = {"commit"}
    with pytest.raises(BrokerUnavailable):
        passed_on(output)
    assert not output.expired


def test_an_offset_is_known_as_committed_once_its_transaction_is(
    output: TransactionalOutput, broker: Broker
) -> None:
    """Up to there the worker deletes what it has read of a repartition topic."""
    assert output.committed is None
    output.record_start(3, Source(), "")  # type: ignore[arg-type] # a stand-in
    assert output.committed == 3
    broker.hangs = {"commit"}
    with pytest.raises(BrokerUnavailable):
        passed_on(output)
    assert output.committed == 3
    broker.hangs.clear()
    passed_on(output)
    assert output.committed == 9


def test_each_commit_names_the_take_over(output: TransactionalOutput, broker: Broker) -> None:
    source: Any = Source()
    output.take_over(Committed(5, "Ab1:7", "41-1"), source)
    output.record_start(3, source, "Ab1:7:In1")
    output.resume(40, partial(encode_metadata, "Ab1", "In1"))
    passed_on(output)
    metadata = [(each.offset, each.metadata) for each in broker.offsets]
    named = [(5, "Ab1:7"), (3, "Ab1:7:In1"), (9, "Ab1:^40:In1")]
    assert metadata == [(offset, f"{text}@42-1000000") for offset, text in named]


def test_without_a_committed_offset_the_start_names_the_take_over(
    output: TransactionalOutput, broker: Broker
) -> None:
    source: Any = Source()
    output.record_start(3, source, "Ab1::In1")
    assert [(each.offset, each.metadata) for each in broker.offsets] == [(3, "Ab1::In1@1-1000000")]


def test_markers_of_its_own_transactions_are_no_records_of_others(
    output: TransactionalOutput, broker: Broker
) -> None:
    for records in (3, 1, 0, 0, 2):
        passed_on(output, records)
        assert output.unread is None
    assert output.complete_up_to == output.position == broker.end - 1


def test_what_others_write_between_two_transactions_is_unread(
    output: TransactionalOutput, broker: Broker
) -> None:
    """From the offset on at which a marker was expected: they may have written before it."""
    passed_on(output, 2)
    before = output.position
    broker.end += 5
    passed_on(output, 2)
    assert output.unread == OffsetRange(before, output.position)
    assert output.complete_up_to == before
    passed_on(output, 2)
    assert output.unread == OffsetRange(before, output.position), "its own after them, too"
    assert output.complete_up_to == before
    own = OffsetRange(before + 6, output.position)
    assert output.own == [own]
    broker.end += 1
    passed_on(output, 2)
    assert output.unread == OffsetRange(before, output.position)
    assert output.own == [own, OffsetRange(own.end + 2, output.position)]
    output.mark_read()
    assert output.complete_up_to == output.position
    assert not output.own
    passed_on(output, 2)
    assert output.unread is None


def test_what_others_write_before_the_marker_of_a_transaction_is_unread(
    output: TransactionalOutput, broker: Broker
) -> None:
    """The first such record is where the marker is expected."""
    passed_on(output, 2)
    others = output.position
    broker.end += 1
    passed_on(output, 2)
    assert output.unread is not None
    assert output.unread.low == output.complete_up_to == others


def test_what_others_write_within_a_transaction_is_unread(
    output: TransactionalOutput, broker: Broker
) -> None:
    output.begin()
    output.produce([Record()] * 2, np.ones(2, np.int64))  # type: ignore[list-item] # a stand-in
    broker.end += 1
    output.produce([Record()] * 2, np.ones(2, np.int64))  # type: ignore[list-item] # a stand-in
    output.commit(9, Source())  # type: ignore[arg-type] # a stand-in
    assert output.unread == OffsetRange(0, 5)
    assert not output.own, "which of them are its own is not known"
