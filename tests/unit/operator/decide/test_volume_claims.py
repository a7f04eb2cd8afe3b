"""Which volume a partition gets, rung by rung."""

from typing import Any

import pytest

from dedupe_crds.annotations import RestoreRequest
from dedupe_crds.status.stream import PartitionPhase, PartitionStatus, Restore, RestoreSource
from dedupe_operator.decide import volume_claims as claims
from dedupe_operator.decide.restore_source import RestoreChoice
from dedupe_operator.decide.volume_claims import (
    ClaimChoice,
    ClaimProblem,
    RestoreNeed,
    waits_for_other_class,
)
from dedupe_operator.kubernetes.names import Object
from tests.unit.operator.objects import EARLIER, NOW, claim, partition_status, restore


def choose(
    *live: Object,
    recorded: PartitionStatus | None = None,
    class_name: str | None = None,
    output_created: bool = False,
) -> ClaimChoice:
    chosen = claims.choose_claim(
        "orders",
        0,
        recorded=recorded,
        live=live,
        class_name=class_name,
        output_created=output_created,
        now=NOW,
    )
    if isinstance(chosen, ClaimChoice):
        return chosen
    return claims.fill_claim(chosen, RestoreChoice(source=RestoreSource.OUTPUT_TOPIC), NOW)


def test_a_new_partition_of_a_new_stream_begins_with_nothing() -> None:
    choice = choose(output_created=True)
    assert (choice.name, choice.is_new) == ("orders-0-1", True)
    assert choice.restore.source is RestoreSource.NOTHING
    assert choice.restore.time == NOW


def test_a_new_partition_whose_output_topic_was_there_is_filled_from_it() -> None:
    choice = choose()
    assert (choice.name, choice.is_new) == ("orders-0-1", True)
    assert choice.restore.source is RestoreSource.OUTPUT_TOPIC


def test_the_recorded_claim_stays_with_the_reason_it_was_chosen_for() -> None:
    choice = choose(claim("orders-0-1"), claim("orders-0-2"), recorded=partition_status())
    assert (choice.name, choice.is_new) == ("orders-0-1", False)
    assert choice.restore == restore()
    assert choice.restore.time == EARLIER


def test_a_claim_on_record_that_was_not_created_yet_is_created() -> None:
    recorded = partition_status(phase=PartitionPhase.PROVISIONING)
    choice = choose(recorded=recorded)
    assert (choice.name, choice.is_new) == ("orders-0-1", False)


def test_a_claim_deleted_while_its_partition_ran_is_followed_by_a_new_one() -> None:
    choice = choose(recorded=partition_status())
    assert (choice.name, choice.is_new) == ("orders-0-2", True)
    assert choice.restore.source is RestoreSource.OUTPUT_TOPIC
    assert "orders-0-1 was deleted" in choice.restore.reason


@pytest.mark.parametrize("phase", [PartitionPhase.RUNNING, PartitionPhase.PROVISIONING])
def test_a_claim_under_deletion_is_followed_by_a_new_one(phase: PartitionPhase) -> None:
    choice = choose(claim("orders-0-1", dying=True), recorded=partition_status(phase=phase))
    assert (choice.name, choice.is_new) == ("orders-0-2", True)


def test_a_dying_claim_that_is_not_on_record_keeps_its_name_too() -> None:
    choice = choose(claim("orders-0-4", dying=True))
    assert choice.name == "orders-0-5"


def test_the_next_serial_is_above_the_recorded_and_the_dying_ones() -> None:
    recorded = partition_status(persistent_volume_claim="orders-0-7")
    choice = choose(claim("orders-0-9", dying=True), recorded=recorded)
    assert choice.name == "orders-0-10"


def test_a_volume_that_was_kept_is_taken_over_the_newest_first() -> None:
    choice = choose(claim("orders-0-2"), claim("orders-0-10"), claim("orders-0-9"))
    assert (choice.name, choice.is_new) == ("orders-0-10", True)
    assert choice.restore.source is RestoreSource.VOLUME
    assert choice.restore.name == "orders-0-10"


def test_a_volume_is_taken_over_although_the_output_topic_is_new() -> None:
    assert choose(claim("orders-0-1"), output_created=True).name == "orders-0-1"


def test_a_volume_of_any_name_with_the_partitions_labels_is_taken_over() -> None:
    assert choose(claim("restored-by-hand")).name == "restored-by-hand"


def test_a_lost_claim_is_replaced_by_another_volume_of_the_partition() -> None:
    choice = choose(claim("orders-0-3"), recorded=partition_status())
    assert (choice.name, choice.is_new) == ("orders-0-3", True)
    assert choice.restore.source is RestoreSource.VOLUME


def test_a_record_without_its_reason_is_chosen_anew() -> None:
    choice = choose(claim("orders-0-1"), recorded=partition_status(restore=None))
    assert (choice.name, choice.is_new) == ("orders-0-1", True)


def test_a_claim_that_waits_for_a_class_no_longer_named_is_followed_by_a_new_one() -> None:
    recorded = partition_status(phase=PartitionPhase.PROVISIONING)
    stuck = claim("orders-0-1", phase="Pending", class_name="no-such")
    choice = choose(stuck, recorded=recorded, class_name="gp3")
    assert (choice.name, choice.is_new) == ("orders-0-2", True)


def test_only_a_claim_without_a_volume_and_of_another_class_waits_elsewhere() -> None:
    pending = claim(phase="Pending", class_name="slow")
    assert waits_for_other_class(pending, "fast")
    assert not waits_for_other_class(pending, "slow")
    assert not waits_for_other_class(pending, None)
    assert not waits_for_other_class(claim(phase="Bound", class_name="slow"), "fast")


def choose_or_need(
    *live: Object, recorded: PartitionStatus | None = None, **known: object
) -> ClaimChoice | RestoreNeed:
    given: dict[str, Any] = {"class_name": None, "output_created": False, "now": NOW, **known}
    recorded = recorded or partition_status()
    return claims.choose_claim("orders", 0, recorded=recorded, live=live, **given)


def asked(source: str = "snap", request: str = "1") -> RestoreRequest:
    return RestoreRequest(request=request, partition=0, source=source)


def need(chosen: ClaimChoice | RestoreNeed) -> RestoreNeed:
    assert isinstance(chosen, RestoreNeed)
    return chosen


def test_a_restore_that_is_asked_for_leaves_the_volume_that_is_there() -> None:
    found = need(choose_or_need(claim("orders-0-1"), request=asked()))
    assert (found.name, found.request) == ("orders-0-2", asked())


def test_a_request_is_answered_once_and_stays_answered_by_later_choices() -> None:
    known = restore().model_copy(update={"request": "1"})
    recorded = partition_status(restore=known)
    assert claims.pending_request([asked()], 0, recorded, [claim("orders-0-1")]) is None
    found = need(choose_or_need(recorded=recorded))
    filled = claims.fill_claim(
        found, RestoreChoice(source=RestoreSource.SNAPSHOT, name="snap"), NOW
    )
    assert filled.restore.request == "1"
    taken = choose_or_need(claim("orders-0-2"), recorded=recorded)
    assert isinstance(taken, ClaimChoice)
    assert taken.restore.request == "1"


def test_a_refused_request_is_answered_and_changes_nothing() -> None:
    choice = claims.refuse(partition_status(), asked(), "snap: gone")
    assert (choice.name, choice.is_new) == ("orders-0-1", False)
    assert choice.restore == restore().model_copy(
        update={"request": "1", "refused": ["snap: gone"]}
    )


def test_a_volume_that_is_lost_is_followed_by_a_new_claim() -> None:
    found = need(choose_or_need(claim("orders-0-1", phase="Lost")))
    assert (found.name, found.reason) == ("orders-0-2", "PVC orders-0-1 lost its volume")


def test_a_volume_that_a_restore_replaced_is_not_gone_back_to() -> None:
    recorded = partition_status(persistent_volume_claim="orders-0-2")
    assert need(choose_or_need(claim("orders-0-1"), recorded=recorded)).name == "orders-0-3"


def test_an_unusable_volume_is_left_and_its_reason_told() -> None:
    problem = ClaimProblem(unusable="is another's")
    found = need(choose_or_need(claim("orders-0-1"), problem=problem))
    assert (found.name, found.reason) == ("orders-0-2", "PVC orders-0-1 is another's")


def from_snapshot(
    tried: dict[str, str] | None = None, phase: PartitionPhase = PartitionPhase.RUNNING
) -> PartitionStatus:
    known = Restore(
        source=RestoreSource.SNAPSHOT, name="new", reason="lost", time=EARLIER, tried=tried
    )
    return partition_status(restore=known, phase=phase)


@pytest.mark.parametrize(
    ("live", "keep", "name"),
    [
        ([claim("orders-0-1", phase="Pending")], False, "orders-0-2"),
        ([claim("orders-0-1")], True, "orders-0-1"),
        ([], False, "orders-0-1"),
    ],
)
def test_a_source_that_failed_is_not_tried_again(
    live: list[Object], name: str, *, keep: bool
) -> None:
    recorded = from_snapshot({"newest": "gone: for good"}, phase=PartitionPhase.PROVISIONING)
    problem = ClaimProblem(source="it is gone", keep_claim=keep)
    found = need(choose_or_need(*live, recorded=recorded, problem=problem))
    assert found.name == name
    assert found.reason == "lost"
    assert found.tried == {"newest": "gone: for good", "new": "it is gone"}


def test_a_new_output_topic_holds_nothing_to_rebuild_from() -> None:
    found = need(
        claims.choose_claim(
            "orders", 0, recorded=None, live=(), class_name=None, output_created=True, now=NOW
        )
    )
    assert claims.fill_claim(
        found, RestoreChoice(source=RestoreSource.OUTPUT_TOPIC), NOW
    ).restore.source is (RestoreSource.NOTHING)
