"""What the plots are drawn from: looks at workers that die, and rates between them."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedupe_crds.status.worker import (
    Counts,
    InputStatus,
    OutputStatus,
    Phase,
    WindowStatus,
    WorkerStatus,
)
from examples.flights.plots import distribution, rate
from examples.flights.timeline import Partition

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def status(produced: int, process: int = 0) -> WorkerStatus:
    return WorkerStatus(
        stream="demo/flights",
        partition=0,
        phase=Phase.RUNNING,
        ready=True,
        started_at=BEGAN + timedelta(seconds=process),
        uptime_seconds=1,
        input=InputStatus(topic="flights", next_offset=0),
        output=OutputStatus(topic="flights-clean"),
        counts=Counts(produced=produced),
        window=WindowStatus(
            seconds=1, bytes=0, keys=0, generations=1, truncated=False, healthy=True
        ),
    )


def test_counts_go_on_from_one_process_to_the_next() -> None:
    partition = Partition()
    for at, answer in enumerate(
        (status(10), status(25), None, status(0, process=1), status(5, process=1))
    ):
        partition.see(answer, at)

    assert [(look.at_seconds, look.process, look.produced) for look in partition.looks] == [
        (0, 0, 10),
        (1, 0, 25),
        (3, 1, 25),
        (4, 1, 30),
    ]


def test_an_answer_is_one_look_however_often_it_is_seen() -> None:
    partition, answer = Partition(), status(10)
    for at in range(3):
        partition.see(answer, at)

    assert [look.at_seconds for look in partition.looks] == [0]


def test_a_steady_counter_has_its_rate_and_counters_add_up() -> None:
    steady: list[tuple[float, int]] = [(0, 0), (1, 100), (10, 1000)]
    resting: list[tuple[float, int]] = [(0, 50), (10, 50)]

    moments, rates = rate([steady, resting, steady, []])

    assert (moments[0], moments[-1]) == (0, 10)
    assert rates == pytest.approx(np.full(len(moments), 200))


def test_while_nothing_comes_the_rate_is_zero() -> None:
    moments, rates = rate([[(0, 0), (2, 100), (6, 100), (8, 300)]])

    assert rates[(moments > 2.6) & (moments < 5.4)] == pytest.approx(0)
    assert rates[moments > 6.6] == pytest.approx(100)


@given(st.dictionaries(st.integers(-5, 10**10), st.integers(1, 1000), min_size=1, max_size=30))
def test_each_age_is_counted_once_and_in_its_bin(ages_ms: dict[int, int]) -> None:
    found = distribution(ages_ms)

    for one in found.bins:
        within = (age for age in ages_ms if one.low <= max(age, 0) < one.high)
        assert one.records == sum(ages_ms[age] for age in within)
    assert sum(one.records for one in found.bins) == sum(ages_ms.values())
    everything = sorted(age for age, records in ages_ms.items() for _ in range(records))
    assert found.maximum == everything[-1]
    assert found.p50 == everything[(len(everything) + 1) // 2 - 1]
