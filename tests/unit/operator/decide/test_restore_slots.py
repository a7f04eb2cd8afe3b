"""The number of requested restores that run side by side."""

from dedupe_crds.status.stream import PartitionStatus
from dedupe_operator.decide.restore_slots import free_slots
from dedupe_operator.decide.volume_claims import REQUESTED
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.resources.pod_template import STATE_VOLUME
from tests.unit.operator.objects import partition_status, pod, restore


def requested(number: int, **fields: object) -> PartitionStatus:
    made = restore().model_copy(update={"reason": REQUESTED, "request": "1"})
    return partition_status(number, restore=made, ready=False, **fields)


def on_claim(number: int, claim: str, *, ready: bool) -> Object:
    made = pod(number, ready=ready)
    volume = {"name": STATE_VOLUME, "persistentVolumeClaim": {"claimName": claim}}
    made["spec"]["volumes"] = [volume]
    return made


def test_four_start_and_the_others_wait_for_them() -> None:
    assert free_slots([], {}, range(30)) == 4
    assert free_slots([requested(0), requested(1), requested(2)], {}, range(3, 30)) == 1
    assert free_slots([requested(number) for number in range(6)], {}, range(6, 30)) == 0


def test_what_is_ready_is_blocked_or_not_requested_takes_no_place() -> None:
    recorded = [
        requested(0),
        requested(1, message="no node can run the pod"),
        partition_status(2, ready=False),
    ]
    pods = {0: on_claim(0, "orders-0-1", ready=True), 1: on_claim(1, "orders-1-1", ready=False)}
    assert free_slots(recorded, pods, ()) == 4


def test_a_pod_on_the_volume_before_does_not_end_a_restore() -> None:
    recorded = [requested(0, message="no node can run the pod"), requested(1)]
    pods = {0: on_claim(0, "before", ready=False), 1: on_claim(1, "before", ready=True)}
    assert free_slots(recorded, pods, ()) == 2


def test_a_partition_whose_next_request_waits_takes_no_place() -> None:
    again = [requested(number) for number in range(4)]
    assert free_slots(again, {}, range(4)) == 4
