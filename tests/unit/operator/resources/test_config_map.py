"""The workers' manifest: what they read, all of it, and nothing besides."""

from pathlib import Path
from typing import Any

import pytest

from dedupe_crds.manifest import load_manifest, parse_manifest
from dedupe_crds.spec.stream import DedupeStream, Spec
from dedupe_operator.resources import config_map
from tests.unit.crds.manifests import GOOD_CHANGES, changed
from tests.unit.operator.objects import stream

NOT_READ = {"storage", "snapshots", "failover", "worker", "suspend"}
"""Fields that are the operator's; what is read of some of them all the same is named where it is tested."""
READ = Spec.model_fields.keys() - NOT_READ


def written(of: DedupeStream, tmp_path: Path) -> DedupeStream:
    path = tmp_path / config_map.MANIFEST_KEY
    path.write_text(config_map.build(of)["data"][config_map.MANIFEST_KEY], encoding="utf-8")
    return load_manifest(path)


@pytest.mark.parametrize("changes", GOOD_CHANGES, ids=str)
def test_a_worker_reads_the_streams_spec_as_far_as_it_concerns_it(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    given = parse_manifest(changed(changes), "given")
    read = written(given, tmp_path)
    for field in READ:
        assert getattr(read.spec, field) == getattr(given.spec, field)
    assert read.spec.worker.tuning == given.spec.worker.tuning
    assert read.metadata.name == given.metadata.name
    assert read.metadata.namespace == given.metadata.namespace


def test_texts_outside_ascii_survive(tmp_path: Path) -> None:
    given = stream({"spec.id": {"from": "Header", "name": "größe: 'ja' #1"}})
    assert written(given, tmp_path).spec.id == given.spec.id


@pytest.mark.parametrize(
    "changes",
    [
        {"spec.kafka.bootstrapServers": "other:9092"},
        {"spec.kafka.configSecretRef": {"name": "other"}},
        {"spec.input.topic": "other"},
        {"spec.output.topic": "other"},
        {"spec.id.from": "Content"},
        {"spec.store": {"window": {"maxAge": "7d"}}},
        {"spec.duplicates": {"policy": "Topic", "topic": "again"}},
        {"spec.conflicts": {"policy": "Topic", "topic": "other"}},
        {"spec.late": {"maxAge": "1d"}},
        {"spec.delivery": "AtLeastOnce"},
        {"spec.output.filter": {"from": "Header", "name": "country"}},
        {"spec.mode": "Observe"},
        {"spec.worker": {"tuning": {"commitInterval": "1s"}}},
        {"spec.snapshots": {"provider": "S3", "s3": {"bucket": "ids"}}},
    ],
    ids=str,
)
def test_the_hash_changes_with_what_a_worker_reads(changes: dict[str, Any]) -> None:
    assert config_map.config_hash(stream(changes)) != config_map.config_hash(stream())


STAGE = {"spec.repartition": {"partitions": 4}}


@pytest.mark.parametrize(
    "changes",
    [
        {"spec.input": {"topics": ["orders", "returns"]}},
        {"spec.repartition": {"partitions": 4, "topic": {"maxBytes": "1Gi"}}},
        {"spec.repartition": {"partitions": 4, "routers": {"replicas": 3}}},
    ],
    ids=str,
)
def test_what_only_routers_read_restarts_no_worker(changes: dict[str, Any]) -> None:
    assert config_map.config_hash(stream(STAGE | changes)) == config_map.config_hash(stream(STAGE))
    assert config_map.config_hash(stream(STAGE)) != config_map.config_hash(stream())


def test_an_accepted_loss_reaches_routers_and_the_workers_behind_them() -> None:
    """Also the workers: it may be of the repartition topic, or of the input that they hand over."""
    loss = {"topic": "clean-repartition", "partition": 0, "offset": 60, "epoch": 2}
    accepting = stream(STAGE | {"spec.input.acceptTruncated": [loss]})
    assert config_map.config_hash(accepting) != config_map.config_hash(stream(STAGE))
    assert config_map.routers_hash(accepting) != config_map.routers_hash(stream(STAGE))


@pytest.mark.parametrize(
    "changes",
    [
        {"spec.suspend": True},
        {"spec.storage": {"size": "40Gi"}},
        {"spec.storage": {"storageClassName": "gp3", "reclaimPolicy": "Delete"}},
        {"spec.worker": {"image": "other:1"}},
        {"spec.worker": {"resources": {"limits": {"cpu": "2"}}}},
        {"spec.snapshots": {"provider": "EBS", "schedule": "@daily"}},
        {"spec.failover": {"nodeNotReadyAfter": "2m"}},
        {"metadata.annotations": {"a": "b"}, "metadata.labels": {"c": "d"}},
        {"metadata.generation": 99, "metadata.uid": "other"},
        {"spec.mode": "Enforce"},
        {"spec.conflicts": {"policy": "Ignore"}},
        {"spec.late": {"policy": "Pass"}},
        {"spec.delivery": "ExactlyOnce"},
    ],
    ids=str,
)
def test_the_hash_stays_with_what_a_worker_does_not_read(changes: dict[str, Any]) -> None:
    assert config_map.config_hash(stream(changes)) == config_map.config_hash(stream())
