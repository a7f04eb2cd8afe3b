from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from dedupe_crds.quantity import GIB
from dedupe_crds.spec.store import SnapshotProvider
from dedupe_crds.status.snapshot import (
    DedupeSnapshot,
    PartitionSnapshot,
    SnapshotPhase,
    SnapshotSpec,
    SnapshotStatus,
    StreamRef,
)

DOCUMENT: dict[str, Any] = {
    "apiVersion": "dedupestream.io/v1alpha1",
    "kind": "DedupeSnapshot",
    "metadata": {"name": "orders-20261121-180000", "namespace": "shop"},
    "spec": {"streamRef": {"name": "orders"}, "partitions": [0, 2]},
}
STATUS = SnapshotStatus(
    phase=SnapshotPhase.COMPLETED,
    provider=SnapshotProvider.S3,
    progress="1/1",
    size="3Gi",
    started=datetime(2026, 11, 21, 18, tzinfo=UTC),
    completed=datetime(2026, 11, 21, 18, 5, tzinfo=UTC),
    partitions=[
        PartitionSnapshot(
            partition=2,
            phase=SnapshotPhase.COMPLETED,
            handle="orders/2/manifest.json",
            input_offset=-1,
            output_position=7,
            keys=6,
            window=timedelta(days=3),
            bytes=3 * GIB,
            uploaded_bytes=1025,
        )
    ],
)


def test_a_snapshot_is_of_one_stream_and_of_all_partitions_unless_it_names_some() -> None:
    assert DedupeSnapshot.model_validate(DOCUMENT).spec == SnapshotSpec(
        stream_ref=StreamRef(name="orders"), partitions=[0, 2]
    )
    assert SnapshotSpec.model_validate({"streamRef": {"name": "orders"}}).partitions == []


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({}, ("streamRef",)),
        ({"streamRef": {"name": "Orders"}}, ("streamRef", "name")),
        ({"streamRef": {"name": "orders"}, "partitions": [-1]}, ("partitions", 0)),
        ({"streamRef": {"name": "orders"}, "partitions": ["0"]}, ("partitions", 0)),
        ({"streamRef": {"name": "orders"}, "partitions": [65536]}, ("partitions", 0)),
        ({"streamRef": {"name": "orders"}, "partitions": [0] * 1025}, ("partitions",)),
        ({"streamRef": {"name": "orders"}, "keep": 1}, ("keep",)),
    ],
    ids=str,
)
def test_a_wrong_spec_is_refused_at_its_field(
    spec: dict[str, Any], path: tuple[str | int, ...]
) -> None:
    with pytest.raises(ValidationError) as refused:
        DedupeSnapshot.model_validate(DOCUMENT | {"spec": spec})
    assert [error["loc"] for error in refused.value.errors()] == [("spec", *path)]


def test_a_status_survives_the_api_server_with_every_figure() -> None:
    written = STATUS.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert written["partitions"][0]["bytes"] == "3Gi"
    assert written["partitions"][0]["uploadedBytes"] == "1025"
    assert written["partitions"][0]["window"] == "3d"
    assert SnapshotStatus.model_validate(written) == STATUS


def test_a_snapshot_nobody_has_looked_at_is_pending() -> None:
    assert SnapshotStatus().phase is SnapshotPhase.PENDING


@pytest.mark.parametrize("phase", SnapshotPhase)
def test_what_is_completed_or_failed_stays_so(phase: SnapshotPhase) -> None:
    assert phase.is_final == (phase in {SnapshotPhase.COMPLETED, SnapshotPhase.FAILED})
