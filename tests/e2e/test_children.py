"""What a stream consists of, deleted and edited behind the operator's back."""

import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from dedupe_crds.spec.stream import GROUP
from dedupe_crds.status.stream import ConditionStatus, RestoreSource
from tests.e2e.support.kubectl import Kubectl, Object
from tests.e2e.support.stream import READY_SECONDS, ClusterStream
from tests.faults.seed import SEED
from tests.support.traffic.traffic import retries

CreateStream = Callable[..., ClusterStream]

COUNT = 300
MENDED_SECONDS = (
    60.0  # half a minute is promised, and an unwatched object is found missing by the next look
)
SHARED = "serviceaccounts,configmaps,secrets,poddisruptionbudgets,services"
MANAGED = f"{SHARED},statefulsets"
THEIRS = {"example.com/theirs": "kept"}
TOKEN_LENGTH = 32
UNTOUCHED_BY_OTHERS = {"serviceaccount", "configmap", "secret", "service"}

Place = tuple[str, str]
"""The kind and the name of an object."""


def test_each_kind_of_child_that_is_deleted_is_back_in_half_a_minute(
    streams: CreateStream,
) -> None:
    stream = streams()
    stream.apply()
    stream.wait_until_ready()
    stream.send(retries(SEED, COUNT))
    assert len(stream.uids(SHARED)) == 6

    pods = stream.uids("pods")
    # Nothing of this is watched; the token in the Secret is another one, so that the worker follows.
    delete_all_and_wait(stream, SHARED)
    wait_until_replaced(stream, "pods", pods)
    stream.wait_until_rolled_out()
    pods = stream.uids("pods")
    delete_all_and_wait(stream, "statefulsets")
    wait_until_replaced(stream, "pods", pods)
    stream.wait_until_rolled_out()
    delete_all_and_wait(stream, "pods")
    stream.wait_until_rolled_out()

    stream.send(retries(SEED + 1, COUNT))
    stream.judged()


def test_an_edited_child_is_put_back_and_what_others_set_on_it_stays(
    streams: CreateStream,
) -> None:
    stream = streams()
    stream.apply()
    stream.wait_until_ready()
    edits = edits_of(stream)
    before = children(stream, edits)
    everything = stream.uids(f"{MANAGED},persistentvolumeclaims")

    for place, (ours, theirs) in edits.items():
        stream.kubectl.patch(*place, merged(ours, theirs))
    secret = ("secret", f"{stream.name}-admin")
    stream.kubectl.patch(*secret, {"data": {"token": ""}})

    def undone() -> bool:
        now = children(stream, edits)
        return len(b64decode(now[secret]["data"]["token"])) >= TOKEN_LENGTH and all(
            covers(picked(before[place], ours), picked(now[place], ours))
            for place, (ours, _) in edits.items()
        )

    stream.wait_until(undone, "all is as before", deadline_seconds=MENDED_SECONDS)
    mended = children(stream, edits)
    stream.wait_until_rolled_out()
    later = children(stream, edits)
    for place, (_, theirs) in edits.items():
        assert covers(theirs, later[place]), place
        if place[0] in UNTOUCHED_BY_OTHERS:
            version, later_version = (
                found[place]["metadata"]["resourceVersion"] for found in (mended, later)
            )
            assert later_version == version, place
    assert stream.uids(f"{MANAGED},persistentvolumeclaims") == everything


@pytest.mark.matrix  # tests/unit/operator/controller/test_reconciler.py
def test_a_pod_that_lost_its_label_does_not_keep_its_successor_away(streams: CreateStream) -> None:
    stream = streams()
    stream.apply()
    stream.wait_until_ready()
    before = stream.uids("pods")

    stream.kubectl("label", "pod", stream.pod_name(0), f"{GROUP}/partition-")

    wait_until_replaced(stream, "pods", before, MENDED_SECONDS)
    stream.wait_until_rolled_out()
    stream.wait_for_events("StrayPodReplaced")


@pytest.mark.matrix  # the lost volumes of test_restore.py
def test_a_volume_that_is_deleted_is_followed_by_one_rebuilt_from_the_output(
    streams: CreateStream,
) -> None:
    stream = streams()
    stream.apply()
    stream.wait_until_ready()
    stream.send(retries(SEED, COUNT))
    stream.wait_until_passed()

    pods = stream.uids("pods")
    stream.kubectl("delete", "persistentvolumeclaim", f"{stream.name}-0-1", "--wait=false")
    stream.wait_until(
        lambda: (
            set(stream.uids("persistentvolumeclaims"))
            == {f"PersistentVolumeClaim/{stream.name}-0-2"}
        ),
        "its volume is another one",
        deadline_seconds=MENDED_SECONDS,
    )
    wait_until_replaced(stream, "pods", pods)
    stream.wait_until_rolled_out()

    [partition] = stream.status().partitions
    assert partition.persistent_volume_claim == f"{stream.name}-0-2"
    assert partition.restore is not None
    assert partition.restore.source is RestoreSource.OUTPUT_TOPIC
    assert f"{stream.name}-0-1 was deleted" in partition.restore.reason
    assert stream.starts() == ["NewStore"]
    stream.send(retries(SEED, COUNT))
    stream.judged()
    assert stream.duplicates() == COUNT
    stream.wait_until(
        lambda: len(stream.children("persistentvolumeclaims")) == 1, "the old volume is gone"
    )


def without_hashes(uids: dict[str, str]) -> set[str]:
    """The names of objects, without the hash that a ConfigMap's name has of its content."""
    return {re.sub("-[0-9a-f]{10}$", "", name) for name in uids}


@pytest.mark.matrix  # tests/unit/operator/controller/test_reconciler.py
def test_a_paused_stream_is_left_as_it_is_until_it_goes_on(streams: CreateStream) -> None:
    stream = streams()
    stream.apply()
    stream.wait_until_ready()
    before = stream.uids(MANAGED)

    stream.annotate("pause-reconciliation", "true")
    stream.wait_for_condition("ReconciliationPaused", reason="Annotated")
    stream.kubectl("delete", MANAGED, "--selector", stream.selector)
    stream.patch(worker={"tuning": {"commitInterval": "50ms"}})
    # The condition is of the new generation: the operator has looked since.
    stream.wait_for_condition("ReconciliationPaused", reason="Annotated")
    assert stream.uids(MANAGED) == {}

    stream.annotate("pause-reconciliation", None)
    stream.wait_for_condition("ReconciliationPaused", ConditionStatus.FALSE, reason="Active")
    stream.wait_until_rolled_out()
    after = stream.uids(MANAGED)
    assert without_hashes(after) == without_hashes(before)
    assert not set(after.values()) & set(before.values())


def test_an_object_of_a_needed_name_that_is_not_the_streams_is_left_alone(
    streams: CreateStream, kubectl: Kubectl, namespace: str
) -> None:
    stream, within = streams(), kubectl.within(namespace)
    theirs = [
        foreign("v1", "ConfigMap", f"{stream.name}-worker", data={"stream.yaml": "theirs"}),
        foreign("v1", "Service", f"{stream.name}-0", spec={"ports": [{"port": 80}]}),
        foreign(
            "v1",
            "PersistentVolumeClaim",
            f"{stream.name}-0-1",
            spec={
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "128Mi"}},
            },
        ),
    ]
    within.apply(*theirs)
    before = {one["kind"]: within.find(one["kind"], one["metadata"]["name"]) for one in theirs}

    stream.apply()
    for kind in ("ConfigMap", "PersistentVolumeClaim", "Service"):
        wait_until_said_to_be_taken(stream, kind)
        name = before[kind]["metadata"]["name"]  # type: ignore[index] # just applied
        assert within.find(kind, name) == before[kind]
        within("delete", kind, name)
    stream.wait_until_ready()


def delete_all_and_wait(stream: ClusterStream, kinds: str) -> None:
    before = stream.wait_until(lambda: stream.uids(kinds), f"there are {kinds}")
    stream.kubectl("delete", kinds, "--selector", stream.selector, "--wait=false")
    wait_until_replaced(stream, kinds, before, MENDED_SECONDS)


def wait_until_replaced(
    stream: ClusterStream,
    kinds: str,
    before: Mapping[str, str],
    deadline_seconds: float = READY_SECONDS,
) -> None:
    def replaced() -> bool:
        now = stream.uids(kinds)
        return now.keys() == before.keys() and not set(now.values()) & set(before.values())

    stream.wait_until(replaced, f"{kinds} are there anew", deadline_seconds=deadline_seconds)


def edits_of(stream: ClusterStream) -> dict[Place, tuple[Object, Object]]:
    """For each child what somebody changes of ours, and what of their own they put beside it."""
    name = stream.name
    shared_label = {"metadata": {"labels": {"app.kubernetes.io/part-of": "another"}}}
    no_partition = {"metadata": {"labels": {f"{GROUP}/partition": None}}}
    no_stream = {"metadata": {"labels": {f"{GROUP}/stream": None}}}
    marked = {"metadata": {"labels": THEIRS, "annotations": THEIRS}}
    return {
        ("serviceaccount", f"{name}-worker"): (
            {"automountServiceAccountToken": True},
            {**marked, "imagePullSecrets": [{"name": "theirs"}]},
        ),
        ("configmap", f"{name}-worker"): (
            {"data": {"stream.yaml": "spec: {}"}},
            {**marked, "data": {"theirs": "kept"}},
        ),
        ("secret", f"{name}-admin"): (shared_label, {**marked, "data": {"theirs": "a2VwdA=="}}),
        ("poddisruptionbudget", name): ({"spec": {"maxUnavailable": 0}}, marked),
        ("service", f"{name}-0"): (
            {"spec": {"selector": {f"{GROUP}/partition": "7"}}, **shared_label},
            marked,
        ),
        ("persistentvolumeclaim", f"{name}-0-1"): (no_partition, marked),
        ("statefulset", f"{name}-0"): ({"spec": {"replicas": 0}, **no_stream}, marked),
    }


def children(stream: ClusterStream, places: Mapping[Place, Any]) -> dict[Place, Object]:
    found = {place: stream.kubectl.find(*place) for place in places}
    return {place: one or {} for place, one in found.items()}


def merged(first: Object, second: Object) -> Object:
    """Two changes in one."""
    both = {**first, **second}
    for name in first.keys() & second.keys():
        both[name] = merged(first[name], second[name])
    return both


def picked(live: Object, change: Object) -> Object:
    """Of an object what a change is about."""
    return {
        name: picked(live.get(name) or {}, value) if isinstance(value, dict) else live.get(name)
        for name, value in change.items()
    }


def covers(wanted: Object, live: Object) -> bool:
    """Whether an object has all of something, whatever else it has."""
    return all(
        covers(value, live.get(name) or {}) if isinstance(value, dict) else live.get(name) == value
        for name, value in wanted.items()
    )


def foreign(api_version: str, kind: str, name: str, **content: Object) -> Object:
    """An object that somebody else made."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **content}


def wait_until_said_to_be_taken(stream: ClusterStream, kind: str) -> None:
    def said() -> bool:
        found = stream.condition("Degraded")
        return found is not None and found.reason == "NameTaken" and kind in found.message

    stream.wait_until(said, f"a {kind} is said to be another's")
