"""Amazon EC2's protocol, spoken by moto's server, behind a proxy that a test may make fail."""

from collections.abc import Iterator

import pytest
from moto.server import ThreadedMotoServer

from tests.component.operator.ebs.scene import AwsScene, ClientTokens
from tests.support.processes.faulty_proxy import proxying
from tests.support.snapshots.aws_models import parse_once
from tests.unit.operator.conftest import scene

__all__ = ["scene"]

parse_once()


@pytest.fixture(scope="session")
def ec2_server() -> Iterator[str]:
    """The address of moto's server."""
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def aws(ec2_server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[AwsScene]:
    """A stream of two partitions on volumes of Amazon EBS, of which no snapshot was made yet."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    with proxying(ec2_server, behind=ClientTokens()) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL_EC2", proxy.url)
        yield AwsScene(ec2_server, proxy)
