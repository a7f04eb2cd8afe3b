"""When workers are moved away from nodes that are out."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedupe_crds.status.worker import Phase
from dedupe_operator.decide.failover import (
    Outage,
    detachments,
    moves,
    outage,
    problem,
    stale_attachments,
    unready_on_nodes,
    waits_for_volume,
    was_fenced,
)
from dedupe_operator.kubernetes.names import Object
from tests.unit.operator.objects import (
    NODE,
    NOW,
    attachment,
    node,
    pod,
    waiting,
    worker_status,
)

PATIENCE = timedelta(seconds=60)
LONG_AGO = NOW - timedelta(minutes=5)
JUST_NOW = NOW - timedelta(seconds=59)
CREATING = waiting("ContainerCreating")


def out(since: datetime = LONG_AGO, name: str = NODE) -> Outage:
    return Outage(node=name, since=since, what="is NotReady")


def on(name: str | None, one: Object) -> Object:
    """A pod on another node than usual, or on none."""
    one["spec"] = {"nodeName": name} if name else {}
    return one


@pytest.mark.parametrize("status", ["Unknown", "False"])
def test_a_node_is_out_since_it_stopped_being_ready(status: str) -> None:
    found = outage(NODE, node(status=status, since=JUST_NOW), missing_since=LONG_AGO)
    assert found is not None
    assert found.since == JUST_NOW
    assert found.what == "is NotReady (Kubelet stopped posting node status)"


def test_a_ready_node_is_not_out_whatever_else_is_wrong_with_it() -> None:
    assert outage(NODE, node(), missing_since=LONG_AGO) is None


def test_a_node_that_has_not_said_anything_yet_is_not_out() -> None:
    assert outage(NODE, {"metadata": {"name": NODE}}, missing_since=LONG_AGO) is None


def test_a_node_that_is_gone_is_out_since_it_was_missed() -> None:
    found = outage(NODE, None, missing_since=JUST_NOW)
    assert found == Outage(node=NODE, since=JUST_NOW, what="does not exist any more")


def test_only_pods_that_are_not_ready_and_have_a_node_are_in_doubt() -> None:
    pods = {0: pod(0), 1: pod(1, ready=False), 2: pod(2, dying=True)}
    pods[3] = on(None, pod(3, ready=False))
    assert set(unready_on_nodes(pods)) == {1, 2}


def test_a_worker_is_moved_once_its_node_was_out_for_long_enough() -> None:
    pods = {0: pod(0, ready=False)}
    late = moves(pods, {NODE: out(NOW - PATIENCE)}, patience=PATIENCE, now=NOW)
    early = moves(pods, {NODE: out(JUST_NOW)}, patience=PATIENCE, now=NOW)
    assert (set(late.due), set(late.later)) == ({0}, set())
    assert (set(early.due), set(early.later)) == (set(), {0})


@given(
    seconds=st.floats(0, 10_000),
    patience=st.floats(5, 10_000),
    dying=st.booleans(),
    bad=st.booleans(),
)
def test_no_worker_is_moved_before_its_time_nor_from_a_node_that_is_well(
    seconds: float, patience: float, *, dying: bool, bad: bool
) -> None:
    since, bound = NOW - timedelta(seconds=seconds), timedelta(seconds=patience)
    found = moves(
        {0: pod(0, ready=False, dying=dying)},
        {NODE: out(since)} if bad else {"another": out(since, "another")},
        patience=bound,
        now=NOW,
    )
    assert bool(found.due) == (bad and NOW - since >= bound)
    assert bool(found.later) == (bad and NOW - since < bound)


def test_a_pod_on_its_way_out_is_moved_as_well() -> None:
    found = moves({0: pod(0, dying=True)}, {NODE: out()}, patience=PATIENCE, now=NOW)
    assert set(found.due) == {0}


@pytest.mark.parametrize(
    ("one", "waits"),
    [
        (pod(0, ready=False, container=CREATING), True),
        (pod(0, ready=False, container=waiting("CrashLoopBackOff")), False),
        (pod(0, ready=False), False),
        (pod(0), False),
        (pod(0, ready=False, dying=True, container=CREATING), False),
        (on(None, pod(0, ready=False, container=CREATING)), False),
        (pod(0, ready=False, container=CREATING, created=NOW - timedelta(seconds=9)), False),
    ],
)
def test_a_pod_waits_for_its_volume_when_its_container_is_not_made(
    one: Object, *, waits: bool
) -> None:
    assert waits_for_volume(one, NOW) is waits


def test_a_pod_whose_node_has_not_said_a_word_may_wait_for_its_volume() -> None:
    silent = pod(0, ready=False)
    del silent["status"]["containerStatuses"]
    assert waits_for_volume(silent, NOW)


def test_volumes_attached_where_their_partition_has_no_pod_are_found() -> None:
    attachments = [
        attachment("volume-0", to="dead"),
        attachment("volume-0", to="alive"),
        attachment("volume-1", to="dead"),
        attachment("somebody-elses", to="dead"),
        attachment("volume-2", to="dead"),
    ]
    pods = {0: on("alive", pod(0)), 1: on("dead", pod(1))}
    found = stale_attachments(attachments, {0: "volume-0", 1: "volume-1", 2: "volume-2"}, pods)
    assert found == [(0, attachments[0]), (2, attachments[4])]


def test_an_attachment_that_is_being_removed_is_let_be() -> None:
    dying = attachment("volume-0", to="dead", dying=True)
    assert stale_attachments([dying], {0: "volume-0"}, {}) == []


def test_an_inline_volume_belongs_to_nobody() -> None:
    inline = attachment("volume-0")
    inline["spec"]["source"] = {"inlineVolumeSpec": {}}
    assert stale_attachments([inline], {0: "volume-0"}, {}) == []


def test_a_volume_is_let_go_by_a_node_that_was_out_for_long_enough_and_by_no_other() -> None:
    candidates = [(p, attachment(f"volume-{p}", to=f"node-{p}")) for p in range(3)]
    outages = {"node-0": out(name="node-0"), "node-1": out(JUST_NOW, "node-1")}
    found = detachments(candidates, outages, patience=PATIENCE, now=NOW)
    assert [(one.partition, one.outage.node) for one in found] == [(0, "node-0")]


def test_who_waits_is_told_until_when() -> None:
    told = problem(out(JUST_NOW), PATIENCE)
    assert told.reason == "NodeNotReady"
    assert "node node-1 is NotReady since 11:59:01Z" in told.message
    assert "at 12:00:01Z (spec.failover.nodeNotReadyAfter)" in told.message


FENCED = worker_status(phase=Phase.FAILED, reason="Fenced", message="another has taken over")


def test_a_fenced_worker_is_given_a_minute() -> None:
    started = {"state": {"running": {"startedAt": (NOW - timedelta(seconds=60)).isoformat()}}}
    recently = {"state": {"running": {"startedAt": (NOW - timedelta(seconds=59)).isoformat()}}}
    assert was_fenced(pod(0, ready=False, container=started), FENCED, NOW)
    assert not was_fenced(pod(0, ready=False, container=recently), FENCED, NOW)


def test_only_a_fenced_worker_that_says_so_is_one() -> None:
    other = worker_status(phase=Phase.FAILED, reason="DiskFull", message="m")
    assert not was_fenced(pod(0, ready=False), other, NOW)
    assert not was_fenced(pod(0, ready=False), None, NOW)
    assert not was_fenced(pod(0, dying=True), FENCED, NOW)
    assert not was_fenced(pod(0, ready=False, container=waiting("CrashLoopBackOff")), FENCED, NOW)
