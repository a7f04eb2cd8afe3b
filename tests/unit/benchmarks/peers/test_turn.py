"""A turn ends when the output is complete and quiet; a peer is killed at work, and started again."""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Self, cast

import numpy as np
import pytest

from benchmarks.harness.check import Output
from benchmarks.harness.processes import BenchmarkFailed
from benchmarks.harness.traffic import Traffic, traffic
from benchmarks.peers import turn as turn_module
from benchmarks.peers.output import OutputTopic
from benchmarks.peers.peer import Job, Peer
from benchmarks.peers.processes import PeerProcesses
from benchmarks.peers.turn import Settled, Turn, Written, follow, work_until
from tests.unit.benchmarks.peers.runs import CLEAN


class FakeClock:
    """Time that only passes when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    clock = FakeClock()
    monkeypatch.setattr(turn_module, "time", clock)
    return clock


class FakeTopic:
    """Its offsets are a function of time; so are the records that differ, by default as many."""

    def __init__(self, offsets: Callable[[], float], records: Callable[[], float]) -> None:
        self._offsets, self._records = offsets, records
        self.judgements = 0

    def written(self) -> int:
        return int(self._offsets())

    committed = written

    def judge(self, sent: Traffic, *, deduplicated: bool) -> Output:
        self.judgements += 1
        missing = len(sent.first_at) - self._records() if deduplicated else 0
        return Output(CLEAN.model_copy(update={"lost": max(0, missing)}), np.zeros(0))


class FakeProcesses:
    """A peer whose exit codes are told beforehand."""

    def __init__(self, *exit_codes: int) -> None:
        self.exit_codes = list(exit_codes)
        self.kills = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def kill(self) -> None:
        self.kills += 1


def turn_with(
    offsets: Callable[[], float], tmp_path: Path, *, records: Callable[[], float] | None = None
) -> Turn:
    """A turn in which 100 messages must come through."""
    (tmp_path / "log").write_text("its last words")
    return Turn(
        cast(Peer, SimpleNamespace(title="Quix", removes_duplicates=True)),
        Job("", "", "", tmp_path, []),
        cast(OutputTopic, FakeTopic(offsets, records or offsets)),
        traffic(100, repeat_rate=0.0),
    )


def running(*exit_codes: int) -> PeerProcesses:
    return cast(PeerProcesses, FakeProcesses(*exit_codes))


def test_an_output_is_settled_once_it_is_complete_and_quiet(
    clock: FakeClock, tmp_path: Path
) -> None:
    turn = turn_with(lambda: min(clock.now * 10, 110), tmp_path)

    assert follow(turn, running(), Settled(turn))

    assert clock.now == pytest.approx(11 + 6, abs=0.5)


def test_a_pause_before_the_output_is_complete_does_not_settle_it(
    clock: FakeClock, tmp_path: Path
) -> None:
    turn = turn_with(lambda: 50 if clock.now < 60 else 100, tmp_path)

    assert follow(turn, running(), Settled(turn))

    assert clock.now > 60


def test_offsets_without_records_do_not_settle_it(clock: FakeClock, tmp_path: Path) -> None:
    # As after a kill: what came twice or was aborted has offsets, and the peer takes a while to start again.
    turn = turn_with(
        lambda: 120 if clock.now < 40 else 170, tmp_path, records=lambda: 60 + clock.now
    )
    settled = Settled(turn)

    assert follow(turn, running(), settled)

    assert clock.now > 40
    assert settled.output is not None
    assert not settled.output.verdict.lost


def test_what_is_missing_after_long_silence_is_lost_and_judged_once(
    clock: FakeClock, tmp_path: Path
) -> None:
    turn = turn_with(lambda: 120, tmp_path, records=lambda: 60)
    settled = Settled(turn)

    assert follow(turn, running(), settled)

    assert clock.now == pytest.approx(90, abs=1)
    assert settled.output is not None
    assert settled.output.verdict.lost == 40
    assert cast(FakeTopic, turn.target).judgements == 1


def test_a_peer_that_fails_is_noticed_and_one_that_is_done_is_not_a_failure(
    clock: FakeClock, tmp_path: Path
) -> None:
    turn = turn_with(lambda: min(clock.now * 10, 100), tmp_path)

    assert not follow(turn, running(0, 1), Settled(turn))
    assert follow(turn, running(0, 0), Settled(turn))


def test_a_peer_that_writes_nothing_for_long_is_given_up_with_its_last_words(
    tmp_path: Path,
) -> None:
    turn = turn_with(lambda: 50, tmp_path)

    with pytest.raises(BenchmarkFailed, match=r"has written nothing(?s:.)*its last words"):
        follow(turn, running(), Written(turn, offsets=60))


def test_enough_is_not_written_before_the_peer_is_at_work_again(
    clock: FakeClock, tmp_path: Path
) -> None:
    turn = turn_with(lambda: 80 + clock.now, tmp_path)
    written = Written(turn, offsets=45)

    assert not written()
    clock.sleep(1)
    assert written()


def test_a_peer_is_killed_when_its_time_has_come_and_started_again_when_it_ends_before(
    clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = turn_with(lambda: clock.now * 10, tmp_path)
    starts = [FakeProcesses(1), FakeProcesses(-9), FakeProcesses()]
    started = iter(starts)
    monkeypatch.setattr(Turn, "start", lambda _: next(started))

    assert work_until(turn, Written(turn, offsets=40), then_kill=True) == 2

    assert [each.kills for each in starts] == [0, 0, 1]


def test_a_peer_that_never_stays_up_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = turn_with(lambda: 0, tmp_path)
    attempts = count()
    monkeypatch.setattr(Turn, "start", lambda _: FakeProcesses(next(attempts) + 1))

    with pytest.raises(BenchmarkFailed, match="has exited 20 times"):
        work_until(turn, Written(turn, offsets=40), then_kill=True)
