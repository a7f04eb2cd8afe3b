"""Checks of a manifest: refused and ignored fields, and the summary."""

from typing import Any

import pytest

from dedupe_crds.manifest import parse_manifest
from dedupe_crds.spec.stream import DedupeStream
from dedupe_local.errors import Refused
from dedupe_local.run.preflight import embedded_port, refuse_unsupported, summary, unused_fields


def stream(kafka: dict[str, Any] | None = None, **spec: object) -> DedupeStream:
    document = {
        "apiVersion": "dedupestream.io/v1alpha1",
        "kind": "DedupeStream",
        "metadata": {"name": "orders", "namespace": "shop"},
        "spec": {
            "kafka": {"bootstrapServers": "kafka:9092", **(kafka or {})},
            "input": {"topic": "orders"},
            "output": {"topic": "orders-clean"},
            "id": {"from": "Key"},
            **spec,
        },
    }
    return parse_manifest(document, "test")


SECRET = {"configSecretRef": {"name": "orders-kafka"}}


def test_a_secret_without_a_properties_file_is_refused() -> None:
    with pytest.raises(Refused, match="--kafka-properties"):
        refuse_unsupported(stream(kafka=SECRET), has_properties=False, embedded=False)


def test_a_secret_is_not_needed_with_a_properties_file_or_the_embedded_broker() -> None:
    refuse_unsupported(stream(kafka=SECRET), has_properties=True, embedded=False)
    refuse_unsupported(stream(kafka=SECRET), has_properties=False, embedded=True)


def test_credentials_for_the_embedded_broker_are_refused() -> None:
    with pytest.raises(Refused, match="not for --embedded"):
        refuse_unsupported(stream(), has_properties=True, embedded=True)


def test_an_embedded_broker_and_another_one_exclude_each_other() -> None:
    with pytest.raises(Refused, match="omit one of them"):
        refuse_unsupported(stream(), embedded=True, has_servers=True)


def test_partitions_are_for_topics_that_are_created() -> None:
    refuse_unsupported(stream(), embedded=True, has_partitions=True)
    with pytest.raises(Refused, match="add --embedded"):
        refuse_unsupported(stream(), has_partitions=True)
    pattern = stream(input={"pattern": "orders-.*"}, repartition={"partitions": 2})
    with pytest.raises(Refused, match=r"no topic is created for spec\.input\.pattern"):
        refuse_unsupported(pattern, embedded=True, has_partitions=True)


def test_only_fields_the_user_wrote_are_named_as_unused() -> None:
    assert unused_fields(stream(worker={"tuning": {"queueBytes": "8Mi"}})) == []
    assert unused_fields(
        stream(
            kafka=SECRET,
            storage={"storageClassName": "gp3"},
            snapshots={"provider": "CSI", "schedule": "@daily"},
            failover={"nodeNotReadyAfter": "60s"},
            worker={"image": "x", "resources": {"limits": {"memory": "1Gi"}}},
            repartition={"partitions": 2, "routers": {"resources": {"limits": {"cpu": 1}}}},
        )
    ) == [
        "spec.kafka.configSecretRef",
        "spec.storage",
        "spec.snapshots",
        "spec.failover",
        "spec.worker.image",
        "spec.worker.resources",
        "spec.repartition.routers.resources",
    ]


def test_a_stream_is_told_in_one_line() -> None:
    line = summary(stream(id={"from": "Header", "name": "message-id"}))

    assert line == (
        "shop/orders: orders → orders-clean, id from Header message-id, "
        "window 28d or 8Gi, mode Enforce"
    )


def test_a_stream_with_routers_is_told_with_its_partitions() -> None:
    line = summary(stream(input={"topics": ["a", "b"]}, repartition={"partitions": 6}))

    assert line.startswith("shop/orders: a, b → orders-clean (6 partitions by Id), id from Key, ")


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"slots": 1_000_000}, "table of 1,000,000 slots"),
        ({"memory": "1Gi"}, "table of 1Gi"),
        ({"messages": 3_600_000, "retain": 0.9}, "table that retains 0.9 for 3,600,000 messages"),
    ],
)
def test_a_table_of_fixed_size_is_told_as_it_was_asked_for(
    table: dict[str, Any], expected: str
) -> None:
    line = summary(stream(store={"type": "InverseBloom", "inverseBloom": table}))
    assert line.endswith(f"id from Key, {expected}, mode Enforce")


@pytest.mark.parametrize(
    ("servers", "port"),
    [
        ("localhost:9092", 9092),
        ("127.0.0.1:19092", 19092),
        ("kafka:9092", None),
        ("localhost:9092,localhost:9093", None),
    ],
)
def test_the_embedded_broker_takes_the_manifests_port_if_it_is_on_this_machine(
    servers: str, port: int | None
) -> None:
    assert embedded_port(servers) == port
