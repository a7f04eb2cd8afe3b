"""Whole passes over a stream that runs without routers and gets them, against a cluster in memory."""

from collections.abc import Iterator
from itertools import count, pairwise
from typing import Any

import pytest
import yaml

from dedupe_crds.status.growth import GrowthStep
from dedupe_crds.status.key_sample import KeySample
from dedupe_crds.status.worker import Phase, ReconcileStatus, WorkerStatus
from dedupe_growth.decide import HandOver
from dedupe_growth.entries import (
    Direct,
    Done,
    EpochLogUnreadable,
    HandedOver,
    Prepare,
    RouterStart,
    Switch,
)
from dedupe_growth.unlearnt import LEARNING
from dedupe_kafka.errors import BrokerUnavailable, TopicUnusable
from dedupe_kafka.offset_metadata import Cut
from dedupe_kafka.topic import TopicProblem
from dedupe_operator import metrics
from dedupe_operator.controller.reconciler import ROLLOUT_POLL_SECONDS
from dedupe_operator.errors import KubernetesError
from tests.unit.operator.fake_cluster import Killed
from tests.unit.operator.objects import NAMESPACE, STREAM, worker_status
from tests.unit.operator.scene import Scene

OLD, NEW = 3, 5
DIRECT = Direct(epoch=0, partitions=OLD, topic="orders", topic_id="T")
PREPARED = [DIRECT, Prepare(epoch=1, partitions=NEW)]
_LAUGHS = "".join(f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 9)}]\n" for n in range(1, 12))
BOMBS = [
    f"x0: &x0 [ha]\n{_LAUGHS}spec: {{input: {{topic: *x11}}}}",
    "spec: {input: {topic: {a: b}}}",
    "no: manifest",
    "[" * 10_000,
    "- " * 30_000,
    "",
]
START = RouterStart(offset=900, topic_id="T")


def routed(partitions: int = NEW, *, image: str = "registry.example/worker:1") -> dict[str, Any]:
    return {"spec.repartition": {"partitions": partitions}, "spec.worker.image": image}


def learner(partition: int) -> WorkerStatus:
    """A worker that has handed over, or is new, and reads the outputs."""
    reading = ReconcileStatus(reason=LEARNING, records=10, remaining=1_000, seconds=1.0)
    status = worker_status(partition, phase=Phase.RECONCILING)
    return status.model_copy(update={"reconcile": reading})


def names(scene: Scene) -> list[str]:
    return [name for name in scene.cluster.names("StatefulSet") if name != "orders-router"]


def config_hashes(scene: Scene) -> dict[int, str]:
    """Return the annotations of each worker's StatefulSet, which say which manifest it has."""
    return {
        int(name.removeprefix("orders-")): str(
            scene.cluster.one("StatefulSet", name)["spec"]["template"]["metadata"]["annotations"]
        )
        for name in names(scene)
    }


def uids(scene: Scene) -> dict[str, str]:
    pods = [name for name in scene.cluster.names("Pod") if "router" not in name]
    return {name: scene.cluster.one("Pod", name)["metadata"]["uid"] for name in pods}


def has_routers(scene: Scene) -> bool:
    """Return whether a worker that starts now has the manifest with routers."""
    text = scene.cluster.one("ConfigMap", "orders-worker")["data"]["stream.yaml"]
    return "repartition" in yaml.safe_load(text)["spec"]


def set_ready(scene: Scene, partition: int, *, ready: bool) -> None:
    pod = scene.cluster.one("Pod", f"orders-{partition}-0")
    pod["status"]["conditions"] = [{"type": "Ready", "status": str(ready)}]


def condition(scene: Scene, kind: str = "Growing") -> tuple[str, str, str]:
    found = scene.cluster.condition(kind)
    return found["status"], found["reason"], found["message"]


class Workers:
    """The workers of a stream that gets routers: those of pods that start with the new manifest hand over and learn."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.direct = set(uids(scene).values())

    def turn(self) -> None:
        """Let the cluster start pods, and the workers do what they can."""
        scene, log = self.scene, self.scene.epochs
        scene.cluster.settle()
        if not has_routers(scene):
            self.direct |= set(uids(scene).values())
            return
        switched = any(isinstance(entry, Switch) for entry in log.entries)
        for name, uid in uids(scene).items():
            partition = int(name.split("-")[1])
            if uid in self.direct:
                continue
            if partition < OLD:
                log.handed_over.setdefault(partition, HandOver(START, cut=100 + partition))
            if switched:
                log.passed[partition] = Cut(1, 0)
            scene.workers.say[partition] = (
                worker_status(partition) if switched else learner(partition)
            )
            set_ready(scene, partition, ready=switched)


@pytest.fixture
def direct(scene: Scene) -> Scene:
    """A stream of three partitions that runs without routers."""
    scene.kafka.partitions = OLD
    scene.rest()
    scene.epochs.direct = DIRECT
    return scene


@pytest.fixture
def workers(direct: Scene) -> Workers:
    return Workers(direct)


@pytest.fixture
def changing(direct: Scene) -> Scene:
    """The same while it gets routers, and its workers hand over."""
    direct.cluster.add_stream(routed())
    direct.look()
    return direct


def go_on(workers: Workers) -> None:
    """Let all go to its end."""
    scene = workers.scene
    for _ in range(12):
        workers.turn()
        scene.look()
        if scene.epochs.entries[-1:] == [Done(epoch=1)] and not scene.cluster.writes:
            return
    raise AssertionError(f"it does not end: {scene.epochs.entries}, {scene.cluster.writes}")


def test_all_workers_change_at_once_and_the_new_ones_start(changing: Scene) -> None:
    assert changing.epochs.entries == PREPARED
    assert names(changing) == [f"orders-{number}" for number in range(NEW)]
    applied = [name for _, kind, name in changing.cluster.writes if kind == "StatefulSet"]
    assert applied == ["orders-router", *names(changing)]
    assert has_routers(changing)


@pytest.mark.parametrize("manifest", BOMBS)
def test_a_manifest_that_a_user_wrote_into_a_config_map_is_put_back(
    changing: Scene, workers: Workers, manifest: str
) -> None:
    for name in changing.cluster.names("ConfigMap"):
        changing.cluster.one("ConfigMap", name)["data"]["stream.yaml"] = manifest
    changing.look()
    assert has_routers(changing)
    go_on(workers)


def test_it_goes_to_its_end_and_every_old_partition_keeps_its_volume(
    changing: Scene, workers: Workers
) -> None:
    before = {number: changing.mounted_claim(f"orders-{number}") for number in range(OLD)}
    pods = uids(changing)
    go_on(workers)
    after = {number: changing.mounted_claim(f"orders-{number}") for number in range(OLD)}
    assert after == before
    assert set(uids(changing).values()).isdisjoint(pods.values())
    assert [type(entry) for entry in changing.epochs.entries] == [
        *(Direct, Prepare, HandedOver, Switch, Done)
    ]
    assert condition(changing) == ("False", "NotGrowing", "The stream has 5 partitions.")
    assert condition(changing, "Ready")[2] == "5 of 5 partitions are ready."
    assert condition(changing, "Progressing")[1] == "UpToDate"
    assert changing.cluster.status["growth"]["step"] == GrowthStep.DONE
    started = [each for each in changing.cluster.told if each.startswith("Growth")]
    assert started == ["GrowthStarted", "GrowthFinished"]
    step = metrics.GROWTH_STEP.labels(NAMESPACE, STREAM)
    assert step._value.get() == 0  # noqa: SLF001


def test_while_it_lasts_the_stream_says_that_it_passes_nothing(
    changing: Scene, workers: Workers
) -> None:
    workers.turn()
    del changing.epochs.handed_over[2]
    changing.look()
    status, reason, message = condition(changing)
    assert (status, reason) == ("True", "HandingOver")
    assert message.startswith("Change to routers from 3 to 5 partitions: HandingOver, 2 of 3, ")
    assert "waiting for 2. Until its workers have read the outputs of each other" in message
    status, reason, message = condition(changing, "Ready")
    assert (status, reason) == ("False", "ChangingToRouters")
    assert message.startswith("0 of 5 partitions are ready. ")
    assert condition(changing, "Degraded")[0] == "False"
    step = metrics.GROWTH_STEP.labels(NAMESPACE, STREAM)
    assert step._value.get() == 5  # noqa: SLF001
    assert changing.look() == ROLLOUT_POLL_SECONDS


def test_drains_are_not_blocked_by_workers_that_wait_for_each_other(
    changing: Scene, workers: Workers
) -> None:
    workers.turn()
    changing.look()
    budget = changing.cluster.one("PodDisruptionBudget", STREAM)["spec"]
    assert budget["maxUnavailable"] == 1 + NEW
    go_on(workers)
    assert changing.cluster.one("PodDisruptionBudget", STREAM)["spec"]["maxUnavailable"] == 1


FEW = TopicProblem(reason="OutputTopicWrongPartitions", message="grant it", fatal=True)


@pytest.fixture(params=["topics", "log", "refused"])
def obstacle(direct: Scene, request: pytest.FixtureRequest) -> str:
    """Keep the change from beginning; return the reason."""
    if request.param == "topics":
        direct.kafka.problems = (FEW,)
        return FEW.reason
    error = (BrokerUnavailable if request.param == "log" else TopicUnusable)("not now")
    direct.epochs.fails = error
    return error.reason


def test_until_it_can_begin_all_runs_as_before(
    direct: Scene, workers: Workers, obstacle: str
) -> None:
    pods, sets = uids(direct), config_hashes(direct)
    direct.cluster.add_stream(routed(image="registry.example/worker:2"))
    for _ in range(3):
        direct.restart_operator()
        direct.look()
        assert [each for each in direct.cluster.writes if each[1] != "DedupeStream"] == []
        workers.turn()
    assert direct.epochs.entries in ([], [DIRECT])
    assert (uids(direct), config_hashes(direct), has_routers(direct)) == (pods, sets, False)
    assert condition(direct, "Ready")[0] == "True"
    assert condition(direct, "Degraded")[1] == obstacle
    status, _, message = condition(direct)
    assert status == "True"
    assert "The change to routers with 5 partitions begins once all topics have them" in message
    direct.kafka.problems, direct.epochs.fails = (), None
    direct.look()
    assert direct.epochs.entries == PREPARED
    go_on(workers)


@pytest.mark.parametrize(
    ("source", "has_it"),
    [
        ({"topics": ["returns", "orders"]}, True),
        ({"pattern": "ord.*"}, True),
        ({"topic": "returns"}, False),
        ({"topics": ["returns"]}, False),
        ({"pattern": "ord"}, False),
    ],
)
def test_the_topic_that_workers_read_must_still_be_an_input(
    direct: Scene, workers: Workers, source: dict[str, Any], *, has_it: bool
) -> None:
    """A second update may change the input before the operator has seen the first."""
    wanted = {**routed(), "spec.input": source}
    direct.cluster.add_stream(wanted)
    direct.look()
    assert (direct.epochs.entries == PREPARED) is has_it
    if not has_it:
        assert direct.epochs.entries == []
        assert not has_routers(direct)
        assert condition(direct, "Degraded")[1] == "RoutersRefused"
        assert "the workers read orders without routers" in condition(direct)[2]
        direct.cluster.add_stream(routed())
        direct.look()
    # Once the change has begun the log says what was read.
    direct.restart_operator()
    go_on(workers)


def test_workers_that_have_not_committed_yet_hand_over_too(direct: Scene) -> None:
    """Kafka shows nothing of them, and what they read meanwhile must not be read again."""
    direct.epochs.direct = None
    direct.cluster.add_stream(routed())
    direct.look()
    assert direct.epochs.entries == PREPARED


def test_it_is_prepared_with_the_partitions_that_the_topics_have(direct: Scene) -> None:
    """An operator that was killed between the two entries meets topics that did not grow."""
    direct.epochs.entries.append(DIRECT)
    direct.kafka.problems = (FEW,)
    direct.cluster.add_stream(routed())
    direct.look()
    assert direct.epochs.entries == [DIRECT]
    assert condition(direct)[:2] == ("True", "WaitingForTopics")
    direct.kafka.problems = ()
    direct.look()
    assert direct.epochs.entries == PREPARED


def test_as_many_partitions_as_before_are_a_change_too(direct: Scene, workers: Workers) -> None:
    direct.epochs.entries.append(DIRECT)
    direct.kafka.problems = (FEW,)
    direct.cluster.add_stream(routed(OLD))
    direct.look()
    assert condition(direct)[:2] == ("True", "WaitingForTopics")
    assert direct.look() == ROLLOUT_POLL_SECONDS
    direct.kafka.problems = ()
    go_on(workers)
    assert direct.cluster.status["growth"]["partitions"] == OLD


def test_no_partition_is_given_up_while_the_log_is_unknown(
    changing: Scene, workers: Workers
) -> None:
    workers.turn()
    changing.look()
    claims, sets = changing.cluster.names("PersistentVolumeClaim"), names(changing)
    changing.epochs.fails = BrokerUnavailable("no answer")
    changing.kafka.fails = BrokerUnavailable("no answer")
    for _ in range(3):
        changing.restart_operator()
        changing.look()
        workers.turn()
        assert names(changing) == sets
        assert changing.cluster.names("PersistentVolumeClaim") == claims
    changing.epochs.fails = changing.kafka.fails = None
    go_on(workers)


def test_a_log_of_a_later_release_leaves_all_as_it_is(direct: Scene) -> None:
    direct.epochs.fails = EpochLogUnreadable("entry 0 is none that this release knows")
    direct.cluster.add_stream(routed())
    for _ in range(3):
        direct.look()
    assert [write for write in direct.cluster.writes if write[1] != "DedupeStream"] == []
    assert not has_routers(direct)
    assert condition(direct, "Degraded")[1] == "EpochLogUnreadable"


@pytest.mark.parametrize("unready", range(OLD))
def test_a_pod_that_is_not_ready_holds_no_other_back(
    direct: Scene, workers: Workers, unready: int
) -> None:
    set_ready(direct, unready, ready=False)
    direct.workers.say[unready] = worker_status(unready, phase=Phase.RECONCILING)
    direct.cluster.add_stream(routed())
    direct.look()
    applied = {name for _, kind, name in direct.cluster.writes if kind == "StatefulSet"}
    assert applied >= {f"orders-{number}" for number in range(NEW)}
    go_on(workers)


def test_a_stateful_set_that_is_refused_holds_no_other_back(
    direct: Scene, workers: Workers
) -> None:
    direct.cluster.fails["StatefulSet", "orders-0"] = KubernetesError("Forbidden", "a policy")
    direct.cluster.add_stream(routed())
    before = config_hashes(direct)
    direct.look()
    after = config_hashes(direct)
    assert after[0] == before[0]
    assert before[1] != after[1]
    assert before[2] != after[2]
    assert condition(direct, "Degraded")[1] == "Forbidden"
    direct.cluster.fails.clear()
    go_on(workers)


def test_a_worker_that_restarts_before_its_stateful_set_changed_hands_over(
    direct: Scene, workers: Workers
) -> None:
    """Its pod mounts the manifest that all share, so it may be the first to have the new one."""
    direct.cluster.fails["StatefulSet", "orders-0"] = KubernetesError("Forbidden", "a policy")
    direct.cluster.add_stream(routed())
    direct.look()
    direct.cluster.remove("Pod", "orders-0-0")
    for _ in range(4):
        workers.turn()
        direct.look()
    assert set(direct.epochs.handed_over) == set(range(OLD))
    direct.cluster.fails.clear()
    go_on(workers)


def test_a_later_rollout_is_one_by_one_again(changing: Scene, workers: Workers) -> None:
    go_on(workers)
    changing.cluster.add_stream(routed(image="registry.example/worker:2"))
    seen = []
    for _ in range(16):
        changing.look()
        seen.append([changing.image(partition)[-1] for partition in range(NEW)])
        changing.cluster.settle()
    steps = [before.count("1") - after.count("1") for before, after in pairwise(seen)]
    assert max(steps) == 1
    assert seen[-1] == ["2"] * NEW


def test_an_old_partition_that_loses_its_volume_is_rebuilt(
    changing: Scene, workers: Workers
) -> None:
    workers.turn()
    changing.cluster.remove("PersistentVolumeClaim", "orders-1-1")
    changing.look()
    restored = changing.cluster.status["partitions"][1]["restore"]
    assert (restored["source"], restored["reason"]) == ("OutputTopic", "PVC orders-1-1 was deleted")
    added = changing.cluster.status["partitions"][4]["restore"]
    assert added["source"] == "Nothing"
    go_on(workers)


def test_what_was_said_of_the_input_goes_away(direct: Scene, workers: Workers) -> None:
    direct.kafka.partitions = OLD + 1
    sample = KeySample(partitions=OLD, records=1000, without_key=1000, fits={})
    for partition in range(OLD):
        status = worker_status(partition)
        reads = status.input.model_copy(update={"keys": sample})
        direct.workers.say[partition] = status.model_copy(update={"input": reads})
    direct.look()
    assert condition(direct, "InputPartitionsAdded")[0] == "True"
    assert condition(direct, "InputPartitioning")[:2] == ("False", "NoKeys")
    said = [
        direct.cluster.condition(kind) for kind in ("InputPartitioning", "InputPartitionsAdded")
    ]
    direct.kafka.problems = (FEW,)
    direct.cluster.add_stream(routed())
    direct.look()
    for before in said:
        assert direct.cluster.condition(before["type"])["message"] == before["message"]
    direct.kafka.problems = ()
    direct.look()
    go_on(workers)
    assert condition(direct, "InputPartitionsAdded")[0] == "False"
    assert condition(direct, "InputPartitioning")[:2] == ("True", "ById")
    assert "addedPartitions" not in direct.cluster.status


def test_by_key_nothing_is_said_of_the_input_any_more(direct: Scene, workers: Workers) -> None:
    sample = KeySample(partitions=OLD, records=1000, without_key=1000, fits={})
    status = worker_status(0)
    reads = status.input.model_copy(update={"keys": sample})
    direct.workers.say[0] = status.model_copy(update={"input": reads})
    by_header = {"spec.id": {"from": "Header", "name": "id"}}
    direct.cluster.add_stream(by_header)
    direct.look()
    assert condition(direct, "InputPartitioning")[:2] == ("False", "NoKeys")
    by_key = {"spec.repartition": {"partitions": NEW, "by": "Key"}}
    direct.cluster.add_stream({**by_header, **by_key})
    direct.look()
    go_on(workers)
    assert condition(direct, "InputPartitioning")[:2] == ("Unknown", "ByKey")


def kills(scene: Scene) -> Iterator[int]:
    """Kill the operator before each write in turn, and yield after each kill."""
    for lives in count():
        scene.cluster.lives = lives
        try:
            scene.look()
        except Killed:
            scene.cluster.lives = None
            scene.restart_operator()
            yield lives
        else:
            scene.cluster.lives = None
            return


@pytest.mark.parametrize("step", range(4))
@pytest.mark.parametrize("turns", [True, False], ids=["workers-go-on", "workers-wait"])
def test_an_operator_that_is_killed_between_any_two_writes_is_continued(
    direct: Scene, workers: Workers, step: int, *, turns: bool
) -> None:
    direct.cluster.add_stream(routed())
    claims = set(direct.cluster.names("PersistentVolumeClaim"))
    for _ in range(step):
        direct.look()
        workers.turn()
    killed = 0
    for killed, _ in enumerate(kills(direct), start=1):  # noqa: B007
        assert {f"orders-{number}" for number in range(OLD)} <= set(names(direct))
        assert claims <= set(direct.cluster.names("PersistentVolumeClaim"))
        if turns:
            workers.turn()
    assert killed > 0 or step == 3
    go_on(workers)
    assert condition(direct)[1] == "NotGrowing"


@pytest.mark.parametrize("lives", range(30))
def test_all_change_at_once_also_after_a_kill(direct: Scene, workers: Workers, lives: int) -> None:
    """Of a rollout that is begun by one operator the next one changes all the rest in its first pass."""
    direct.cluster.add_stream(routed())
    direct.cluster.lives = lives
    try:
        direct.look()
    except Killed:
        direct.restart_operator()
    direct.cluster.lives = None
    workers.turn()
    direct.look()
    pods = {name for name, uid in uids(direct).items() if uid in workers.direct}
    direct.cluster.settle()
    assert pods.isdisjoint(name for name, uid in uids(direct).items() if uid in workers.direct)
    hashes = config_hashes(direct)
    assert len(hashes) == NEW
    assert len(set(hashes.values())) == 1


def test_an_operator_whose_log_is_unknown_changes_one_at_a_time(
    direct: Scene, workers: Workers
) -> None:
    """It was killed amid the change. Once the log is known it changes all the rest."""
    direct.cluster.add_stream(routed())
    direct.cluster.fails |= {
        ("StatefulSet", f"orders-{number}"): KubernetesError("Forbidden", "")
        for number in range(OLD)
    }
    direct.look()
    assert has_routers(direct)
    direct.cluster.fails.clear()
    direct.epochs.fails = BrokerUnavailable("no answer")
    direct.restart_operator()
    before = config_hashes(direct)
    direct.look()
    changed = [each for each, now in config_hashes(direct).items() if now != before[each]]
    assert len(changed) <= 1
    direct.epochs.fails = None
    go_on(workers)


def test_a_stream_that_begins_with_routers_waits_for_nobody(scene: Scene) -> None:
    scene.cluster.add_stream(routed())
    scene.rest()
    assert scene.epochs.entries == [
        Switch(epoch=0, partitions=NEW, inputs={"orders": 2}),
        Done(epoch=0),
    ]
    assert len(names(scene)) == NEW


def test_without_a_manifest_of_the_workers_the_routers_tell(direct: Scene) -> None:
    """A user may delete the ConfigMap."""
    direct.cluster.remove("ConfigMap", "orders-worker")
    direct.epochs.fails = BrokerUnavailable("no answer")
    direct.cluster.add_stream(routed())
    direct.look()
    assert [each for each in direct.cluster.writes if each[1] != "DedupeStream"] == []
