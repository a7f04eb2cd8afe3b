"""The controller of a growth on a Kafka in memory: alone, killed anywhere, and two at once."""

from collections.abc import Iterable
from typing import Any

import pytest
from confluent_kafka import KafkaError

from dedupe_crds.status.growth import GrowthStep
from dedupe_growth.controller import FormerInputUnreadable, GrowthController
from dedupe_growth.entries import (
    Cuts,
    Direct,
    Done,
    Entry,
    EpochLogUnreadable,
    HandedOver,
    Listed,
    Prepare,
    RouterStart,
    Switch,
)
from dedupe_growth.epochs import epochs_of
from dedupe_growth.log import EpochLogMissing
from dedupe_growth.mark import Mark
from dedupe_growth.writer import EpochLogMoved
from dedupe_kafka.clients import Clients
from dedupe_kafka.errors import BrokerUnavailable, NotAuthorized, StreamError, TopicUnusable
from dedupe_kafka.offset_metadata import Cut
from tests.simulation.kafka.calls import Call, Killed, Moment
from tests.simulation.kafka.cluster import no_faults
from tests.simulation.kafka.failures import failure
from tests.simulation.kafka.groups import Committed
from tests.simulation.kafka.transactional import timed_out
from tests.unit.growth.scene import BETWEEN, EPOCHS, STREAM, Scene, once

INPUTS = {"orders": 2}
FIRST = Switch(epoch=0, partitions=2, inputs=INPUTS)
BEGUN: list[Entry] = [FIRST, Done(epoch=0)]
PREPARED: list[Entry] = [*BEGUN, Prepare(epoch=1, partitions=4)]
SWITCHED: list[Entry] = [*PREPARED, Switch(epoch=1, partitions=4, inputs=INPUTS)]
GROWN: list[Entry] = [*SWITCHED, Cuts(epoch=1, cuts={0: 40, 1: 41}), Done(epoch=1)]
LEARNT = {2: 0, 3: 0}
MARK = Mark(1, 4)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def steps(controller: GrowthController, wanted: int = 4) -> int:
    """Step until nothing is left to do now; return how often something was done."""
    done = 0
    while controller.step(wanted, LEARNT):
        done += 1
        assert done < 20, "it never rests"
    return done


def do_their_part(scene: Scene) -> None:
    """Let routers and workers do what the log and the marks tell them."""
    epochs = scene.epochs
    for partition in range(2):
        if epochs.entries:
            scene.route(partition, epochs.switched)
        if MARK in scene.marks(partition):
            scene.pass_epoch(partition, 1, 40 + partition)
    if 1 in epochs.cuts:
        for partition in (2, 3):
            scene.pass_epoch(partition, 1, 0)


def has_grown(scene: Scene) -> bool:
    return scene.epochs.done == 1


# -- alone -------------------------------------------------------------------------------------------


def test_a_stream_begins_and_then_nothing_is_left_to_do(scene: Scene) -> None:
    controller = scene.controller()
    assert steps(controller, 2) == 2
    assert scene.entries == BEGUN
    assert controller.epochs == epochs_of(BEGUN)
    assert controller.status is None
    assert not controller.step(2, {})


def test_a_growth_goes_step_by_step(scene: Scene) -> None:
    controller = scene.controller()
    steps(controller, 2)
    for partition in range(2):
        scene.route(partition, 0)
    scene.grow(4)
    assert controller.step(4, {})
    assert (scene.entries, controller.epochs.workers) == (PREPARED, 4)
    assert not controller.step(4, {2: 0}), "one has not learnt"
    assert shown(controller) == (GrowthStep.LEARNING, ["3"])
    assert controller.step(4, LEARNT)
    assert scene.entries == SWITCHED
    assert not controller.step(4, {})
    assert shown(controller) == (GrowthStep.WAITING_FOR_ROUTERS, ["orders/0", "orders/1"])
    scene.route(0, 1)
    assert not controller.step(4, {})
    assert shown(controller) == (GrowthStep.WAITING_FOR_ROUTERS, ["orders/1"])
    assert all_marks(scene) == [[], [], [], []], "not before all have adopted"
    scene.route(1, 1)
    assert controller.step(4, {})
    assert all_marks(scene) == [[MARK], [MARK], [], []]
    assert not controller.step(4, {}), "once they are written they are waited for"
    assert shown(controller) == (GrowthStep.WAITING_FOR_WORKERS, ["0", "1"])
    scene.pass_epoch(0, 1, 40)
    scene.pass_epoch(1, 1, 41)
    assert controller.step(4, {})
    assert scene.entries == GROWN[:-1]
    assert not controller.step(4, {})
    assert shown(controller) == (GrowthStep.READING_REST, ["2", "3"])
    scene.pass_epoch(2, 1, 0)
    assert not controller.step(4, {})
    scene.pass_epoch(3, 1, 5)
    assert controller.step(4, {})
    assert scene.entries == GROWN
    assert not controller.step(4, {})
    assert shown(controller) == (GrowthStep.DONE, [])


def shown(controller: GrowthController) -> tuple[GrowthStep, list[str]]:
    assert controller.status is not None
    return controller.status.step, controller.status.waiting_for


def all_marks(scene: Scene) -> list[list[Mark | None]]:
    return [scene.marks(each) for each in range(4)]


def test_what_routers_and_workers_of_an_earlier_release_committed_is_epoch_0(scene: Scene) -> None:
    scene.enter(*SWITCHED)
    scene.grow(4)
    for group, topic in ((STREAM.router_group, "orders"), (STREAM.consumer_group, BETWEEN)):
        for partition in range(2):
            committed = Committed(7, "In1")
            scene.cluster.groups.commit((group, topic, partition), committed, 1)
    controller = scene.controller()
    assert not controller.step(4, {})
    assert shown(controller) == (GrowthStep.WAITING_FOR_ROUTERS, ["orders/0", "orders/1"])


def test_an_open_transaction_of_a_router_counts_for_nothing_before_it_is_committed(
    scene: Scene,
) -> None:
    scene.enter(*SWITCHED)
    scene.grow(4)
    scene.route(0, 1)
    scene.route(1, 0)
    coordinator = scene.cluster.coordinator
    identity = coordinator.init("router", 60)
    coordinator.add_offsets(
        "router", identity, STREAM.router_group, {("orders", 1): Committed(8, "In1:1")}
    )
    controller = scene.controller()
    try:
        assert not controller.step(4, {})
    except BrokerUnavailable:  # a Kafka whose answer waits for the transaction's end
        scene.clock.advance(60)
    assert all_marks(scene) == [[], [], [], []]


def test_a_new_input_is_listed_before_anything_else(scene: Scene) -> None:
    scene.enter(*BEGUN)
    scene.grow(4)
    scene.cluster.add_partitions("orders", 3)
    controller = scene.controller()
    assert controller.step(4, {})
    assert scene.entries == [*BEGUN, Listed(epoch=0, inputs={"orders": 3})]


def test_a_topic_that_is_hidden_is_asked_for_its_offsets(scene: Scene) -> None:
    scene.enter(*SWITCHED)
    scene.grow(4)
    scene.route(0, 1)
    scene.route(1, 0)
    controller = scene.controller()
    scene.hidden = {"orders"}
    assert not controller.step(4, {})
    assert shown(controller) == (GrowthStep.WAITING_FOR_ROUTERS, ["orders/1"])
    scene.route(1, 1)
    assert controller.step(4, {})


# -- marks -------------------------------------------------------------------------------------------


@pytest.fixture
def adopted(scene: Scene) -> Scene:
    """A stream whose routers have switched."""
    scene.enter(*SWITCHED)
    scene.grow(4)
    for partition in range(2):
        scene.route(partition, 1)
    return scene


def test_a_mark_that_is_not_met_for_a_while_is_written_again(adopted: Scene) -> None:
    controller = adopted.controller()
    assert controller.step(4, {})
    adopted.pass_epoch(1, 1, 41)
    adopted.clock.advance(9)
    assert not controller.step(4, {})
    adopted.clock.advance(2)
    assert controller.step(4, {})
    assert all_marks(adopted) == [[MARK, MARK], [MARK], [], []]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, NotAuthorized),
        (KafkaError.UNKNOWN, BrokerUnavailable),
    ],
)
def test_a_mark_that_was_refused_is_written_by_the_next_step(
    adopted: Scene, code: int, error: type[StreamError]
) -> None:
    def refuse(_: Call) -> None:
        raise failure(code)

    controller = adopted.controller(hook=once("send", Moment.BEFORE, refuse))
    with pytest.raises(error, match=f"writing marks to {BETWEEN}"):
        controller.step(4, {})
    assert controller.step(4, {})
    assert MARK in adopted.marks(0)
    assert MARK in adopted.marks(1)


def test_a_mark_without_an_answer_is_written_by_the_next_step(adopted: Scene) -> None:
    controller = adopted.controller()
    adopted.cluster.leader_away(BETWEEN, 1, 20)
    with pytest.raises(BrokerUnavailable, match="marks are not acknowledged"):
        controller.step(4, {})
    adopted.clock.advance(20)
    assert controller.step(4, {})
    assert MARK in adopted.marks(1)


@pytest.mark.parametrize("properties", [{}, {"enable.idempotence": "false"}])
def test_marks_need_no_producer_id_and_entries_do(
    adopted: Scene, properties: dict[str, str]
) -> None:
    """A producer waits 0.5 s for the id, which a moved id waits too."""
    clients, made = adopted.cluster.clients("controller", no_faults), list[dict[str, Any]]()

    def producer(config: dict[str, Any]) -> object:
        made.append(config)
        return clients.producer(config)

    controller = GrowthController(
        STREAM,
        properties,
        adopted,
        clock=adopted.clock,
        clients=Clients(clients.consumer, producer),
    )
    assert controller.step(4, {})
    adopted.pass_epoch(0, 1, 40)
    adopted.pass_epoch(1, 1, 41)
    assert controller.step(4, {})
    assert adopted.entries == GROWN[:-1]
    assert [each["enable.idempotence"] for each in made] == [False, True]


# -- an epoch log that is lost -------------------------------------------------------------------------


def test_an_empty_log_is_not_begun_anew_once_routers_have_read_one(scene: Scene) -> None:
    """It says how many partitions the stream has had."""
    scene.route(1, 0)
    controller = scene.controller()
    for _ in range(2):
        with pytest.raises(EpochLogMissing, match="restore it from a copy"):
            controller.step(2, {})
    assert scene.entries == []


@pytest.mark.parametrize("metadata", ["", "In1"])
def test_an_empty_log_is_begun_beside_routers_of_an_earlier_release(
    scene: Scene, metadata: str
) -> None:
    committed = Committed(7, metadata)
    scene.cluster.groups.commit((STREAM.router_group, "orders", 0), committed, 1)
    steps(scene.controller(), 2)
    assert scene.entries == BEGUN


# -- killed, fenced, without an answer -----------------------------------------------------------------


def grow_with(scene: Scene, controllers: Iterable[GrowthController]) -> None:
    """Grow a stream; whenever a controller is killed, the next one continues."""
    for number, controller in enumerate(controllers, 1):
        try:
            for _ in range(20):
                wanted = 2 if scene.epochs.done < 0 else 4
                scene.grow(wanted)
                do_their_part(scene)
                controller.step(wanted, LEARNT)
                if has_grown(scene):
                    return
            raise AssertionError("the growth stands still")
        except Killed:
            scene.cluster.disconnect(f"controller-{number}")


def calls_of_a_growth() -> list[Call]:
    found: list[Call] = []
    scene = Scene()
    grow_with(scene, [scene.controller("controller-1", found.append)])
    assert scene.entries == GROWN
    return found


def killed_at(scene: Scene, *numbers: int) -> list[GrowthController]:
    """Return controllers of which each is killed at that call of it, and a last one that is not."""

    def controller(process: str, number: int) -> GrowthController:
        left = [number]

        def hook(_: Call) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise Killed

        return scene.controller(process, hook)

    found = [controller(f"controller-{n}", each) for n, each in enumerate(numbers, 1)]
    return [*found, scene.controller("last", no_faults)]


def test_a_controller_that_is_killed_at_any_call_is_continued_by_the_next_one() -> None:
    for number in range(1, len(calls_of_a_growth()) + 1):
        scene = Scene()
        grow_with(scene, killed_at(scene, number))
        assert scene.entries == GROWN, f"killed at call {number}"
        assert MARK in scene.marks(0)
        assert MARK in scene.marks(1)
        assert not scene.cluster.coordinator.open_ids()


def test_controllers_that_are_killed_again_and_again_get_there() -> None:
    """Each does one act at most, and is killed in the middle of the next."""
    scene = Scene()
    grow_with(scene, killed_at(scene, *[each for each in range(20, 60) for _ in range(3)]))
    assert scene.entries == GROWN


def test_two_controllers_at_once_do_no_harm(scene: Scene) -> None:
    """Each is refused at times, then reads what the other has written, and goes on."""
    both, refused = [scene.controller("one"), scene.controller("other")], 0
    for turn in range(60):
        wanted = 2 if scene.epochs.done < 0 else 4
        scene.grow(wanted)
        do_their_part(scene)
        try:
            both[turn % 2].step(wanted, LEARNT)
        except EpochLogMoved:
            refused += 1
    assert refused
    assert scene.entries == GROWN
    assert {each.status and each.status.step for each in both} == {GrowthStep.DONE}


@pytest.mark.parametrize("moment", Moment)
def test_an_entry_whose_commit_was_not_answered_is_written_once(
    scene: Scene, moment: Moment
) -> None:
    scene.enter(*BEGUN)
    scene.grow(4)
    fails = True

    def fail(call: Call) -> None:
        if fails and (call.name, call.moment) == ("commit_transaction", moment):
            scene.clock.advance(1)
            raise timed_out()

    controller = scene.controller(hook=fail)
    with pytest.raises(BrokerUnavailable):
        controller.step(4, {})
    fails = False
    controller.step(4, {})
    assert scene.entries == PREPARED
    assert controller.epochs == epochs_of(PREPARED)


def test_an_entry_that_was_committed_late_is_written_once(scene: Scene) -> None:
    """The coordinator is away for longer than the controller waits, and then does what it was asked for."""
    scene.enter(*BEGUN)
    scene.grow(4)

    def away(_: Call) -> None:
        scene.cluster.coordinator_away(20)

    controller = scene.controller(hook=once("commit_transaction", Moment.BEFORE, away))
    with pytest.raises(BrokerUnavailable):
        controller.step(4, {})
    scene.clock.advance(20)
    controller.step(4, {})
    assert scene.entries == PREPARED
    assert controller.epochs == epochs_of(PREPARED)


def test_what_was_committed_is_known_although_it_is_not_shown_at_once(scene: Scene) -> None:
    """A commit is answered before its marker is in the log."""
    scene.cluster.coordinator.marker_seconds = 1.0
    controller = scene.controller()
    assert steps(controller, 2) == 2
    assert controller.epochs == epochs_of(BEGUN)
    scene.clock.advance(1)
    assert scene.entries == BEGUN


def test_a_controller_that_was_refused_knows_what_the_other_has_written(scene: Scene) -> None:
    controller = scene.controller()
    assert steps(controller, 2) == 2
    scene.grow(4)
    scene.enter(*PREPARED[2:])
    with pytest.raises(EpochLogMoved):
        controller.step(4, {})
    assert controller.epochs == epochs_of(PREPARED)
    assert not controller.step(4, {})


def test_a_controller_that_cannot_read_the_log_decides_nothing(scene: Scene) -> None:
    scene.enter(*BEGUN)
    scene.grow(4)
    scene.cluster.leader_away(EPOCHS, 0, 40)
    controller = scene.controller()
    with pytest.raises(BrokerUnavailable):
        controller.step(4, {})
    assert controller.epochs.entries == 0
    scene.clock.advance(40)
    assert controller.step(4, {})
    assert scene.entries == PREPARED


# -- a stream that gets routers ----------------------------------------------------------------------


def changes(scene: Scene) -> list[Entry]:
    """Return the entries of a change to routers from 2 to 4 partitions."""
    topic_id = scene.offsets("orders").id
    start = RouterStart(offset=7, topic_id=topic_id)
    return [
        Direct(epoch=0, partitions=2, topic="orders", topic_id=topic_id),
        Prepare(epoch=1, partitions=4),
        HandedOver(epoch=1, cuts={0: 30, 1: 31}, starts={0: start, 1: start}),
        Switch(epoch=1, partitions=4, inputs=INPUTS),
        Done(epoch=1),
    ]


def hand_over(scene: Scene, *partitions: int) -> None:
    for partition in partitions:
        scene.read_directly(partition, Cut(1, 30 + partition))


def test_a_stream_gets_routers_once_its_workers_have_handed_over(scene: Scene) -> None:
    wanted, controller = changes(scene), scene.controller()
    for partition in range(2):
        scene.read_directly(partition)
    scene.grow(4)
    assert steps(controller) == 2
    assert scene.entries == wanted[:2]
    assert shown(controller) == (GrowthStep.HANDING_OVER, ["0", "1"])
    hand_over(scene, 1)
    assert steps(controller) == 0
    assert shown(controller) == (GrowthStep.HANDING_OVER, ["0"])
    hand_over(scene, 0)
    assert steps(controller) == 2
    assert scene.entries == wanted[:4]
    assert shown(controller) == (GrowthStep.READING_REST, ["0", "1", "2", "3"])
    assert all_marks(scene)[:2] == [[], []], "there were no routers before"
    for partition in range(4):
        scene.pass_epoch(partition, 1, 5)
    assert steps(controller) == 1
    assert scene.entries == wanted
    assert shown(controller) == (GrowthStep.DONE, [])


@pytest.mark.parametrize("known", range(5))
def test_a_change_is_continued_by_another_controller(scene: Scene, known: int) -> None:
    wanted = changes(scene)
    hand_over(scene, 0, 1)
    scene.enter(*wanted[:known])
    assert steps(scene.controller()) == 4 - known
    for partition in range(4):
        scene.pass_epoch(partition, 1, 5)
    assert steps(scene.controller()) == 1
    assert scene.entries == wanted


def test_a_change_to_fewer_partitions_is_refused(scene: Scene) -> None:
    scene.enter(changes(scene)[0])
    with pytest.raises(TopicUnusable, match="make it at least 2"):
        scene.controller().step(1, {})
    scene.enter(changes(scene)[1])
    assert not scene.controller().step(1, {}), "its partitions are in the log, and may be raised"


def test_without_workers_before_a_stream_begins_with_its_routers(scene: Scene) -> None:
    assert scene.controller().step(2, {})
    assert scene.entries == [FIRST]


# -- an input that was taken out of the manifest -------------------------------------------------------


def taken_out(scene: Scene, *entries: Entry) -> None:
    """`gone` was an input, and both of its partitions were routed by epoch 0."""
    scene.cluster.create_topic("gone", 2)
    scene.enter(Switch(epoch=0, partitions=2, inputs={**INPUTS, "gone": 2}), *entries)
    scene.grow(4)
    for topic in ("orders", "gone"):
        for partition in range(2):
            scene.route(partition, 0, topic)


def test_a_former_input_gets_the_new_epoch_as_well(scene: Scene) -> None:
    taken_out(scene, Done(epoch=0), Prepare(epoch=1, partitions=4))
    controller = scene.controller()
    steps(controller)
    assert scene.entries[-1] == Switch(epoch=1, partitions=4, inputs={**INPUTS, "gone": 2})
    for partition in range(2):
        scene.route(partition, 1)
    scene.route(0, 1, "gone")
    assert steps(controller) == 0
    assert controller.status is not None
    assert controller.status.waiting_for == ["gone/1"]
    scene.route(1, 1, "gone")
    steps(controller)
    assert MARK in scene.marks(0)


def test_a_former_input_that_is_deleted_is_not_waited_for(scene: Scene) -> None:
    taken_out(scene, Done(epoch=0), *SWITCHED[2:3])
    scene.enter(Switch(epoch=1, partitions=4, inputs={**INPUTS, "gone": 2}))
    for partition in range(2):
        scene.route(partition, 1)
    scene.cluster.delete_topic("gone")
    steps(scene.controller())
    assert MARK in scene.marks(0)


@pytest.mark.parametrize("entries", [[Done(epoch=0)], [Done(epoch=0), PREPARED[2]]])
def test_a_former_input_without_rights_is_named_before_a_growth_begins(
    scene: Scene, entries: list[Entry]
) -> None:
    taken_out(scene, *entries)
    before = scene.entries
    scene.unreadable["gone"] = NotAuthorized("gone/0: no READ")
    controller = scene.controller()
    with pytest.raises(FormerInputUnreadable, match=r"gone was an input .* gone/0: no READ"):
        controller.step(4, LEARNT)
    assert scene.entries == before
    scene.unreadable.clear()
    steps(controller)
    assert scene.epochs.switched == 1


# -- a log that has lost its tail --------------------------------------------------------------------

OTHERS: list[Entry] = [Prepare(epoch=1, partitions=8), Listed(epoch=0, inputs={"more": 1})]


@pytest.mark.parametrize("kept", range(1, len(GROWN)))
@pytest.mark.parametrize("instead", [[], OTHERS])
def test_a_controller_refuses_a_log_that_lacks_what_it_knows(
    scene: Scene, kept: int, instead: list[Entry]
) -> None:
    """Else it would write another entry in the place of one that routers have read."""
    scene.enter(*GROWN)
    scene.grow(8)
    controller = scene.controller()
    controller.read()
    scene.cluster.truncate(EPOCHS, 0, kept)
    scene.enter(*instead)
    there = scene.entries
    for _ in range(2):
        with pytest.raises(EpochLogUnreadable, match="restore it from a copy"):
            controller.step(8, LEARNT)
    assert scene.entries == there
    assert controller.epochs == epochs_of(GROWN), "it does not forget"


@pytest.mark.parametrize("kept", [2, 3])
@pytest.mark.parametrize("who", ["router", "worker"])
def test_a_log_without_the_switch_of_a_committed_offset_gets_no_entry(
    scene: Scene, who: str, kept: int
) -> None:
    """A controller that begins knows nothing; the committed offsets know the lost epoch."""
    scene.enter(*GROWN[:kept])
    scene.grow(4)
    if who == "router":
        scene.route(1, 1)
    else:
        scene.pass_epoch(1, 1, 40)
    controller = scene.controller()
    for _ in range(2):
        with pytest.raises(
            EpochLogUnreadable, match=f"is of epoch 1, which {EPOCHS} does not have"
        ):
            controller.step(4, LEARNT)
    assert scene.entries == GROWN[:kept]
    scene.enter(*GROWN[kept:])
    scene.controller().step(4, LEARNT)


def test_a_new_input_is_not_listed_by_an_epoch_that_is_over(scene: Scene) -> None:
    """Else its records would be routed by the old number of partitions."""
    scene.enter(*BEGUN)
    scene.route(0, 1)
    scene.cluster.add_partitions("orders", 3)
    with pytest.raises(EpochLogUnreadable, match="orders/0"):
        scene.controller().step(2, LEARNT)
    assert scene.entries == BEGUN
