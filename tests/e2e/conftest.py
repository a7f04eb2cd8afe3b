"""What end-to-end tests may ask for: a cluster with our chart, a namespace, streams in it."""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster import chart, environment
from tests.cluster.environment import Environment
from tests.e2e.support.copied import bucket_server
from tests.e2e.support.dump import directory_of, dump
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.namespaces import SMALL, make_namespace
from tests.e2e.support.operators import chart_at_rest
from tests.e2e.support.s3_server import S3Server
from tests.e2e.support.scene import Scene, scene
from tests.e2e.support.stream import ClusterStream
from tests.support.fixtures import HOLDS_ANYTHING
from tests.support.traffic.streams import stream_manifest

CreateStream = Callable[..., ClusterStream]

_FAILED = pytest.StashKey[bool]()


@dataclass(frozen=True)
class GivenBroker:
    """The broker that runs beside the cluster; nothing here starts or stops it."""

    bootstrap_servers: str


@pytest.fixture(scope="session")
def cluster() -> Environment:
    """How the cluster is reached. Without a cluster every test is an error."""
    return environment.current()


@pytest.fixture(scope="session")
def broker(cluster: Environment) -> GivenBroker:
    """The broker that `topics` are made on, as this machine reaches it."""
    return GivenBroker(cluster.kafka_bootstrap)


@pytest.fixture(scope="session")
def release(cluster: Environment) -> Environment:
    """The cluster, with the chart of this tree installed in it."""
    chart.install(cluster)
    return cluster


@pytest.fixture
def kubectl(release: Environment) -> Kubectl:
    """kubectl without a namespace; see `namespace` and `Kubectl.within`."""
    return Kubectl(release)


@pytest.fixture
def namespace(
    request: pytest.FixtureRequest,
    kubectl: Kubectl,
) -> Iterator[str]:
    """A namespace of the test's own that enforces the restricted Pod Security Standard.

    It is deleted at the end. If the test has failed, what was in it is in build/e2e/<test>/.
    """
    name = make_namespace(kubectl, request.node.name.removeprefix("test_"))
    yield name
    if request.node.stash.get(_FAILED, False):
        dump(kubectl, name, directory_of(request.node.name))
    # Not waited for: what takes time are its volumes, and other tests can go on meanwhile.
    kubectl("delete", "namespace", name, "--ignore-not-found", "--wait=false")


@pytest.fixture
def streams(
    release: Environment,
    namespace: str,
    topics: Callable[..., str],
    kubectl: Kubectl,
    tmp_path: Path,
) -> CreateStream:
    """Create streams: `streams(partitions=4, mode="Observe").apply()`.

    Both topics are new. `input` and `output` are settings of theirs; the rest is the manifest's,
    see `stream_manifest`.
    """

    def create(
        *,
        partitions: int = 1,
        input: dict[str, object] | None = None,  # noqa: A002 # the manifest's word
        output: dict[str, object] | None = None,
        **spec: object,
    ) -> ClusterStream:
        raw = topics("raw", partitions, **{**HOLDS_ANYTHING, **(input or {})})
        clean = topics("clean", partitions, **{**HOLDS_ANYTHING, **(output or {})})
        written = stream_manifest(
            tmp_path, release.kafka_bootstrap_in_cluster, raw, clean, **{**SMALL, **spec}
        )
        return ClusterStream(
            name=written.name,
            namespace=namespace,
            bootstrap_servers=release.kafka_bootstrap,
            input_topic=raw,
            output_topic=clean,
            manifest=written.manifest,
            kubectl=kubectl.within(namespace),
            partitions=partitions,
        )

    return create


@pytest.fixture
def alone(kubectl: Kubectl) -> Iterator[None]:
    """Have the chart's operator rest during a test."""
    with chart_at_rest(kubectl):
        yield


@pytest.fixture(scope="module")
def place(
    release: Environment, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Scene]:
    """A namespace, and streams in it, that all tests of a module share; named after the module."""
    title = request.module.__name__.rpartition(".test_")[2].replace("_", "-")
    with scene(release, title, tmp_path_factory.mktemp(title), request) as made:
        yield made


@pytest.fixture(scope="module")
def bucket(release: Environment) -> Iterator[S3Server]:
    """A service that speaks S3, with a bucket, where pods reach it."""
    with bucket_server(release) as server:
        yield server


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember that a test has failed, for the fixtures that clean up after it."""
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report
