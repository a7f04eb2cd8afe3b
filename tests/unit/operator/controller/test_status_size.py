"""The size of each object that has a part of a large stream's status."""

import json
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from dedupe_crds.openapi import CUSTOM_RESOURCES, Schema
from dedupe_crds.status.partitions import KIND
from dedupe_crds.status.stream import (
    AddedPartition,
    Condition,
    ConditionStatus,
    PartitionStatus,
    StreamStatus,
)
from dedupe_operator.controller.status_writer import StatusWriter
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import STREAMS
from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.large_status import healthy, ill
from tests.unit.operator.objects import NOW, STREAM, raw_stream

MOST: Final = 1_000_000  # bytes; etcd takes 1.5 MiB
PARTITIONS: Final = 10_000


def conditions() -> list[Condition]:
    return [
        Condition(
            type=f"Condition{each}",
            status=ConditionStatus.FALSE,
            observed_generation=1,
            last_transition_time=NOW,
            reason="R",
            message="m" * 4096,
        )
        for each in range(12)
    ]


def owned_fields(value: object, schema: Schema) -> object:
    """What the API server keeps of who owns which field (fieldsV1)."""
    if schema["type"] == "object" and isinstance(value, dict):
        inner = schema.get("properties", {})
        more = schema.get("additionalProperties", {"type": "string"})
        return {f"f:{key}": owned_fields(each, inner.get(key, more)) for key, each in value.items()}
    keys = schema.get("x-kubernetes-list-map-keys")
    if isinstance(value, list) and keys:
        entries: dict[str, object] = {}
        for each in value:
            key = json.dumps({name: each[name] for name in keys}, separators=(",", ":"))
            entries[f"k:{key}"] = {".": {}, **dict(_items(owned_fields(each, schema["items"])))}
        return entries
    return {}


def _items(fields: object) -> Iterator[tuple[str, object]]:
    assert isinstance(fields, dict)
    yield from fields.items()


def stored_bytes(live: Object) -> int:
    """The size of an object in etcd, with its managedFields."""
    schema = next(
        each.schema()["properties"]["status"]
        for each in CUSTOM_RESOURCES
        if each.kind == live["kind"]
    )
    managed = owned_fields(live["status"], schema)
    return len(json.dumps([live, managed], separators=(",", ":")))


@pytest.mark.parametrize("entry", [healthy, ill])
def test_no_object_of_ten_thousand_partitions_comes_near_the_limit(
    entry: Callable[[int], PartitionStatus],
) -> None:
    cluster = FakeCluster()
    cluster.objects[STREAMS.kind, STREAM] = raw_stream() | {"kind": STREAMS.kind}
    raw = cluster.get_copy(STREAMS.kind, STREAM)
    status = StreamStatus(
        conditions=conditions(),
        partitions=[entry(each) for each in range(PARTITIONS)],
        added_partitions=[
            AddedPartition(partition=PARTITIONS + each, lag_messages=120_000) for each in range(100)
        ],
    )
    assert not StatusWriter(cluster).write(raw, status)
    assert len(cluster.names(KIND)) == 99
    sizes = {
        address: stored_bytes(one)
        for address, one in cluster.objects.items()
        if "status" in one and address[0] in {KIND, STREAMS.kind}
    }
    assert len(sizes) == 100
    assert max(sizes.values()) < MOST
    read = StatusWriter(cluster).read(cluster.get_copy(STREAMS.kind, STREAM))
    assert read.partitions == status.partitions


def test_the_estimate_is_that_of_a_real_api_server() -> None:
    """2,000 healthy partitions in one object took 1.47 MiB on a real one."""
    partitions = [
        healthy(each).model_dump(mode="json", by_alias=True, exclude_none=True)
        for each in range(2_000)
    ]
    live = {"kind": STREAMS.kind, "status": {"partitions": partitions}}
    assert stored_bytes(live) == pytest.approx(1.47 * 2**20, rel=0.25)
