"""A broker that says that it has another's topic: a copy of the other's disk, with the same UUIDs."""

import shutil
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined] # public names
    AdminClient,
    NewTopic,
)

from dedupe_operator.output_conflicts import Conflict, OutputConflicts
from dedupe_operator.topic_watch import TopicWatch
from tests.support.patience import HANG_SECONDS
from tests.support.processes.brokers import mortal_broker
from tests.unit.operator.inline import FakeClock, inline_asks
from tests.unit.operator.objects import stream


@pytest.fixture(scope="module")
def real_and_fake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Run a broker, and one that claims to be it; yield their addresses."""
    path = tmp_path_factory.mktemp("brokers")
    real, fake = mortal_broker(path / "real"), mortal_broker(path / "fake")
    with real:
        admin = AdminClient({"bootstrap.servers": real.bootstrap_servers})
        for future in admin.create_topics(
            [NewTopic(name, 2, 1) for name in ("raw", "clean")]
        ).values():
            future.result(HANG_SECONDS)
    shutil.copytree(real.data_dir / "data", fake.data_dir / "data")
    with real, fake:
        yield real.bootstrap_servers, fake.bootstrap_servers


def find(conflicts: OutputConflicts, namespace: str, servers: str) -> Conflict | None:
    """Do what a pass over a stream does."""
    of = stream(
        {
            "metadata.namespace": namespace,
            "spec.kafka.bootstrapServers": servers,
            "spec.input.topic": "raw",
            "spec.output.topic": "clean",
        }
    )
    view = TopicWatch(inline_asks(FakeClock())).get(of, {})
    assert view.held
    return conflicts.find(of, held=view.held, routed=view.routed)


def test_a_fake_broker_takes_no_topic_from_a_stream(real_and_fake: tuple[str, str]) -> None:
    real, fake = real_and_fake
    conflicts = OutputConflicts()
    assert find(conflicts, "rivals", fake) is None
    found = find(conflicts, "shop", real)
    assert found is not None
    assert (found.problem.reason, found.blocks) == ("OutputTopicClaimed", False)


def test_a_stream_on_the_brokers_of_another_is_blocked(real_and_fake: tuple[str, str]) -> None:
    real, _ = real_and_fake
    conflicts = OutputConflicts()
    assert find(conflicts, "rivals", real) is None
    found = find(conflicts, "shop", real)
    assert found is not None
    assert (found.problem.reason, found.blocks) == ("OutputTopicShared", True)
