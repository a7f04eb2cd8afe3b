"""Volumes that are to grow."""

from datetime import timedelta

import pytest

from dedupe_crds.quantity import GIB
from dedupe_operator.decide import volume_expansion as growth
from dedupe_operator.kubernetes.names import Object
from tests.unit.operator.objects import NOW, claim, pod


def pending_resize(age: timedelta, status: str = "True") -> Object:
    since = (NOW - age).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"type": "FileSystemResizePending", "status": status, "lastTransitionTime": since}


def test_a_bound_claim_that_asks_for_less_is_to_grow() -> None:
    assert growth.needs_expansion(claim(size="20Gi"), 30 * GIB)
    assert not growth.needs_expansion(claim(size="30Gi"), 30 * GIB)
    assert not growth.needs_expansion(claim(size="40Gi"), 30 * GIB)


def test_a_claim_without_a_volume_does_not_grow() -> None:
    assert not growth.needs_expansion(claim(phase="Pending"), 30 * GIB)
    assert not growth.needs_expansion(None, 30 * GIB)
    assert growth.requested(None) == 0


def test_a_class_that_allows_it_lets_volumes_grow() -> None:
    assert growth.refusal(claim(), 30 * GIB, {"allowVolumeExpansion": True}) is None


@pytest.mark.parametrize("storage_class", [{}, {"allowVolumeExpansion": False}, None])
def test_a_class_that_does_not_is_named_with_both_sizes(storage_class: Object | None) -> None:
    problem = growth.refusal(claim(size="20Gi"), 30 * GIB, storage_class)
    assert problem is not None
    assert problem.reason == "VolumeExpansionNotAllowed"
    for part in ("20Gi", "30Gi", "gp3", "allowVolumeExpansion"):
        assert part in problem.message


def failed(kind: str, status: str = "True", message: str = "no space left") -> Object:
    return {"type": kind, "status": status, "message": message}


@pytest.mark.parametrize("kind", ["ControllerResizeError", "NodeResizeError"])
def test_a_failed_growth_is_told_in_the_drivers_words(kind: str) -> None:
    problem = growth.failure(claim(conditions=(failed(kind),)))
    assert problem is not None
    assert (problem.reason, problem.message) == ("VolumeExpansionFailed", "no space left")
    silent = growth.failure(claim(conditions=(failed(kind, message=""),)))
    assert silent is not None
    assert silent.message


def test_a_failure_that_is_over_is_none() -> None:
    assert growth.failure(claim(conditions=(failed("ControllerResizeError", "False"),))) is None


def test_a_nodes_failure_counts_once_no_restart_can_help() -> None:
    waits = pending_resize(timedelta(seconds=1))
    assert growth.failure(claim(conditions=(failed("NodeResizeError"), waits))) is None
    problem = growth.failure(claim(conditions=(failed("ControllerResizeError"), waits)))
    assert problem is not None


def test_a_growth_in_progress_is_no_failure() -> None:
    assert growth.failure(claim(conditions=({"type": "Resizing", "status": "True"},))) is None
    assert growth.failure(claim()) is None
    assert growth.failure(None) is None


def test_a_file_system_that_does_not_grow_in_use_waits_for_a_restart() -> None:
    patient = claim(conditions=(pending_resize(timedelta(seconds=20)),))
    late = claim(conditions=(pending_resize(timedelta(seconds=40)),))
    over = claim(conditions=(pending_resize(timedelta(seconds=40), "False"),))
    assert not growth.needs_restart(patient, pod(), NOW)
    assert growth.needs_restart(late, pod(), NOW)
    assert not growth.needs_restart(over, pod(), NOW)
    assert not growth.needs_restart(claim(), pod(), NOW)
    assert not growth.needs_restart(None, pod(), NOW)


def test_a_pod_that_was_made_since_has_been_restarted() -> None:
    late = claim(conditions=(pending_resize(timedelta(seconds=40)),))
    assert growth.needs_restart(late, pod(created=NOW - timedelta(seconds=41)), NOW)
    assert not growth.needs_restart(late, pod(created=NOW - timedelta(seconds=39)), NOW)
