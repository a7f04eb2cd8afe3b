"""Open transactions of other producers hide the end of a topic."""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import IsolationLevel, TopicPartition

from dedupe_crds.spec.stream import DedupeStream
from dedupe_kafka.errors import OpenTransaction, Stopped
from dedupe_kafka.offsets import OffsetRange
from dedupe_kafka.requests import LATEST
from dedupe_worker.kafka.admin import Topics
from dedupe_worker.status import WorkerState
from tests.unit.crds.manifests import MINIMAL
from tests.unit.worker.still_clock import StillClock


class Log:
    """An admin client of a partition; `looked` is called at each question about its end."""

    stable, end = 100, 100

    def __init__(self) -> None:
        self.looked: Callable[[], None] = lambda: None

    def list_offsets(
        self, asked: dict[TopicPartition, Any], *, isolation_level: IsolationLevel, **_: object
    ) -> dict[TopicPartition, Future[Any]]:
        [(where, spec)] = asked.items()
        committed = isolation_level == IsolationLevel.READ_COMMITTED
        offset = 10
        if spec is LATEST:
            self.looked()
            offset = self.stable if committed else self.end
        answer: Future[Any] = Future()
        answer.set_result(SimpleNamespace(offset=offset))
        return {where: answer}

    def poll(self, _: float) -> None: ...


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


def settled(log: Log, stop: Event, clock: StillClock, state: WorkerState) -> OffsetRange:
    topics = Topics(log, stop, clock)  # type: ignore[arg-type] # a stand-in
    return topics.settled_offsets("clean", 0, servers="b:1", on_wait=state.report_waiting)


@pytest.fixture
def state(clock: StillClock) -> WorkerState:
    return WorkerState(DedupeStream.model_validate(MINIMAL), 0, clock)


def test_without_an_open_transaction_nothing_is_waited_for(
    clock: StillClock, state: WorkerState
) -> None:
    assert settled(Log(), Event(), clock, state) == OffsetRange(10, 100)
    assert clock.monotonic() == StillClock().monotonic()
    assert state.problem is None


def test_the_end_is_waited_for_as_it_was_at_first(clock: StillClock, state: WorkerState) -> None:
    """With a status and with heartbeats. What begins later is not waited for."""
    log = Log()
    log.end = 300
    heartbeats: list[float] = []

    def look() -> None:
        log.end += 10
        if clock.monotonic() >= StillClock().monotonic() + 500:
            log.stable = 310
        if state.problem:
            heartbeats.append(state.heartbeat_age_seconds)

    log.looked = look
    assert settled(log, Event(), clock, state) == OffsetRange(10, 310)
    problem = state.status()
    assert problem.reason == "OpenTransaction"
    assert max(heartbeats) < 10
    assert state.errors["OpenTransaction"] == 1
    assert not state.ready
    state.clear_waiting()
    assert state.problem is None


def test_the_end_of_a_topic_that_was_deleted_meanwhile_is_not_waited_for(
    clock: StillClock, state: WorkerState
) -> None:
    log, stop = Log(), Event()
    log.end = 300

    def look() -> None:
        if clock.monotonic() >= StillClock().monotonic() + 10:
            log.stable = log.end = 20  # of the topic that was created again
        if clock.monotonic() >= StillClock().monotonic() + 500:
            stop.set()

    log.looked = look
    assert settled(log, stop, clock, state) == OffsetRange(10, 20)


def test_the_reason_has_the_partition_both_offsets_and_the_commands(state: WorkerState) -> None:
    log = Log()
    log.end = 300
    with pytest.raises(Stopped):
        settled_until_stopped(log, state)
    assert isinstance(state.problem, OpenTransaction)
    text = str(state.problem)
    tool = "kafka-transactions.sh --bootstrap-server b:1"
    where = "--topic clean --partition 0"
    assert "clean/0" in text
    assert "offset 100" in text
    assert "at 300" in text
    for command in (
        f"find-hanging {where} --max-transaction-timeout 0",
        f"abort {where} --start-offset 100",
        f"describe-producers {where}",
        "list",
        "forceTerminateTransaction --transactionalId ID",
    ):
        assert f"`{tool} {command}`" in text


def settled_until_stopped(log: Log, state: WorkerState) -> None:
    """As `settled`, until it is stopped while it waits."""
    stop = Event()

    class StoppedInPause(StillClock):
        def wait(self, event: Event, seconds: float) -> bool:
            super().wait(event, seconds)
            if self.seconds > StillClock().seconds + 3:
                stop.set()
            return event.is_set()

    settled(log, stop, StoppedInPause(), state)
