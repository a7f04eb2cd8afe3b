"""How a run goes on after an answer that was lost."""

from datetime import timedelta
from threading import Event
from typing import cast

import pytest

from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import BrokerUnavailable, NotAuthorized, StreamError, TopicMissing
from dedupe_pipeline.errors import DatabaseFailed, JobRefused
from dedupe_pipeline.jobs import streaming
from dedupe_pipeline.jobs.aggregate.increments import Progress
from dedupe_pipeline.jobs.aggregate.job import check_not_behind, check_same_topic


def progress(*next_offsets: int) -> dict[int, Progress]:
    return {number: Progress(next_offset=one) for number, one in enumerate(next_offsets)}


@pytest.mark.parametrize("found", [progress(5, 10), progress(6, 10), progress(5, 10, 1)], ids=str)
def test_a_database_may_have_counted_more_than_is_known(found: dict[int, Progress]) -> None:
    check_not_behind("flights", progress(5, 10), found)


@pytest.mark.parametrize("found", [progress(5, 9), progress(5), {}], ids=str)
def test_a_database_that_has_counted_less_is_told(found: dict[int, Progress]) -> None:
    with pytest.raises(DatabaseFailed, match="flights: the database went back"):
        check_not_behind("flights", progress(5, 10), found)


class Answers:
    """Brokers that fail at first, and then return a topic's id."""

    def __init__(
        self, topic_id: str, *, failures: int, error: type[StreamError] = BrokerUnavailable
    ) -> None:
        self._topic_id = topic_id
        self._failures = failures
        self._error = error

    def topic_id(self, _: str) -> str:
        self._failures -= 1
        if self._failures >= 0:
            raise self._error
        return self._topic_id


def check(answers: Answers, patience: timedelta) -> None:
    check_same_topic(cast("Cluster", answers), "clean", "one", patience=patience, stop=Event())


@pytest.mark.parametrize("error", [BrokerUnavailable, NotAuthorized, TopicMissing])
def test_every_error_of_kafka_is_retried_while_the_topic_is_checked(
    error: type[StreamError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "_RETRY_SECONDS", 0)

    check(Answers("one", failures=2, error=error), timedelta(minutes=1))
    with pytest.raises(error):
        check(Answers("one", failures=2, error=error), timedelta(0))


def test_a_topic_is_asked_for_until_somebody_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "_RETRY_SECONDS", 0)

    check(Answers("one", failures=2), timedelta(minutes=1))
    with pytest.raises(JobRefused, match="'clean' was deleted and created again while it"):
        check(Answers("two", failures=2), timedelta(minutes=1))
    with pytest.raises(BrokerUnavailable):
        check(Answers("one", failures=2), timedelta(0))
