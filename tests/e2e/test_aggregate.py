"""The CronJob of examples/kubernetes/aggregate counts a stream in a real PostgreSQL, each record once."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from dedupe_local.servers.postgres import EmbeddedPostgres
from tests.cluster import environment
from tests.cluster.environment import Environment
from tests.cluster.errors import ClusterError
from tests.cluster.images import PIPELINE, image_name
from tests.cluster.paths import REPOSITORY
from tests.cluster.providers import choose
from tests.e2e.support.kubectl import Object
from tests.e2e.support.scene import Scene
from tests.e2e.support.stream import ClusterStream
from tests.faults.seed import SEED
from tests.support.patience import wait_for
from tests.support.postgres.aggregate_truth import job, messages, truth
from tests.support.postgres.aggregated import check, read_accounts
from tests.support.postgres.server import TestDatabase, new_database, running_postgres

EXAMPLE = REPOSITORY / "examples/kubernetes/aggregate/cronjob.yaml"
NAME = "flights-hourly"
SECRET = "flights-postgres"  # noqa: S105 # its name
MESSAGES = 3_000
BATCH = 500

JOB = job("flights_hourly")


@pytest.fixture(scope="module")
def image(release: Environment) -> str:
    """An image of the pipeline that the nodes have or can pull."""
    if given := os.environ.get("PIPELINE_IMAGE"):
        return given
    ours = environment.load()
    if ours is None or ours.kubeconfig != release.kubeconfig:
        raise ClusterError(
            "KUBECONFIG names a cluster of your own, and PIPELINE_IMAGE must be set as well: an image (make images "
            "PARTS=pipeline) that its nodes have or can pull."
        )
    choose().load_images([PIPELINE])
    return image_name(PIPELINE)


@pytest.fixture(scope="module")
def server(release: Environment) -> Iterator[EmbeddedPostgres]:
    """A PostgreSQL that pods reach, on the address by which they reach Kafka."""
    host, _, _ = release.kafka_bootstrap_in_cluster.rpartition(":")
    with running_postgres(host) as running:
        yield running


@pytest.fixture(scope="module")
def stream(place: Scene) -> ClusterStream:
    made = place.stream("flights", partitions=2)
    made.apply()
    return made


@pytest.fixture(scope="module")
def database(
    place: Scene, stream: ClusterStream, server: EmbeddedPostgres, image: str
) -> Iterator[TestDatabase]:
    """What the example's CronJob adds to; its runs are started by the tests alone."""
    made = new_database(server)
    properties = (
        f"host={server.host}\nport={server.port}\nuser=test\npassword={server.password}\n"
        f"dbname={made.name}\n"
    )
    secret = {"postgres.properties": properties}
    place.kubectl.apply(
        *(suited(one, stream, image) for one in yaml.safe_load_all(EXAMPLE.read_text())),
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}, "stringData": secret},
    )
    yield made
    place.kubectl("delete", "cronjobs,jobs", "--all", "--cascade=foreground")


def suited(example: Object, stream: ClusterStream, image: str) -> Object:
    """The example for another namespace, stream, image and job, with less of a small machine."""
    del example["metadata"]["namespace"]
    if example["kind"] == "ConfigMap":
        example["data"] = {
            "aggregate.yaml": yaml.safe_dump({"table": JOB.table, **JOB.definition()})
        }
        return example
    example["spec"]["suspend"] = True
    pod: dict[str, Any] = example["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    container["image"] = image
    container["resources"]["requests"] = {"cpu": "100m", "memory": "512Mi"}
    container["args"] += [f"--max-offsets-per-trigger={BATCH}"]
    # A job of seconds: the last tier of compilation costs more than it saves.
    container["env"] = [
        *container.get("env", []),
        {"name": "JDK_JAVA_OPTIONS", "value": "-XX:TieredStopAtLevel=1"},
    ]
    [config] = (one for one in pod["volumes"] if one["name"] == "config")
    config["configMap"]["name"] = f"{stream.name}-worker"
    return example


def run(place: Scene, name: str) -> None:
    place.kubectl("create", "job", name, f"--from=cronjob/{NAME}")


def pods(place: Scene, name: str) -> list[str]:
    found = place.kubectl.items("pods", f"job-name={name}")
    return [pod["metadata"]["name"] for pod in found]


def wait_until_complete(place: Scene, name: str) -> None:
    place.kubectl.wait_for_job(name)


def counted(database: TestDatabase) -> int:
    if not database.has("dedupestream_offsets"):
        return 0
    return sum(account.records for account in read_accounts(database).values())


def send_twice(stream: ClusterStream, start: int) -> None:
    """Send messages and then the same again, and wait until they are through."""
    for _ in range(2):
        stream.send(messages(SEED, MESSAGES, partitions=stream.partitions, start=start))
    stream.wait_until_passed()


@pytest.mark.matrix  # tests/faults/test_aggregate.py; the image takes long
def test_a_run_whose_pod_is_killed_goes_on_in_another(
    place: Scene, stream: ClusterStream, database: TestDatabase
) -> None:
    stream.wait_until_ready()
    send_twice(stream, start=0)
    run(place, "killed")
    wait_for(lambda: counted(database) or None, "a first batch")
    [first] = pods(place, "killed")
    place.kubectl("delete", "pod", first, "--grace-period=0", "--force")
    at_the_kill = counted(database)
    wait_until_complete(place, "killed")
    assert at_the_kill < MESSAGES, "the pod was killed too late to prove anything"
    assert pods(place, "killed") != [first]
    check(database, JOB, truth(stream.clean(), JOB))


@pytest.mark.matrix
def test_the_next_run_adds_what_came_since(
    place: Scene, stream: ClusterStream, database: TestDatabase
) -> None:
    before = counted(database)  # what another test has counted
    for number, name in enumerate(("earlier", "next"), start=1):
        send_twice(stream, start=number * MESSAGES)
        run(place, name)
        wait_until_complete(place, name)
        assert counted(database) == before + number * MESSAGES
    check(database, JOB, truth(stream.clean(), JOB))
