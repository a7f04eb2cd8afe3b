"""What connections to Kafka may take of the operator's memory, in one namespace and in all."""

from contextlib import suppress

import pytest

from dedupe_crds.spec.stream import DedupeStream
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.credentials import CredentialsUnusable
from dedupe_operator.kafka_access import KafkaAccess
from tests.unit.operator.objects import stream

MIB = 1 << 20


def of(name: str, namespace: str = "shop", servers: str = "kafka:9092") -> DedupeStream:
    return stream(
        {
            "metadata.name": name,
            "metadata.namespace": namespace,
            "spec.kafka.bootstrapServers": servers,
        }
    )


def secret(number: int, size: int = 100) -> dict[str, bytes]:
    return {"client.properties": b"%d" % number, "ca.crt": bytes(size)}


def refused(access: KafkaAccess, name: str, number: int, namespace: str = "shop") -> str | None:
    with suppress(CredentialsUnusable):
        access.hold(of(name, namespace), secret(number))
        return None
    with pytest.raises(CredentialsUnusable) as error:
        access.hold(of(name, namespace), secret(number))
    assert error.value.reason == "TooManyConnections"
    return str(error.value)


def test_streams_with_one_access_count_once() -> None:
    access = KafkaAccess(4 * MIB)
    assert not any(refused(access, f"orders-{number}", 1) for number in range(100))


def test_a_namespace_gets_half_and_others_are_left_alone() -> None:
    access = KafkaAccess(16 * MIB)
    found = [refused(access, f"orders-{number}", number) for number in range(100)]
    assert found.index(next(filter(None, found))) == 6
    assert "of namespace shop would take more than 8 MiB" in str(found[-1])
    assert "resources.limits.memory" in str(found[-1])
    assert not any(refused(access, f"orders-{number}", number) for number in range(6)), "kept"
    assert not refused(access, "orders", 1000, "billing")
    access.forget(Key("shop", "orders-3"))
    assert not refused(access, "orders-50", 50)
    assert refused(access, "orders-51", 51)


def test_all_namespaces_together_are_bounded() -> None:
    access = KafkaAccess(8 * MIB)
    found = [refused(access, "orders", number, f"tenant-{number}") for number in range(10)]
    assert [bool(each) for each in found] == [False] * 6 + [True] * 4
    assert "of all streams would take more than 8 MiB" in str(found[-1])


def test_large_secrets_and_many_servers_count_for_more() -> None:
    access = KafkaAccess(8 * MIB)
    with pytest.raises(CredentialsUnusable):
        access.hold(of("large"), secret(1, size=MIB))
    with pytest.raises(CredentialsUnusable):
        access.hold(of("wide", servers=",".join(["kafka:9092"] * 20)), secret(1))
    assert not refused(access, "orders", 1), "nothing of a refused one is counted"


def test_a_stream_that_changes_its_secret_is_counted_once() -> None:
    access = KafkaAccess(3 * MIB)
    assert not any(refused(access, "orders", number) for number in range(100))
