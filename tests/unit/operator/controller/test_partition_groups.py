"""Whole looks at a stream whose partitions are in several groups, and their objects."""

from contextlib import suppress
from typing import Any, Final

import pytest

from dedupe_crds.annotations import RESTORE, RestoreRequest, restores_text
from dedupe_crds.spec.stream import API_VERSION
from dedupe_crds.status.partitions import KIND
from dedupe_operator.controller.status_writer import StatusWriter
from dedupe_operator.errors import KubernetesError, Unreachable
from dedupe_operator.kubernetes.names import OURS, Object, stream_labels
from dedupe_operator.kubernetes.resources import PARTITIONS, STREAMS, Resource
from tests.unit.operator.fake_cluster import Killed
from tests.unit.operator.inline import FakeClock
from tests.unit.operator.objects import NAMESPACE, STREAM, UID
from tests.unit.operator.scene import Scene

QUOTA: Final = KubernetesError("QuotaExceeded", "exceeded quota: small, requested: count/x=1")
CLAIMS: Final = "PersistentVolumeClaim"


@pytest.fixture
def large(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A stream of five partitions in groups of two."""
    monkeypatch.setattr("dedupe_crds.status.partitions.GROUP_SIZE", 2)
    scene.kafka.partitions = 5
    return scene


def groups(scene: Scene) -> dict[str, list[int]]:
    """The partitions in each object."""
    return {
        name: [each["partition"] for each in scene.cluster.one(KIND, name)["status"]["partitions"]]
        for name in scene.cluster.names(KIND)
    }


def entries(scene: Scene) -> dict[int, Object]:
    """What is recorded of each partition, wherever it is."""
    objects = [scene.cluster.one(KIND, name) for name in scene.cluster.names(KIND)]
    objects.append(scene.cluster.one(STREAMS.kind, STREAM))
    return {each["partition"]: each for one in objects for each in one["status"]["partitions"]}


def before_groups(
    scene: Scene, change: dict[int, dict[str, Any]] | None = None
) -> dict[int, Object]:
    """Put the status back to where a release without groups has it: all of it in the stream."""
    found = entries(scene)
    for partition, fields in (change or {}).items():
        found[partition] = {**found[partition], **fields}
    for name in scene.cluster.names(KIND):
        scene.cluster.remove(KIND, name)
    status = {
        **scene.cluster.status,
        "partitions": [found[each] for each in sorted(found)],
    }
    del status["partitionCount"]
    its = {"name": STREAM, "namespace": NAMESPACE, "uid": UID}
    wanted = {"apiVersion": API_VERSION, "kind": STREAMS.kind, "metadata": its, "status": status}
    scene.cluster.apply(wanted, subresource="status")
    scene.restart_operator()
    return {number: entry["restore"] for number, entry in sorted(found.items())}


def refuse(scene: Scene, *names: str) -> None:
    for name in names:
        scene.cluster.fails[KIND, name] = QUOTA


def degraded(scene: Scene) -> tuple[str, str]:
    condition = scene.cluster.condition("Degraded")
    return condition["reason"], condition["message"]


def test_a_stream_lists_its_first_partitions_and_the_others_have_objects(
    large: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    large.rest()
    assert [each["partition"] for each in large.cluster.status["partitions"]] == [0, 1]
    assert groups(large) == {"orders-2": [2, 3], "orders-4": [4]}
    assert large.cluster.status["partitionCount"] == 5
    assert large.cluster.status["partitionsReady"] == "5/5"
    group = large.cluster.one(KIND, "orders-2")
    assert group["status"]["partitionsReady"] == "2/2"
    assert group["metadata"]["labels"].items() >= OURS.items()
    (owner,) = group["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == (STREAMS.kind, UID, True)
    large.cluster.reads = 0
    large.look()
    assert not large.cluster.writes
    several = large.cluster.reads
    monkeypatch.undo()
    large.rest()
    large.cluster.reads = 0
    large.look()
    assert several == large.cluster.reads + 1
    assert not large.cluster.names(KIND)


def test_a_stream_of_one_group_makes_no_request_more(scene: Scene) -> None:
    scene.rest()
    asked = []
    find = scene.cluster.find

    def listed(resource: Resource, *given: object, **named: object) -> list[Object]:
        asked.append(resource.kind)
        return find(resource, *given, **named)  # type: ignore[arg-type]

    scene.cluster.find = listed  # type: ignore[method-assign]
    scene.look()
    assert KIND not in asked
    assert not scene.cluster.names(KIND)
    assert "partitionCount" not in scene.cluster.status


def test_only_the_group_that_changed_is_written(large: Scene) -> None:
    large.rest()
    large.cluster.remove(CLAIMS, "orders-3-1")
    large.look()
    written = {name for how, kind, name in large.cluster.writes if kind == KIND}
    assert written == {"orders-2"}
    assert entries(large)[3]["persistentVolumeClaim"] == "orders-3-2"


def test_numbers_alone_are_written_once_a_minute_for_each_group(large: Scene) -> None:
    large.rest()
    clock = FakeClock()
    writer = StatusWriter(large.cluster, clock=clock)
    raw = large.cluster.one(STREAMS.kind, STREAM)
    status = writer.read(raw)

    def written(duplicates: int) -> list[str]:
        large.cluster.writes.clear()
        moved = [
            each.model_copy(update={"duplicates": duplicates}) if each.partition == 3 else each
            for each in status.partitions
        ]
        assert not writer.write(raw, status.model_copy(update={"partitions": moved}))
        return [name for _, _, name in large.cluster.writes]

    assert written(50) == ["orders-2"]
    assert written(60) == []
    clock.now += 60.0
    assert written(70) == ["orders-2"]


@pytest.mark.parametrize("turn", range(4))
def test_a_large_status_moves_to_groups_and_loses_nothing(large: Scene, turn: int) -> None:
    large.rest()
    restore = entries(large)[3]["restore"] | {"tried": {"s-1": "damaged"}, "request": "r-7"}
    failover = {"node": "node-9", "reason": "gone", "time": "2026-10-01T12:00:00Z"}
    before = before_groups(large, {3: {"restore": restore, "failover": failover}})
    assert before[3]["tried"] == {"s-1": "damaged"}
    assert not groups(large)
    claims = large.cluster.names(CLAIMS)
    if turn:
        large.cluster.lives = turn - 1
        with pytest.raises(Killed):
            large.look()
        large.cluster.lives = None
        large.restart_operator()
        assert {number: each["restore"] for number, each in entries(large).items()} == before
    large.rest()
    assert groups(large) == {"orders-2": [2, 3], "orders-4": [4]}
    assert {number: each["restore"] for number, each in entries(large).items()} == before
    assert entries(large)[3]["failover"] == failover
    assert large.cluster.names(CLAIMS) == claims


def test_after_a_rollback_the_status_of_the_release_before_counts(large: Scene) -> None:
    large.rest()
    stale = [large.cluster.get_copy(KIND, name) for name in large.cluster.names(KIND)]
    tried = entries(large)[3]["restore"] | {"tried": {"s-2": "damaged"}}
    before_groups(large, {3: {"restore": tried}})
    for each in stale:
        large.cluster.add(each)
    refuse(large, "orders-2")
    for _ in range(2):
        large.look()
    large.cluster.fails.clear()
    large.rest()
    assert entries(large)[3]["restore"]["tried"] == {"s-2": "damaged"}
    assert groups(large) == {"orders-2": [2, 3], "orders-4": [4]}


def test_no_choice_is_carried_out_that_its_group_could_not_record(large: Scene) -> None:
    refuse(large, "orders-2")
    for _ in range(3):
        large.look()
        large.cluster.settle()
    # Each of the other partitions has its volume and its worker.
    assert large.cluster.names(CLAIMS) == ["orders-0-1", "orders-1-1", "orders-4-1"]
    assert large.cluster.status["partitionsReady"] == "3/3"
    reason, message = degraded(large)
    assert reason == "QuotaExceeded"
    assert message.startswith("The status of partitions 2-3 can't be written: exceeded quota")
    assert "StoreFromNothing" in large.cluster.told

    assert large.cluster.condition("InputPartitionsAdded")["status"] == "False"

    large.cluster.fails.clear()
    large.rest()
    assert large.cluster.status["partitionsReady"] == "5/5"
    assert degraded(large)[0] == "AsExpected"


@pytest.mark.parametrize("lives", range(12))
def test_what_is_chosen_is_in_a_group_before_it_is_made(large: Scene, lives: int) -> None:
    large.cluster.lives = lives
    with suppress(Killed):
        large.look()
    large.cluster.lives = None
    made = [name for name in large.cluster.names(CLAIMS) if name > "orders-2"]
    known = {each["persistentVolumeClaim"] for each in entries(large).values()} if made else set()
    assert set(made) <= known


def test_a_lost_volume_is_not_replaced_while_its_group_is_refused(large: Scene) -> None:
    large.rest()
    refuse(large, "orders-2")
    large.cluster.remove(CLAIMS, "orders-3-1")
    large.cluster.remove(CLAIMS, "orders-4-1")
    for _ in range(2):
        large.look()
        large.cluster.settle()
    names = large.cluster.names(CLAIMS)
    assert "orders-4-2" in names
    assert not {"orders-3-1", "orders-3-2"} & set(names)
    assert degraded(large)[0] == "QuotaExceeded"
    assert not any("PVC orders-3-2" in each for each in messages(large))
    large.cluster.fails.clear()
    large.rest()
    assert "orders-3-2" in large.cluster.names(CLAIMS)


def messages(scene: Scene) -> list[str]:
    """The texts of all events."""
    return [one["message"] for (kind, _), one in scene.cluster.objects.items() if kind == "Event"]


def test_what_cannot_move_stays_in_the_stream(large: Scene) -> None:
    large.rest()
    before = before_groups(large)
    refuse(large, "orders-2")
    for _ in range(3):
        large.look()
    listed = [each["partition"] for each in large.cluster.status["partitions"]]
    assert listed == [0, 1, 2, 3]
    assert groups(large) == {"orders-4": [4]}
    assert degraded(large)[0] == "QuotaExceeded"
    assert {number: each["restore"] for number, each in entries(large).items()} == before
    large.cluster.fails.clear()
    large.rest()
    assert [each["partition"] for each in large.cluster.status["partitions"]] == [0, 1]
    assert {number: each["restore"] for number, each in entries(large).items()} == before


def group(name: str, **metadata: object) -> Object:
    its = {"name": name, "namespace": NAMESPACE, **metadata}
    return {"kind": KIND, "metadata": its, "status": {"partitions": []}}


def ours(name: str, uid: str = UID) -> Object:
    return group(name, labels=stream_labels(STREAM), ownerReferences=[{"uid": uid}])


def test_an_object_of_others_is_neither_changed_nor_deleted(large: Scene) -> None:
    foreign = [group("orders-2"), ours("orders-x"), ours("other-8"), ours("orders-6", "u-before")]
    for each in foreign:
        large.cluster.add(each)
    for _ in range(3):
        large.look()
        large.cluster.settle()
    for each in foreign:
        live = large.cluster.one(KIND, each["metadata"]["name"])
        assert live["status"] == {"partitions": []}
    reason, message = degraded(large)
    assert reason == "NameTaken"
    assert f"{KIND} {NAMESPACE}/orders-2 does not belong to this stream" in message
    assert "orders-4-1" in large.cluster.names(CLAIMS)


def test_groups_without_a_partition_are_removed(large: Scene) -> None:
    large.rest()
    large.cluster.add(ours("orders-8"))
    # Of a release with other groups.
    odd = ours("orders-3")
    odd["status"]["partitions"] = [entries(large)[3] | {"phase": "Failed"}]
    large.cluster.add(odd)
    large.rest()
    assert groups(large) == {"orders-2": [2, 3], "orders-4": [4]}
    assert entries(large)[3]["phase"] == "Running"


def test_groups_of_another_size_are_read_before_they_are_removed(large: Scene) -> None:
    large.rest()
    tried = {"restore": entries(large)[3]["restore"] | {"tried": {"s-1": "damaged"}}}
    odd = ours("orders-3")
    odd["status"]["partitions"] = [entries(large)[3] | tried]
    large.cluster.remove(KIND, "orders-2")
    large.cluster.add(odd)
    large.restart_operator()
    large.rest()
    assert entries(large)[3]["restore"]["tried"] == {"s-1": "damaged"}
    assert groups(large) == {"orders-2": [2, 3], "orders-4": [4]}


def test_a_lost_status_of_the_stream_is_completed_from_its_groups(large: Scene) -> None:
    large.rest()
    uids = {
        name: large.cluster.one(CLAIMS, name)["metadata"]["uid"]
        for name in large.cluster.names(CLAIMS)
    }
    found = entries(large)
    large.cluster.one(STREAMS.kind, STREAM)["status"] = {}
    large.restart_operator()
    large.rest()
    assert {name: large.cluster.one(CLAIMS, name)["metadata"]["uid"] for name in uids} == uids
    assert [entries(large)[each]["restore"] for each in (2, 3, 4)] == [
        found[each]["restore"] for each in (2, 3, 4)
    ]


def test_a_group_that_a_user_deletes_comes_back(large: Scene) -> None:
    large.rest()
    claims = large.cluster.names(CLAIMS)
    large.cluster.remove(KIND, "orders-2")
    large.rest()
    assert groups(large) == {"orders-2": [2, 3], "orders-4": [4]}
    assert large.cluster.names(CLAIMS) == claims


@pytest.mark.parametrize(
    "status", [{}, {"partitions": "another form"}, {"partitions": [{"partition": 2}]}]
)
def test_a_group_that_cannot_be_read_is_a_lost_status(large: Scene, status: Object) -> None:
    large.rest()
    claims = large.cluster.names(CLAIMS)
    large.cluster.one(KIND, "orders-2")["status"] = status
    large.rest()
    assert groups(large) == {"orders-2": [2, 3], "orders-4": [4]}
    assert large.cluster.names(CLAIMS) == claims


def forbid(scene: Scene, error: KubernetesError) -> None:
    """Refuse to read groups."""
    find = scene.cluster.find

    def refused(resource: Resource, *given: object, **named: object) -> list[Object]:
        if resource is PARTITIONS:
            raise error
        return find(resource, *given, **named)  # type: ignore[arg-type]

    scene.cluster.find = refused  # type: ignore[method-assign]


def test_groups_that_cannot_be_read_are_named(large: Scene) -> None:
    large.rest()
    before = large.cluster.status["partitions"]
    forbid(large, KubernetesError("Forbidden", "you may not list dedupestreampartitions"))
    for _ in range(3):
        with pytest.raises(KubernetesError, match="you may not list"):
            large.look()
    reason, message = degraded(large)
    assert reason == "Forbidden"
    assert "dedupestreampartitions" in message
    assert large.cluster.condition("Ready")["status"] == "Unknown"
    assert large.cluster.status["partitions"] == before
    assert large.cluster.status["partitionCount"] == 5


@pytest.mark.parametrize("reason", ["Forbidden", "NotFound"])
def test_a_small_stream_needs_neither_the_kind_nor_the_rights(scene: Scene, reason: str) -> None:
    forbid(scene, KubernetesError(reason, "no groups here"))
    scene.rest()
    assert scene.cluster.status["partitionsReady"] == "2/2"
    assert degraded(scene)[0] == "AsExpected"


def test_an_api_server_that_does_not_answer_ends_the_pass(large: Scene) -> None:
    large.cluster.fails[KIND, "orders-2"] = Unreachable("it hangs")
    with pytest.raises(Unreachable):
        large.look()
    assert ("create", KIND, "orders-4") not in large.cluster.writes


def test_a_restore_that_a_user_requests_is_answered_in_its_group(large: Scene) -> None:
    large.rest()
    request = RestoreRequest(request="r1", partition=3, source="OutputTopic")
    large.cluster.one(STREAMS.kind, STREAM)["metadata"]["annotations"] = {
        RESTORE: restores_text([request])
    }
    refuse(large, "orders-2")
    for _ in range(2):
        large.look()
        large.cluster.settle()
    assert entries(large)[3]["persistentVolumeClaim"] == "orders-3-1"
    assert "orders-3-2" not in large.cluster.names(CLAIMS)
    large.cluster.fails.clear()
    large.rest()
    assert entries(large)[3]["restore"]["request"] == "r1"
    assert entries(large)[3]["persistentVolumeClaim"] == "orders-3-2"
