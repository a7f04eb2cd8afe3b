"""Whole passes over a stream with routers that gets more partitions, against a cluster in memory."""

from typing import Any

import pytest

from dedupe_crds.status.growth import GrowthStep
from dedupe_crds.status.worker import ComparisonStatus, Phase, ReconcileStatus, WorkerStatus
from dedupe_growth.entries import Done, EpochLogUnreadable, Prepare, Switch
from dedupe_growth.unlearnt import LEARNING
from dedupe_kafka.errors import BrokerUnavailable
from dedupe_kafka.offset_metadata import Cut
from dedupe_kafka.topic import TopicProblem
from dedupe_operator import metrics
from dedupe_operator.controller.reconciler import (
    RESYNC_SECONDS,
    ROLLOUT_POLL_SECONDS,
)
from dedupe_operator.kubernetes.names import Object
from tests.unit.operator.objects import NAMESPACE, STREAM, worker_status
from tests.unit.operator.scene import KEY, Scene

FIRST = [Switch(epoch=0, partitions=2, inputs={"orders": 2}), Done(epoch=0)]
CSI = {"provider": "CSI", "deadline": "1h"}


def routed(partitions: int = 2, **changes: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"spec.repartition": {"partitions": partitions}, **changes}


def learner(partition: int, remaining: int) -> WorkerStatus:
    """A worker that learns the ids of older partitions."""
    reading = ReconcileStatus(reason=LEARNING, records=10, remaining=remaining, seconds=1.0)
    status = worker_status(partition, phase=Phase.RECONCILING)
    return status.model_copy(update={"reconcile": reading})


def names(scene: Scene) -> list[str]:
    return [name for name in scene.cluster.names("StatefulSet") if name != "orders-router"]


def uids(scene: Scene) -> dict[str, str]:
    pods = scene.cluster.names("Pod")
    return {name: scene.cluster.one("Pod", name)["metadata"]["uid"] for name in pods}


def set_ready(scene: Scene, *partitions: int, ready: bool) -> None:
    for partition in partitions:
        pod = scene.cluster.one("Pod", f"orders-{partition}-0")
        pod["status"]["conditions"] = [{"type": "Ready", "status": str(ready)}]


def growth(scene: Scene) -> Object:
    found: Object = scene.cluster.status["growth"]
    return found


def condition(scene: Scene, kind: str = "Growing") -> tuple[str, str, str]:
    found = scene.cluster.condition(kind)
    return found["status"], found["reason"], found["message"]


@pytest.fixture
def running(scene: Scene) -> Scene:
    scene.cluster.add_stream(routed())
    scene.rest()
    return scene


@pytest.fixture
def learning(running: Scene) -> Scene:
    """Two partitions more, whose workers learn."""
    running.cluster.add_stream(routed(4))
    for partition in (2, 3):
        running.workers.say[partition] = learner(partition, 1_000_000)
    running.look()
    running.cluster.settle()
    set_ready(running, 2, 3, ready=False)
    running.look()
    return running


def switch(scene: Scene) -> None:
    """Let the new workers have learnt nearly all."""
    for partition in (2, 3):
        scene.workers.say[partition] = learner(partition, 1_000)
    scene.look()


def finish(scene: Scene) -> None:
    """Let routers adopt the epoch, old workers pass it and new ones run."""
    scene.epochs.adopted = {("orders", 0): 1, ("orders", 1): 1}
    scene.look()
    scene.epochs.passed = {each: Cut(1, 100 + each) for each in range(2)}
    scene.look()
    scene.epochs.passed |= {each: Cut(1, 0) for each in (2, 3)}
    scene.workers.say.clear()
    set_ready(scene, 2, 3, ready=True)
    scene.look()


def test_the_first_entry_is_in_the_log_before_a_pod_is_wanted(scene: Scene) -> None:
    scene.cluster.add_stream(routed())
    scene.epochs.fails = BrokerUnavailable("no answer")
    scene.look()
    assert scene.cluster.names("StatefulSet") == []
    assert condition(scene)[:2] == ("Unknown", "BrokerUnavailable")
    assert scene.cluster.condition("Degraded")["reason"] == "BrokerUnavailable"
    scene.epochs.fails = None
    scene.rest()
    assert scene.epochs.entries == FIRST
    assert names(scene) == ["orders-0", "orders-1"]
    assert condition(scene) == ("False", "NotGrowing", "The stream has 2 partitions.")
    assert "growth" not in scene.cluster.status


def test_a_stream_without_routers_has_no_epochs(scene: Scene) -> None:
    scene.rest()
    assert (scene.epochs.steps, scene.epochs.entries) == (0, [])
    assert "Growing" not in {each["type"] for each in scene.cluster.status["conditions"]}


def test_a_stream_of_a_release_without_epochs_begins_with_what_it_has(running: Scene) -> None:
    """Its routers decided between these, whatever the manifest asks for by now."""
    running.epochs.entries.clear()
    running.restart_operator()
    running.cluster.add_stream(routed(4))
    running.look()
    assert running.epochs.entries == [*FIRST, Prepare(epoch=1, partitions=4)]


def test_new_workers_come_after_the_log_says_so_and_no_pod_is_restarted(running: Scene) -> None:
    before = uids(running)
    running.epochs.fails = BrokerUnavailable("no answer")
    running.cluster.add_stream(routed(4))
    running.look()
    assert names(running) == ["orders-0", "orders-1"]
    status, reason, message = condition(running)
    assert (status, reason) == ("True", "BrokerUnavailable")
    assert "begins once all topics have them. It waits: no answer as of" in message
    running.epochs.fails = None
    running.look()
    running.cluster.settle()
    assert names(running) == [f"orders-{number}" for number in range(4)]
    for _ in range(3):
        running.look()
        running.cluster.settle()
    after = uids(running)
    assert {name: after[name] for name in before} == before
    assert len(after) == len(before) + 2


def test_workers_that_learn_do_not_make_the_stream_unready(learning: Scene) -> None:
    assert condition(learning, "Ready") == (
        "True",
        "AllPartitionsReady",
        "2 of 2 partitions are ready, and partitions 2-3 are being added.",
    )
    assert condition(learning, "Progressing")[1] == "UpToDate"
    assert condition(learning, "Degraded")[0] == "False"
    assert condition(learning) == (
        "True",
        "Learning",
        "Growth from 2 to 4 partitions: Learning, 0 of 2, waiting for 2, 3.",
    )
    assert growth(learning)["step"] == GrowthStep.LEARNING
    assert learning.cluster.status["partitionsReady"] == "2/4"
    assert learning.cluster.told.count("GrowthStarted") == 1
    assert learning.look() == ROLLOUT_POLL_SECONDS
    assert metrics.GROWTH_STEP.labels(NAMESPACE, STREAM)._value.get() == 1  # noqa: SLF001


def test_a_new_partition_has_lost_no_store(learning: Scene) -> None:
    entry = learning.cluster.status["partitions"][2]
    assert entry["restore"]["source"] == "Nothing"
    assert entry["restore"]["reason"] == "a growth of the stream adds this partition"
    assert "StoreFromOutputTopic" not in learning.cluster.told


def test_a_growth_goes_to_its_end_and_says_so_once(learning: Scene) -> None:
    switch(learning)
    assert growth(learning)["step"] == GrowthStep.WAITING_FOR_ROUTERS
    assert growth(learning)["waitingFor"] == ["orders/0", "orders/1"]
    assert condition(learning, "Ready")[0] == "True", "those that learn take no records yet"
    finish(learning)
    learning.rest()
    assert learning.epochs.entries[-1] == Done(epoch=1)
    assert len(learning.epochs.marks) > 0
    assert growth(learning)["step"] == GrowthStep.DONE
    assert condition(learning) == ("False", "NotGrowing", "The stream has 4 partitions.")
    assert condition(learning, "Ready")[2] == "4 of 4 partitions are ready."
    assert learning.cluster.told.count("GrowthStarted") == 1
    assert learning.cluster.told.count("GrowthFinished") == 1
    assert learning.look() == RESYNC_SECONDS
    assert learning.cluster.writes == []
    labels = (NAMESPACE, STREAM)
    assert metrics.GROWTH_STEP.labels(*labels)._value.get() == 0  # noqa: SLF001
    assert metrics.EPOCH.labels(*labels)._value.get() == 1  # noqa: SLF001


def test_another_growth_waits_for_the_first_one(learning: Scene) -> None:
    learning.cluster.add_stream(routed(5))
    learning.look()
    assert "orders-4" not in names(learning)
    assert condition(learning)[2].endswith(" Then it grows to 5.")
    switch(learning)
    finish(learning)
    assert learning.epochs.entries[-2:] == [Done(epoch=1), Prepare(epoch=2, partitions=5)]
    learning.look()
    assert "orders-4" in names(learning)
    told = [each for each in learning.cluster.told if each.startswith("Growth")]
    assert told == ["GrowthStarted", "GrowthFinished", "GrowthStarted"]


def test_an_operator_that_is_restarted_continues(learning: Scene) -> None:
    learning.restart_operator()
    learning.look()
    switch(learning)
    learning.restart_operator()
    finish(learning)
    learning.restart_operator()
    learning.rest()
    assert growth(learning)["step"] == GrowthStep.DONE
    assert learning.cluster.told.count("GrowthFinished") == 1


def test_a_rollout_does_not_wait_for_workers_that_learn(learning: Scene) -> None:
    learning.cluster.add_stream(routed(4, **{"spec.worker.image": "registry.example/worker:2"}))
    for _ in range(8):
        learning.look()
        learning.cluster.settle()
        set_ready(learning, 2, 3, ready=False)
    images = {learning.image(partition) for partition in range(4)}
    assert images == {"registry.example/worker:2"}
    assert condition(learning, "Progressing")[1] == "UpToDate"


def test_a_new_worker_that_cant_start_stops_a_rollout_and_is_named(running: Scene) -> None:
    running.cluster.bad_images.add("registry.example/worker:2")
    running.workers.say = {each: worker_status(each, phase=Phase.STARTING) for each in (2, 3)}
    running.cluster.add_stream(routed(4, **{"spec.worker.image": "registry.example/worker:2"}))
    for _ in range(5):
        running.look()
        running.cluster.settle()
    assert running.image(1) == "registry.example/worker:1"
    assert condition(running, "Degraded")[1] == "ImagePullFailed"
    assert condition(running)[1] == "Learning"


def test_a_drain_does_not_wait_for_workers_that_learn(learning: Scene) -> None:
    budget = learning.cluster.one("PodDisruptionBudget", STREAM)["spec"]
    assert budget["maxUnavailable"] == 3
    switch(learning)
    finish(learning)
    learning.rest()
    assert learning.cluster.one("PodDisruptionBudget", STREAM)["spec"]["maxUnavailable"] == 1


def test_a_snapshot_leaves_out_workers_that_learn(learning: Scene) -> None:
    learning.cluster.add_stream(routed(4, **{"spec.snapshots": CSI}))
    learning.add_snapshot("first")
    learning.look()
    partitions = learning.snapshot("first")["status"]["partitions"]
    assert [each["partition"] for each in partitions] == [0, 1]


def test_a_requested_catch_up_leaves_out_workers_that_learn(learning: Scene) -> None:
    request = '{"request": "now"}'
    annotations = {"metadata.annotations": {"dedupestream.io/reconcile": request}}
    learning.cluster.add_stream(routed(4, **annotations))
    learning.workers.answers["/reconcile"] = {}
    done = ComparisonStatus(request="now", full=False, done=True)
    for partition in (0, 1):
        learning.look()
        answered = worker_status(partition).model_copy(update={"comparison": done})
        learning.workers.say[partition] = answered
    learning.look()
    assert [(partition, path) for partition, path, _ in learning.workers.asked] == [
        (0, "/reconcile"),
        (1, "/reconcile"),
    ]


def test_topics_that_could_not_grow_begin_no_growth(running: Scene) -> None:
    few = TopicProblem(reason="RepartitionTopicTooFewPartitions", message="grant it", fatal=True)
    running.kafka.problems = (few,)
    running.cluster.add_stream(routed(4))
    running.look()
    assert running.epochs.entries == FIRST
    assert condition(running)[:2] == ("True", "WaitingForTopics")
    assert condition(running, "Degraded")[1] == "RepartitionTopicTooFewPartitions"
    running.kafka.problems = ()
    running.look()
    assert running.epochs.entries[-1] == Prepare(epoch=1, partitions=4)


def test_a_log_of_a_later_release_leaves_all_pods_as_they_are(running: Scene) -> None:
    running.epochs.fails = EpochLogUnreadable("entry 7 is none that this release knows")
    running.restart_operator()
    running.cluster.add_stream(routed(4, **{"spec.worker.image": "registry.example/worker:2"}))
    for _ in range(3):
        running.look()
    assert [write for write in running.cluster.writes if write[1] != "DedupeStream"] == []
    assert names(running) == ["orders-0", "orders-1"]
    assert running.image(0) == "registry.example/worker:1"
    assert condition(running, "Degraded")[1] == "EpochLogUnreadable"
    assert condition(running)[:2] == ("Unknown", "EpochLogUnreadable")
    assert condition(running, "Ready")[0] == "True"


def test_a_suspended_stream_is_not_asked_every_two_seconds(learning: Scene) -> None:
    learning.cluster.add_stream(routed(4, **{"spec.suspend": True}))
    learning.look()
    learning.cluster.settle()
    wait = learning.look()
    assert wait is not None
    assert wait > ROLLOUT_POLL_SECONDS


def test_at_rest_kafka_is_asked_once_a_minute(running: Scene) -> None:
    steps = running.epochs.steps
    running.clock.now -= 100.0
    running.look()
    assert running.epochs.steps == steps, "the last step was just now"
    running.look()
    assert running.epochs.steps == steps + 1


def test_a_growth_goes_on_although_each_answer_of_kafka_comes_after_its_pass(
    running: Scene,
) -> None:
    """Each pass that is to choose volumes is made twice; the second one must not ask again."""
    held = running.lanes.held = []
    running.cluster.add_stream(routed(4))
    for _ in range(30):
        running.clock.now += 3.0
        running.reconciler.reconcile(KEY)
        while held:
            held.pop()()
        running.cluster.settle()
    assert "orders-3" in running.cluster.names("StatefulSet")
    assert "GrowthStarted" in running.cluster.told
