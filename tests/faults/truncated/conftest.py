"""The broker of these tests."""

from collections.abc import Iterator

import pytest

from dedupe_local.servers.kafka import EmbeddedBroker
from tests.support.processes.brokers import mortal_broker


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """Run a broker whose logs these tests may cut."""
    with mortal_broker(tmp_path_factory.mktemp("cut-broker")) as running:
        yield running
