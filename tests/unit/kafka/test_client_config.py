"""The configuration of the worker's Kafka clients."""

from pathlib import Path

import pytest

from dedupe_crds.spec.stream import DedupeStream
from dedupe_kafka.client_config import consumer_config, producer_config
from dedupe_kafka.errors import InvalidConfig
from dedupe_worker.config import WorkerConfig
from dedupe_worker.store.state_dir import StateDirectory
from tests.unit.crds.manifests import MINIMAL

SECRET = "hunter2-is-the-password"  # noqa: S105 # nobody's


def test_a_configuration_does_not_show_its_secrets(tmp_path: Path) -> None:
    config = WorkerConfig(
        stream=DedupeStream.model_validate(MINIMAL),
        partition=0,
        state=StateDirectory(tmp_path),
        properties={"sasl.password": SECRET},
    )
    assert SECRET not in repr(config) + str(config)


def test_properties_can_tune_a_client_and_not_undo_what_it_needs() -> None:
    properties = {"linger.ms": "7", "client.id": "me", "queued.max.messages.kbytes": "9"}
    consumer = consumer_config("here:1", properties, group="g", queue_bytes=8 << 20)
    producer = producer_config(
        "here:1",
        properties,
        transactional_id="t",
        queue_bytes=8 << 20,
        largest_batch_bytes=1 << 20,
    )
    assert consumer["client.id"] == producer["client.id"] == "me"
    assert producer["linger.ms"] == "7"
    assert consumer["queued.max.messages.kbytes"] == 8192
    assert consumer["isolation.level"] == "read_committed"


def test_only_without_transactions_a_producer_need_not_be_idempotent() -> None:
    """Then order and durability are asked for by themselves."""
    plain = {"enable.idempotence": "false"}

    def made(transactional_id: str | None) -> dict[str, object]:
        return producer_config(
            "b:1",
            plain,
            transactional_id=transactional_id,
            queue_bytes=1 << 20,
            largest_batch_bytes=1 << 20,
        )

    producer = made(None)
    assert (producer["enable.idempotence"], producer["acks"], producer["max.in.flight"]) == (
        False,
        "all",
        1,
    )
    with pytest.raises(InvalidConfig, match="AtLeastOnce"):
        made("t")
