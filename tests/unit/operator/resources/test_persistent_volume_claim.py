"""The volume claim of a partition."""

from dedupe_crds.quantity import GIB
from dedupe_operator.decide.drift import is_as_wanted, with_wanted_hash
from dedupe_operator.resources import persistent_volume_claim as claim
from tests.unit.operator import objects
from tests.unit.operator.objects import UID, stream

DELETE = {"spec.storage": {"reclaimPolicy": "Delete"}}


def test_a_new_claim_asks_for_what_the_spec_says() -> None:
    of = stream({"spec.storage": {"storageClassName": "gp3"}})
    built = claim.build(of, 1, served=2, name="orders-1-1", live=None, size=30 * GIB, made_from={})
    assert built["metadata"]["name"] == "orders-1-1"
    assert built["metadata"]["labels"]["dedupestream.io/partition"] == "1"
    assert built["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "30Gi"}},
        "storageClassName": "gp3",
    }


def test_a_claim_of_the_default_class_names_none() -> None:
    built = claim.build(stream(), 0, served=2, name="orders-0-1", live=None, size=GIB, made_from={})
    assert "storageClassName" not in built["spec"]


def test_what_cant_change_in_place_is_said_as_it_is() -> None:
    live = objects.claim(class_name="slow")
    live["spec"]["accessModes"] = ["ReadWriteOncePod"]
    of = stream({"spec.storage": {"storageClassName": "gp3"}})
    built = claim.build(of, 0, served=2, name="orders-0-1", live=live, size=GIB, made_from={})
    assert built["spec"]["storageClassName"] == "slow"
    assert built["spec"]["accessModes"] == ["ReadWriteOncePod"]


def test_a_claim_bound_to_no_class_stays_so() -> None:
    live = objects.claim(class_name=None)
    of = stream({"spec.storage": {"storageClassName": "gp3"}})
    assert (
        "storageClassName"
        not in claim.build(of, 0, served=2, name="a", live=live, size=GIB, made_from={})["spec"]
    )


def test_a_volume_that_is_kept_is_owned_by_nothing() -> None:
    built = claim.build(stream(), 0, served=2, name="orders-0-1", live=None, size=GIB, made_from={})
    assert "ownerReferences" not in built["metadata"]


def test_a_volume_that_goes_with_its_stream_is_owned_and_blocks_nothing() -> None:
    built = claim.build(
        stream(DELETE), 0, served=2, name="orders-0-1", live=None, size=GIB, made_from={}
    )
    (owner,) = built["metadata"]["ownerReferences"]
    assert owner == {
        "apiVersion": "dedupestream.io/v1alpha1",
        "kind": "DedupeStream",
        "name": "orders",
        "uid": UID,
    }


def test_a_change_of_the_reclaim_policy_either_way_is_drift() -> None:
    kept = with_wanted_hash(
        claim.build(stream(), 0, served=2, name="a", live=None, size=GIB, made_from={})
    )
    deleted = with_wanted_hash(
        claim.build(stream(DELETE), 0, served=2, name="a", live=None, size=GIB, made_from={})
    )
    assert not is_as_wanted(kept, deleted)
    assert not is_as_wanted(deleted, kept)
