"""Schedules of streams that get routers in place, written out: they stay when the generator changes."""

from collections.abc import Callable

import pytest

from tests.simulation.changed_world import End
from tests.simulation.kafka.calls import Moment
from tests.simulation.outcome import Outcome, run
from tests.simulation.schedule.faults import Crash, Freeze, ReplaceVolume, Snapshot
from tests.simulation.schedule.input import Item
from tests.simulation.schedule.manifest import AddRouters, OldManifest, SendCopies
from tests.simulation.schedule.routers import AddInputPartition, Grow, KillAt, SecondAt, SendTo
from tests.simulation.schedule.settings import Settings, input_topic
from tests.simulation.schedule.steps import Action, Schedule, Step, When
from tests.simulation.schedule.topics import Recreate, Retain
from tests.support.layers import later, spread

pytestmark = pytest.mark.usefixtures("quiet")

SETTINGS = Settings(direct=2, partitions=3, inputs=(2,), routers=2)
COPIES = tuple(map(Item, range(120)))


def at(seconds: float, action: Action, number: int = 0) -> Step:
    return Step(When(0, seconds=seconds), number, action)


def send(settings: Settings, first: int, end: int) -> list[Step]:
    """Send ids, each to its partition."""
    direct = settings.direct
    return [
        at(0.0, SendTo(0, each, tuple(map(Item, range(first + each, end, direct)))))
        for each in range(direct)
    ]


def change(*ends: End, settings: Settings = SETTINGS) -> Step:
    """Add the routers while input is unread; all start at once."""
    given = ends or (End(),) * settings.direct
    return at(0.0, AddRouters(given, (0.0,) * (settings.routers + 1)))


def outcome_of(*steps: Step, settings: Settings = SETTINGS) -> Outcome:
    begin = [at(2.0, Snapshot()), *send(settings, 0, 60), at(2.0, Snapshot())]
    begin += send(settings, 60, 90)
    end = [at(20.0, SendCopies(0, each, COPIES)) for each in range(settings.inputs[0])]
    return run(Schedule(1, settings, (*begin, *steps, *end)))


def judge(*steps: Step, settings: Settings = SETTINGS) -> None:
    outcome = outcome_of(*steps, settings=settings)
    assert not outcome.defects, "\n".join(outcome.defects)


# -- streams -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        Settings(direct=2, partitions=2, inputs=(2,), routers=1),
        Settings(direct=1, partitions=1, inputs=(1,), routers=1),
        Settings(direct=1, partitions=3, inputs=(1, 2), routers=2),
        Settings(direct=3, partitions=5, inputs=(3,), routers=2),
        Settings(direct=2, partitions=3, inputs=(2,), routers=1, by_key=True),
        Settings(direct=2, partitions=3, inputs=(2,), routers=1, by_key=True, id_from="Header"),
        Settings(direct=2, partitions=3, inputs=(2,), routers=1, table_slots=4096),
        Settings(direct=2, partitions=3, inputs=(2,), routers=1, exactly_once=False),
        Settings(direct=2, partitions=3, inputs=(2,), routers=1, observes=True),
        Settings(direct=2, partitions=3, inputs=(2, 1), routers=1, duplicates=True, conflicts=True),
    ],
    ids=str,
)
def test_a_stream_gets_routers(settings: Settings) -> None:
    judge(change(settings=settings), settings=settings)


def test_a_growth_follows() -> None:
    settings = Settings(direct=2, partitions=2, inputs=(2,), routers=2, grows_to=4)
    judge(change(settings=settings), at(0.0, Grow(4)), settings=settings)


@pytest.mark.parametrize("seconds", [0.0, 1.0, 30.0])
def test_an_input_that_gets_partitions_is_routed_from_their_beginning(seconds: float) -> None:
    added, later = at(0.0, AddInputPartition(0)), at(20.0, SendCopies(0, 2, COPIES))
    judge(added, change(), at(seconds, Crash()), later)
    judge(change(), at(seconds, AddInputPartition(0)), later)


# -- what fails in the middle ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault", [Crash, lambda: Crash(power=True), lambda: ReplaceVolume("empty")]
)
@pytest.mark.parametrize("calls", spread(range(1, 110, 12)))
def test_a_worker_that_is_killed_hands_over_and_learns(
    fault: Callable[[], Action], calls: int
) -> None:
    judge(change(), Step(When(calls, seconds=20.0), 0, fault()))


@pytest.mark.parametrize("seconds", [0.2, 1.0, 30.0])
def test_a_store_from_before_the_change_learns_all_again(seconds: float) -> None:
    judge(change(), at(seconds, ReplaceVolume("snapshot")))


@pytest.mark.parametrize("moment", [later(Moment.BEFORE), Moment.AFTER])
@pytest.mark.parametrize("name", ["init_transactions", "send", "commit_transaction"])
def test_an_entry_of_a_controller_that_is_killed_counts_or_not(name: str, moment: Moment) -> None:
    for number in (1, 2, 3, 4):
        judge(change(), Step(When(number, name, moment), 0, KillAt("g", 0.0)))


@pytest.mark.parametrize("calls", [10, 40, 70])
def test_two_controllers_do_no_harm(calls: int) -> None:
    judge(change(), Step(When(calls), 0, SecondAt("g", 20.0)))


# -- zombies and the old manifest --------------------------------------------------------------------


@pytest.mark.parametrize("frozen", [0.0, 1.0, 9.0, 40.0])
def test_a_zombie_writes_nothing_behind_the_cut(frozen: float) -> None:
    zombie = End("zombie", frozen=frozen)
    still = Step(When(1, "commit_transaction", Moment.AFTER), 0, Freeze(9.0))
    judge(change(zombie, zombie), still, *send(SETTINGS, 90, 120))


@pytest.mark.parametrize("volume", ["own", "copy", "empty", "snapshot"])
@pytest.mark.parametrize("seconds", [later(0.0), 2.0, later(30.0)])
def test_a_worker_of_the_old_manifest_does_no_harm(volume: str, seconds: float) -> None:
    late = End(seconds=10.0)
    judge(change(End(), late), at(seconds, OldManifest(volume, 5.0)), *send(SETTINGS, 90, 120))


# -- the input ---------------------------------------------------------------------------------------


def test_an_input_that_is_created_again_is_handed_over_again() -> None:
    again = at(8.0, Recreate(input_topic(0)))
    outcome = outcome_of(at(3.0, change(End(), End(seconds=15.0)).action), again)
    assert not outcome.kinds & {"stuck", "duplicated", "crashed"}, outcome.defects


@pytest.mark.parametrize("seconds", [0.0, 3.0])
def test_input_that_expires_unread_is_all_that_is_lost(seconds: float) -> None:
    expired = at(seconds, Retain(input_topic(0), 1.0))
    outcome = outcome_of(change(End(), End(seconds=2.0)), *send(SETTINGS, 90, 120), expired)
    # Where a first copy is lost a later one passes, which the judge takes for an altered one.
    assert outcome.kinds <= {"lost", "routing lost", "altered"}, outcome.defects
