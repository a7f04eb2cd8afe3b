"""When a worker deletes what it has read of the repartition topic, and what becomes of a failure."""

from concurrent.futures import Future
from typing import Any, Final

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # its documented name
    AclOperation,
)

from dedupe_crds.manifest import parse_manifest
from dedupe_crds.spec.stream import Spec
from dedupe_worker.kafka.admin import Topics, needed_rights
from dedupe_worker.kafka.input_trim import InputTrim
from dedupe_worker.kafka.non_transactional import NonTransactionalOutput
from dedupe_worker.status import Degradations
from tests.unit.crds.manifests import changed
from tests.unit.worker.still_clock import StillClock

REFUSED: Final = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "not you")
SILENT: Final = KafkaError(KafkaError._TIMED_OUT, "no answer")  # noqa: SLF001 (a public name)


class Admin:
    """An admin client whose answers the test gives; `fails` at once if that is set."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int]] = []
        self.answers: list[Future[Any]] = []
        self.fails: KafkaError | None = None

    def delete_records(
        self, where: list[TopicPartition], *, request_timeout: float
    ) -> dict[TopicPartition, Future[Any]]:
        assert 0 < request_timeout < 60
        if self.fails is not None:
            raise KafkaException(self.fails)
        [each] = where
        self.asked.append((each.topic, each.partition, each.offset))
        self.answers.append(Future())
        return {each: self.answers[-1]}


class Trimmed:
    """The trim of a worker, on a clock that stands still between two calls."""

    def __init__(self) -> None:
        self.admin, self.clock = Admin(), StillClock()
        self.degradations = Degradations(self.clock)
        topics = Topics(self.admin, None, self.clock)  # type: ignore[arg-type] # a stand-in; nothing waits
        self.trim = InputTrim(
            topics, "between", 3, clock=self.clock, degradations=self.degradations
        )

    def after(self, seconds: float, committed: int | None, *, is_same: bool = True) -> list[int]:
        """Return the offsets that were asked for so far, some seconds later."""
        self.clock.sleep(seconds)
        self.trim.run(committed, is_same=is_same)
        return [offset for _, _, offset in self.admin.asked]

    def answer(self, error: KafkaError | None = None) -> None:
        if error is None:
            self.admin.answers[-1].set_result(None)
        else:
            self.admin.answers[-1].set_exception(KafkaException(error))

    @property
    def reasons(self) -> list[str]:
        return [each.reason for each in self.degradations.current()]


@pytest.fixture
def trimmed() -> Trimmed:
    return Trimmed()


def test_what_is_committed_is_deleted_every_half_minute_and_not_at_once(trimmed: Trimmed) -> None:
    assert trimmed.after(0, 40) == []
    assert trimmed.after(9, 40) == []
    assert trimmed.after(1, 40) == [40]
    trimmed.answer()
    assert trimmed.after(29, 50) == [40]
    assert trimmed.after(1, 55) == [40, 55]
    assert trimmed.admin.asked[0] == ("between", 3, 40)


def test_nothing_is_asked_again_while_nothing_more_is_committed(trimmed: Trimmed) -> None:
    trimmed.after(10, 40)
    trimmed.answer()
    for _ in range(5):
        assert trimmed.after(60, 40) == [40]
    assert trimmed.after(0, 41) == [40, 41]


@pytest.mark.parametrize("committed", [None, 0])
def test_nothing_is_deleted_before_a_commit(trimmed: Trimmed, committed: int | None) -> None:
    assert trimmed.after(100, committed) == []


def test_nothing_is_deleted_of_a_topic_that_may_be_another_one_by_now(trimmed: Trimmed) -> None:
    assert trimmed.after(100, 40, is_same=False) == []
    assert trimmed.after(0, 40) == [40]


def test_an_answer_is_not_waited_for_and_there_is_one_question_at_a_time(trimmed: Trimmed) -> None:
    for _ in range(5):
        assert trimmed.after(60, 40) == [40]
    trimmed.answer()
    assert trimmed.after(0, 90) == [40, 90]


@pytest.mark.parametrize(
    ("error", "named", "granted"),
    [(REFUSED, "NotAuthorized", True), (SILENT, "BrokerUnavailable", False)],
)
def test_a_failure_is_reported_until_a_trim_succeeds(
    trimmed: Trimmed, error: KafkaError, named: str, granted: bool
) -> None:
    trimmed.after(10, 40)
    trimmed.answer(error)
    assert trimmed.after(29, 40) == [40]
    assert trimmed.reasons == ["RepartitionTopicNotTrimmed"]
    [degraded] = trimmed.degradations.current()
    assert f"{named}: deleting what is read of between/3" in degraded.message
    assert ("grant the ACL DELETE on between" in degraded.message) == granted
    assert trimmed.after(1, 40) == [40, 40], "it is tried again, though no more is committed"
    trimmed.answer()
    trimmed.after(10, 40)
    assert trimmed.reasons == []


def test_a_client_that_fails_at_once_stops_nothing(trimmed: Trimmed) -> None:
    trimmed.admin.fails = SILENT
    assert trimmed.after(10, 40) == []
    assert trimmed.reasons == ["RepartitionTopicNotTrimmed"]
    trimmed.admin.fails = None
    assert trimmed.after(29, 40) == []
    assert trimmed.after(1, 40) == [40]


class Source:
    """A reader whose commits are refused, once that is set."""

    def __init__(self) -> None:
        self.refuses = False

    def commit(self, _next_offset: int, _metadata: str) -> None:
        if self.refuses:
            raise KafkaException(SILENT)


def test_without_transactions_an_offset_is_committed_once_kafka_has_said_so() -> None:
    source: Any = Source()
    output = NonTransactionalOutput({}, "clean", 0, StillClock(), make_producer=lambda _: object())
    assert output.committed is None
    output.record_start(7, source, "")
    assert output.committed == 7
    source.refuses = True
    with pytest.raises(KafkaException):
        output.record_start(9, source, "")
    assert output.committed == 7


def spec(**changes: Any) -> Spec:  # noqa: ANN401 # any field's value
    return parse_manifest(
        changed({f"spec.{key}": value for key, value in changes.items()}), "test"
    ).spec


def test_a_worker_needs_the_right_to_delete_in_the_repartition_topic_and_in_no_other() -> None:
    read, write, delete = AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE
    assert needed_rights(spec())["orders"] == {read}
    needed = needed_rights(spec(repartition={"partitions": 4}))
    assert list(needed) == ["orders-clean-repartition", "orders-clean"], "it reads no input"
    assert needed["orders-clean-repartition"] == {read, write, delete}
    assert needed["orders-clean"] == {read, write}
