"""The thread that calls the controller of a growth, and what it shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import cast

import pytest

from dedupe_crds.manifest import parse_manifest
from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.growth import GrowthStatus, GrowthStep
from dedupe_crds.status.worker import WorkerStatus
from dedupe_growth.controller import GrowthController
from dedupe_growth.entries import Done, Entry, Prepare, Switch
from dedupe_growth.epochs import Epochs, epochs_of
from dedupe_kafka.errors import BrokerUnavailable
from dedupe_kafka.stream_topics import StreamTopics
from dedupe_kafka.topic import TopicProblem
from dedupe_local.run import growth as module
from dedupe_local.run.growth import Growth
from tests.support.patience import HANG_SECONDS, patience
from tests.unit.crds.manifests import changed
from tests.unit.local.run.views import status

BEGUN: list[Entry] = [Switch(epoch=0, partitions=2, inputs={}), Done(epoch=0)]
PREPARED: list[Entry] = [*BEGUN, Prepare(epoch=1, partitions=4)]
GROWN: list[Entry] = [*PREPARED, Switch(epoch=1, partitions=4, inputs={}), Done(epoch=1)]


def at(step: GrowthStep) -> GrowthStatus:
    return GrowthStatus(epoch=1, before=2, partitions=4, step=step, done=1, total=2)


@dataclass
class FakeController:
    """Does what a test says in each step, one after another, and then nothing."""

    acts: list[bool | Exception] = field(default_factory=list)
    epochs: Epochs = field(default_factory=lambda: epochs_of(BEGUN))
    status: GrowthStatus | None = None
    calls: list[tuple[int, Mapping[int, int]]] = field(default_factory=list)
    rests: Event = field(default_factory=Event)

    def read(self) -> Epochs:
        return self.epochs

    def step(self, wanted: int, unlearnt: Mapping[int, int]) -> bool:
        self.calls.append((wanted, dict(unlearnt)))
        if not self.acts:
            self.rests.set()
            return False
        act = self.acts.pop(0)
        if isinstance(act, Exception):
            raise act
        return act


@dataclass
class FakeTopics:
    """A cluster whose topics get the partitions that they are asked for, or have a problem."""

    problems: tuple[TopicProblem, ...] = ()
    asked: list[int] = field(default_factory=list)

    def ensure_output(self, stream: DedupeStream) -> StreamTopics:
        assert stream.spec.repartition
        count = stream.spec.repartition.partitions
        self.asked.append(count)
        return StreamTopics(partitions=count, served=count, problems=self.problems, created=False)


def stream_of(partitions: int) -> DedupeStream:
    return parse_manifest(changed({"spec.repartition.partitions": partitions}), "-")


def growth_of(
    controller: FakeController,
    wanted: int = 2,
    statuses: Sequence[WorkerStatus | None] = (),
    topics: FakeTopics | None = None,
) -> Growth:
    known = cast("GrowthController", controller)
    return Growth(known, stream_of(wanted), topics or FakeTopics(), lambda: statuses)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the thread go on at once; how long it waits is a test of its own."""
    for name in ("_GROWING_SECONDS", "_RESTING_SECONDS", "_AGAIN_SECONDS"):
        monkeypatch.setattr(module, name, 0.0005)


def run(growth: Growth, controller: FakeController) -> None:
    """Run the thread until all acts are done."""
    controller.rests.clear()
    growth.begin(0)
    assert controller.rests.wait(HANG_SECONDS)
    growth.stop()


def test_what_can_be_done_without_processes_is_done_first() -> None:
    controller = FakeController([True, True])
    growth = growth_of(controller)
    growth.begin(0)
    growth.stop()
    assert controller.calls[:3] == [(2, {})] * 3


def test_a_stream_of_a_release_without_epochs_begins_with_the_partitions_that_it_has() -> None:
    class New(FakeController):
        def step(self, wanted: int, unlearnt: Mapping[int, int]) -> bool:
            self.epochs = epochs_of(BEGUN)
            return super().step(wanted, unlearnt)

    controller = New([True], epochs=Epochs())
    growth = growth_of(controller, 4)
    growth.begin(2)
    growth.stop()
    assert [wanted for wanted, _ in controller.calls[:2]] == [2, 4]


def test_a_start_that_kafka_refuses_fails() -> None:
    growth = growth_of(FakeController([True, BrokerUnavailable("no answer")]))
    with pytest.raises(BrokerUnavailable):
        growth.begin(0)
    growth.stop()


def test_the_thread_tells_what_the_workers_have_left_to_learn() -> None:
    controller = FakeController([False, True, True])
    run(growth_of(controller, 4, [status(partition=1), None]), controller)
    assert controller.calls[0] == (4, {})
    assert controller.calls[1:4] == [(4, {1: 0})] * 3


def test_a_step_that_fails_is_shown_until_one_succeeds() -> None:
    seen: list[str] = []

    class Watched(FakeController):
        def step(self, wanted: int, unlearnt: Mapping[int, int]) -> bool:
            seen.append(growth.problem)
            return super().step(wanted, unlearnt)

    controller = Watched([False, BrokerUnavailable("no answer"), True])
    growth = growth_of(controller)
    run(growth, controller)
    assert seen[:4] == ["", "", "BrokerUnavailable: no answer", ""]


def test_an_unexpected_error_is_shown_and_does_not_end_the_thread(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[str] = []

    class Watched(FakeController):
        def step(self, wanted: int, unlearnt: Mapping[int, int]) -> bool:
            seen.append(growth.problem)
            return super().step(wanted, unlearnt)

    controller = Watched([False, KeyError("epoch"), KeyError("epoch"), True])
    growth = growth_of(controller)
    run(growth, controller)
    text = "KeyError: 'epoch' (a defect of the program: please report it with the log)"
    assert seen[:5] == ["", "", text, text, ""]
    assert caplog.text.count("Traceback") == 1


def test_a_problem_is_noted_with_the_growth() -> None:
    controller = FakeController(status=at(GrowthStep.LEARNING), epochs=epochs_of(PREPARED))
    growth = growth_of(controller, 4)
    assert growth.notes() == ["Growth from 2 to 4 partitions: Learning, 1 of 2."]
    growth.problem = "BrokerUnavailable: no answer"
    assert growth.notes()[1:] == ["The growth waits: BrokerUnavailable: no answer"]


def test_a_growth_that_is_done_is_no_news() -> None:
    controller = FakeController(status=at(GrowthStep.DONE), epochs=epochs_of(GROWN))
    growth = growth_of(controller, 4)
    assert growth.notes() == []
    assert growth.status == at(GrowthStep.DONE)


@pytest.mark.parametrize(("entries", "step"), [(BEGUN, None), (GROWN, GrowthStep.DONE)])
def test_a_growth_that_has_not_begun_is_noted(
    entries: list[Entry], step: GrowthStep | None
) -> None:
    """Also after another one, which is done."""
    controller = FakeController(status=at(step) if step else None, epochs=epochs_of(entries))
    assert growth_of(controller, 5).notes() == ["The growth to 5 partitions has not begun."]


@pytest.mark.parametrize(
    ("entries", "step", "wanted", "under_way"),
    [
        (BEGUN, None, 2, False),
        (BEGUN, None, 1, False),
        (BEGUN, None, 3, True),
        (PREPARED, GrowthStep.LEARNING, 4, True),
        (PREPARED, GrowthStep.LEARNING, 2, True),
        (GROWN, GrowthStep.READING_REST, 4, True),
        (GROWN, GrowthStep.DONE, 4, False),
        (GROWN, GrowthStep.DONE, 5, True),
    ],
)
def test_a_growth_is_under_way_from_the_manifest_to_the_step_that_shows_its_end(
    entries: list[Entry], step: GrowthStep | None, wanted: int, *, under_way: bool
) -> None:
    shown = at(step) if step else None
    growth = growth_of(FakeController(status=shown, epochs=epochs_of(entries)), wanted)
    assert growth.under_way is under_way


def test_partitions_need_workers_once_they_are_prepared() -> None:
    controller = FakeController()
    growth = growth_of(controller, 4)
    assert growth.workers == 2
    controller.epochs = epochs_of(PREPARED)
    assert growth.workers == 4


def test_a_larger_number_is_asked_of_the_topics_first() -> None:
    controller, topics = FakeController([False, False, True]), FakeTopics()
    growth = growth_of(controller, topics=topics)
    assert not growth.under_way
    growth.ask(stream_of(4))
    assert growth.under_way
    run(growth, controller)
    assert topics.asked == [4]
    assert [wanted for wanted, _ in controller.calls[:3]] == [2, 4, 4]


def test_a_growth_waits_for_topics_that_cannot_grow() -> None:
    refused = TopicProblem(reason="TooFew", message="grant the ACL ALTER", fatal=True)
    controller, topics = FakeController([False]), FakeTopics(problems=(refused,))
    growth = growth_of(controller, topics=topics)
    growth.begin(0)
    growth.ask(stream_of(4))
    assert patience(20).wait_for(lambda: growth.problem, poll_seconds=0.01)
    growth.stop()
    assert growth.problem == "TopicUnusable: grant the ACL ALTER"
    assert {wanted for wanted, _ in controller.calls} == {2}


def test_a_growth_is_watched_closely_and_a_stream_at_rest_seldom(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_RESTING_SECONDS", 7.0)
    controller = FakeController(epochs=epochs_of(GROWN), status=at(GrowthStep.DONE))
    assert growth_of(controller, 4)._rest == 7.0  # noqa: SLF001 (the pause of the thread)
    assert growth_of(controller, 5)._rest == 0.0005  # noqa: SLF001


def test_a_growth_begins_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RESTING_SECONDS", 10 * HANG_SECONDS)
    controller, topics = FakeController(), FakeTopics()
    growth = growth_of(controller, topics=topics)
    growth.begin(0)
    deadline = patience(20)
    while len(controller.calls) < 2:  # the thread has looked once, and rests
        assert deadline.pause(0.001)
    growth.ask(stream_of(4))
    while not topics.asked:
        assert deadline.pause(0.001)
    growth.stop()


def test_a_stop_before_the_begin_waits_for_nothing() -> None:
    growth_of(FakeController()).stop()
