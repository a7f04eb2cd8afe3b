"""A drain of a stream that grows: when the growth has stalled, and what it says it waits for."""

from dataclasses import dataclass, field

import pytest

from dedupe_crds.status.growth import GrowthStatus, GrowthStep
from dedupe_crds.status.router import RouterPhase
from dedupe_crds.status.worker import Phase, WorkerStatus
from dedupe_local.run.growth_drain import GrowthDrain
from dedupe_local.run.router_process import RouterView
from dedupe_local.run.worker_process import WorkerView
from tests.unit.local.run import views
from tests.unit.local.run.test_router_rows import status as router_status
from tests.unit.local.run.test_router_rows import view as router_view

STALL = 120.0


@dataclass
class FakeDrain:
    """A drain that says what a test wants."""

    done: bool = False
    observed: list[float] = field(default_factory=list)

    def observe(self, _statuses: object, now: float) -> None:
        self.observed.append(now)

    def stalled(self, _now: float) -> list[str]:
        return [] if self.done else ["partition 4 is at offset 0 of 9"]

    def missing(self) -> list[str]:
        return self.stalled(0)


@dataclass
class FakeGrowth:
    """A growth at a step."""

    status: GrowthStatus | None = None
    under_way: bool = True

    def at(self, step: GrowthStep, *waiting_for: str, total: int = 2, epoch: int = 1) -> None:
        self.status = GrowthStatus(
            epoch=epoch,
            before=4,
            partitions=6,
            step=step,
            done=total - len(waiting_for),
            total=total,
            waiting_for=list(waiting_for),
        )

    def notes(self) -> list[str]:
        return [self.status.line if self.status else "It has not begun."]


class Scene:
    """A drain of 6 workers that began at the time 0."""

    def __init__(self) -> None:
        self.growth, self.inner = FakeGrowth(), FakeDrain()
        self.workers: dict[int, WorkerView] = {
            n: views.view(n, status=running(n)) for n in range(6)
        }
        self.routers: list[RouterView] = [router_view(0, router_status())]
        self.drain = GrowthDrain(
            self.inner,
            self.growth,
            STALL,
            0.0,
            workers=lambda: list(self.workers.values()),
            routers=lambda: self.routers,
        )

    def has(self, status: WorkerStatus) -> None:
        self.workers[status.partition] = views.view(status.partition, status=status)

    def stalled(self, now: float) -> list[str]:
        self.drain.observe([view.status for view in self.workers.values()], now)
        return self.drain.stalled(now)


def running(partition: int, offset: int = 0) -> WorkerStatus:
    return views.status(offset, partition=partition)


def learning(partition: int, records: int, remaining: int, message: str = "") -> WorkerStatus:
    found = views.status(
        partition=partition,
        phase=Phase.RECONCILING,
        to_reconcile=remaining,
        reason="OpenTransaction" if message else None,
        message=message or None,
    )
    assert found.reconcile is not None
    reading = found.reconcile.model_copy(update={"records": records, "reason": "Growth"})
    return found.model_copy(update={"reconcile": reading})


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_growth_that_stands_still_has_stalled(scene: Scene) -> None:
    scene.growth.at(GrowthStep.LEARNING, "4", "5")
    scene.has(learning(4, 10, 500_000, "a transaction is open"))
    scene.workers[5] = views.view(5, last_exit="was killed by SIGKILL")
    assert scene.stalled(1) == []
    assert scene.stalled(120) == []
    assert scene.stalled(121) == [
        "Growth from 4 to 6 partitions: Learning, 0 of 2, waiting for 4, 5",
        "partition 4: OpenTransaction: a transaction is open",
        "partition 5: was killed by SIGKILL",
    ]


def test_one_that_never_begins_has_stalled(scene: Scene) -> None:
    assert scene.stalled(119) == []
    assert scene.stalled(120) == ["It has not begun"]


def test_a_worker_that_reads_keeps_it_from_stalling(scene: Scene) -> None:
    """Under traffic as much may come as it reads, and at the end little is read."""
    scene.growth.at(GrowthStep.LEARNING, "4")
    for turn in range(1, 5):
        scene.has(learning(4, 10 * turn, 500_000))
        assert scene.stalled(turn * 100) == []
    for turn in range(5, 9):
        scene.has(learning(4, 40, 500_000 - turn))
        assert scene.stalled(turn * 100) == []
    scene.has(learning(4, 5, 500_000))
    assert scene.stalled(920) != [], "it begins again and again"


def test_a_step_that_is_reached_again_is_no_progress(scene: Scene) -> None:
    scene.growth.at(GrowthStep.LEARNING, "4")
    assert scene.stalled(1) == []
    scene.growth.at(GrowthStep.LEARNING, "4", "5")
    assert scene.stalled(60) == []
    scene.growth.at(GrowthStep.LEARNING, "4")
    assert scene.stalled(121) != []
    scene.growth.at(GrowthStep.WAITING_FOR_ROUTERS, "a/0", "a/1")
    assert scene.stalled(122) == []
    scene.growth.at(GrowthStep.LEARNING, "4", "5", epoch=2)
    assert scene.stalled(240) == []


def test_old_workers_that_are_waited_for_may_read_what_was_routed_before(scene: Scene) -> None:
    scene.growth.at(GrowthStep.WAITING_FOR_WORKERS, "1", total=4)
    for turn in range(1, 5):
        scene.has(running(1, turn))
        assert scene.stalled(turn * 100) == []
    scene.has(running(2, 9))
    assert scene.stalled(521) == [
        "Growth from 4 to 6 partitions: WaitingForWorkers, 3 of 4, waiting for 1"
    ]


def test_routers_that_wait_for_workers_are_waited_for(scene: Scene) -> None:
    scene.growth.at(GrowthStep.WAITING_FOR_ROUTERS, "raw/0")
    scene.routers = [router_view(0, router_status(phase=RouterPhase.PAUSED))]
    for turn in range(1, 5):
        scene.has(running(1, turn))
        assert scene.stalled(turn * 100) == []
    failed = router_status().model_copy(update={"reason": "NotAuthorized", "message": "grant it"})
    scene.routers = [router_view(0, failed), router_view(1), router_view(2, router_status())]
    scene.has(running(1, 9))
    assert scene.stalled(521)[1:] == [
        "router 0: NotAuthorized: grant it",
        "router 1: it does not answer",
    ]


def test_what_waited_for_the_growth_has_its_time_after_it(scene: Scene) -> None:
    scene.growth.at(GrowthStep.READING_REST, "5")
    assert scene.stalled(1) == []
    assert scene.drain.missing()[-1] == "partition 4 is at offset 0 of 9"
    scene.growth.under_way = False
    assert scene.stalled(115) == []
    assert scene.stalled(234) == []
    assert scene.stalled(235) == ["partition 4 is at offset 0 of 9"] == scene.drain.missing()
    assert scene.inner.observed == [1, 115, 234, 235]


def test_nothing_is_drained_before_the_growth_is_done(scene: Scene) -> None:
    scene.inner.done = True
    scene.stalled(1)
    assert not scene.drain.done
    scene.growth.under_way = False
    scene.stalled(2)
    assert scene.drain.done
    assert scene.drain.missing() == []
