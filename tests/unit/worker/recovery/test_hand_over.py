"""A worker hands its input over to routers: real sessions on a Kafka in memory."""

from pathlib import Path
from threading import Event

import pytest

from dedupe_crds.manifest import parse_manifest
from dedupe_crds.status.exit_code import ExitCode
from dedupe_growth.entries import Direct, Entry, HandedOver, Prepare, RouterStart, encode_entry
from dedupe_growth.log import EpochLogMissing
from dedupe_kafka.offset_metadata import Cut, decode_metadata, split_token
from dedupe_worker.admin.commands import CommandQueue
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.config import WorkerConfig
from dedupe_worker.errors import HandOverLost, StreamHasRouters
from dedupe_worker.recovery.hand_over import before_routers, check_handed_over
from dedupe_worker.session import Session
from dedupe_worker.status import Degraded
from dedupe_worker.store.state_dir import StateDirectory
from dedupe_worker.supervisor import Supervisor
from tests.simulation.kafka.calls import Call, Hook, Moment
from tests.simulation.kafka.cluster import SimKafka, no_faults, record
from tests.simulation.kafka.groups import Committed
from tests.simulation.kafka.simple_clock import SimpleClock
from tests.unit.crds.manifests import changed

DIRECT = parse_manifest(changed({}), "-")
ROUTED = parse_manifest(changed({"spec.repartition": {"partitions": 2}}), "-")
GROUP = ROUTED.consumer_group
EPOCHS, BETWEEN, OUTPUT = "orders-clean-epochs", "orders-clean-repartition", "orders-clean"


class Scene:
    """A stream of 2 partitions, and the volumes of its workers."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.clock = SimpleClock()
        self.cluster = SimKafka(self.clock)
        for name, partitions in (("orders", 2), (OUTPUT, 2), (BETWEEN, 2), (EPOCHS, 1)):
            self.cluster.create_topic(name, partitions)

    @property
    def direct(self) -> Direct:
        topic_id = str(self.cluster.topics.get("orders").id)
        return Direct(epoch=0, partitions=2, topic="orders", topic_id=topic_id)

    def enter(self, *entries: Entry) -> None:
        for number, each in enumerate(entries, len(self.cluster.visible(EPOCHS, 0))):
            encoded = encode_entry(number, each)
            self.cluster.write(EPOCHS, 0, [record(encoded.key, encoded.value)])

    def send(self, *ids: str) -> None:
        self.cluster.write("orders", 0, [record(each.encode(), b"v") for each in ids])

    def factory(
        self, *, routed: bool = True, partition: int = 0, hook: Hook = no_faults
    ) -> ComponentFactory:
        config = WorkerConfig(
            stream=ROUTED if routed else DIRECT,
            partition=partition,
            state=StateDirectory(self._directory / str(partition)),
            properties={},
        )
        return ComponentFactory(config, self.clock, self.cluster.clients("worker", hook))

    def run(
        self, seconds: float = 30.0, *, routed: bool = True, hook: Hook = no_faults
    ) -> tuple[ExitCode, ComponentFactory]:
        """Run the worker of partition 0 for a while."""
        factory = self.factory(routed=routed, hook=hook)
        stop, end = Event(), self.clock.monotonic() + seconds

        def act() -> None:
            if self.clock.monotonic() >= end:
                stop.set()

        self.clock.at_each_wait = act
        return Supervisor(factory, CommandQueue(), stop).run(), factory

    @property
    def committed(self) -> Committed:
        found = self.cluster.groups.committed(GROUP, "orders", 0)
        assert found is not None
        return found

    @property
    def cut(self) -> Cut | None:
        return decode_metadata(split_token(self.committed.metadata)[0]).cut

    @property
    def output(self) -> list[bytes | None]:
        return [each.key() for each in self.cluster.visible(OUTPUT, 0)]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    made = Scene(tmp_path)
    made.send("a", "b", "a")
    made.run(routed=False)
    made.send("c")
    made.enter(made.direct)
    return made


# -- who hands over ----------------------------------------------------------------------------------


def test_without_routers_nothing_is_handed_over(scene: Scene) -> None:
    assert before_routers(scene.factory(routed=False), Event()) is None


def test_a_worker_hands_over_as_the_one_that_it_was(scene: Scene) -> None:
    factory = scene.factory()
    found = before_routers(factory, Event())
    assert found is not None
    spec = found.config.stream.spec
    assert (spec.repartition, spec.worker_input) == (None, "orders")
    assert found.worker_state is factory.worker_state
    assert factory.config.stream is ROUTED, "which stays as it is"


def test_before_the_first_entry_nobody_knows_who_has_to(tmp_path: Path) -> None:
    with pytest.raises(EpochLogMissing, match="has no entry"):
        before_routers(Scene(tmp_path).factory(), Event())


def test_a_partition_that_had_no_worker_has_nothing_to_hand_over(scene: Scene) -> None:
    assert before_routers(scene.factory(partition=1), Event()) is not None
    assert before_routers(scene.factory(partition=2), Event()) is None


def test_what_is_in_the_log_is_handed_over_for_good(scene: Scene) -> None:
    start = RouterStart(offset=3, topic_id=scene.direct.topic_id)
    scene.enter(Prepare(epoch=1, partitions=2), HandedOver(epoch=1, cuts={0: 2}, starts={0: start}))
    assert before_routers(scene.factory(), Event()) is None


# -- handing over ------------------------------------------------------------------------------------


def test_the_offset_is_committed_with_the_cut_and_nothing_is_processed(scene: Scene) -> None:
    before, end = scene.committed.offset, scene.cluster.log(OUTPUT, 0).end
    scene.run()
    assert scene.committed.offset == before
    assert scene.cut == Cut(1, end)
    assert scene.output == [b"a", b"b"]


def test_what_was_handed_over_stays_as_it_is(scene: Scene) -> None:
    scene.run()
    first = split_token(scene.committed.metadata)[0], scene.committed.offset
    scene.cluster.write(OUTPUT, 0, [record(b"another", b"v")])
    scene.run()
    assert (split_token(scene.committed.metadata)[0], scene.committed.offset) == first


def test_a_worker_that_starts_again_meanwhile_is_not_taken_for_an_older_one(scene: Scene) -> None:
    """It would stand by for ever where the fenced one does."""
    scene.enter(Prepare(epoch=1, partitions=2))
    for _ in range(3):
        code, factory = scene.run()
        assert (code, factory.worker_state.problem) == (ExitCode.OK, None)
        assert factory.worker_state.tally.sessions == 1


def test_a_reconcile_waits_until_the_input_is_handed_over(scene: Scene) -> None:
    """It would take the ids that were learnt of others for ids without a record."""
    factory = scene.factory()
    factory.requests.ask("now", full=True)
    earlier = before_routers(factory, Event())
    assert earlier is not None
    Session(earlier, CommandQueue(), Event(), record_limit=1000, hands_over=True).run()
    assert scene.cut is not None
    assert factory.requests.waiting is not None


@pytest.mark.parametrize("handed_over", [False, True])
def test_the_next_input_is_no_replaced_topic(scene: Scene, *, handed_over: bool) -> None:
    scene.enter(Prepare(epoch=1, partitions=2))
    if handed_over:
        start = RouterStart(offset=3, topic_id=scene.direct.topic_id)
        scene.enter(HandedOver(epoch=1, cuts={0: 2, 1: 0}, starts={0: start, 1: start}))
    _, factory = scene.run()
    reasons = [each.reason for each in factory.worker_state.degradations.current()]
    assert Degraded.INPUT_TOPIC_REPLACED not in reasons


def test_a_stop_while_the_log_is_read_is_no_failure(scene: Scene) -> None:
    stop = Event()

    def hook(call: Call) -> None:
        if (call.name, call.moment) == ("consume", Moment.BEFORE):
            stop.set()

    scene.cluster.fetch_seconds = lambda *_: 5.0
    factory = scene.factory(hook=hook)
    assert Supervisor(factory, CommandQueue(), stop).run() is ExitCode.OK


def test_what_is_lost_before_all_have_handed_over_is_handed_over_again(scene: Scene) -> None:
    """As when the input topic is created again, or the offset set."""
    scene.enter(Prepare(epoch=1, partitions=2))
    lost: list[float] = []

    def hook(_: Call) -> None:
        if not lost and _has(scene) and scene.cut is not None:
            lost.append(scene.clock.monotonic())
            scene.cluster.recreate_topic("orders")
            scene.send("d")

    scene.run(60.0, hook=hook)
    assert lost
    assert scene.cut is not None
    found = decode_metadata(split_token(scene.committed.metadata)[0])
    assert (scene.committed.offset, found.input_topic) == (0, scene.direct.topic_id)


def _has(scene: Scene) -> bool:
    return scene.cluster.groups.committed(GROUP, "orders", 0) is not None


def test_only_a_partition_that_had_a_worker_can_lose_it(scene: Scene) -> None:
    check_handed_over(scene.factory(partition=2), scene.direct)
    with pytest.raises(HandOverLost, match="orders/0"):
        check_handed_over(scene.factory(), scene.direct)
    scene.run()
    check_handed_over(scene.factory(), scene.direct)
    assert HandOverLost.retriable


# -- the old manifest --------------------------------------------------------------------------------


def test_a_worker_of_the_old_manifest_is_refused(scene: Scene) -> None:
    scene.run()
    code, factory = scene.run(routed=False)
    assert isinstance(factory.worker_state.problem, StreamHasRouters)
    assert code is not ExitCode.OK
    assert scene.output == [b"a", b"b"]


def test_it_is_refused_also_when_the_output_was_created_again(scene: Scene) -> None:
    scene.run()
    scene.cluster.recreate_topic(OUTPUT)
    _, factory = scene.run(routed=False)
    assert isinstance(factory.worker_state.problem, StreamHasRouters)
    assert scene.output == []


def test_it_leaves_the_volume_as_it_is(scene: Scene, tmp_path: Path) -> None:
    scene.run()
    identity = (tmp_path / "0" / "identity.json").read_text()
    scene.run(routed=False)
    assert (tmp_path / "0" / "identity.json").read_text() == identity
