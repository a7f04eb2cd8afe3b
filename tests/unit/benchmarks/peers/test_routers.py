"""The CPU time of routers counts for what they have routed themselves."""

from itertools import repeat
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks.harness.processes import BenchmarkFailed
from benchmarks.peers import routers
from benchmarks.peers.routers import RouterMeter


def meter(
    monkeypatch: pytest.MonkeyPatch,
    *samples: tuple[float, int, float],
    pids: tuple[int, ...] = (1,),
) -> RouterMeter:
    """A meter that has seen these times, offsets and CPU seconds of each of its processes."""
    times, offsets, cpu = (iter(each) for each in zip(*samples, strict=True))
    monkeypatch.setattr(routers, "time", SimpleNamespace(time=lambda: next(times)))
    per_process = (seconds for seconds in cpu for _ in pids)
    monkeypatch.setattr(routers, "cpu_seconds_of", lambda _: next(per_process))
    seen = RouterMeter(pids, cast(Any, SimpleNamespace(written=lambda: next(offsets))))
    for _ in repeat(None, len(samples)):
        assert seen._sample()  # noqa: SLF001 (as its thread does)
    return seen


def test_a_message_costs_what_is_used_while_a_tenth_to_nineteen_twentieths_are_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = meter(monkeypatch, (0, 0, 5.0), (1, 20, 6.0), (2, 60, 7.0), (3, 94, 8.0), (4, 100, 20.0))

    assert seen.cpu_seconds_per_message == pytest.approx((8.0 - 6.0) / (94 - 20))


def test_the_time_of_several_routers_is_their_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = meter(monkeypatch, (0, 20, 1.0), (1, 90, 2.0), (2, 100, 3.0), pids=(1, 2))

    assert seen.cpu_seconds_per_message == pytest.approx(2 / 70)
    assert seen.used(0.0, 0.5) == pytest.approx(1.0)


def test_routers_that_are_done_between_two_samples_are_no_measurement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = meter(monkeypatch, (0, 0, 1.0), (1, 50, 2.0), (2, 100, 3.0))

    with pytest.raises(BenchmarkFailed, match="more --messages"):
        _ = seen.cpu_seconds_per_message


def test_without_routers_nothing_is_sampled() -> None:
    assert not RouterMeter((), cast(Any, None))._sample()  # noqa: SLF001 (as its thread does)
