"""A release that is upgraded and rolled back with helm, while its streams have messages."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pytest

from tests.cluster.environment import Environment
from tests.e2e.support.live_load import LiveLoad
from tests.e2e.support.releases import Release, Values, previous_chart
from tests.e2e.support.scene import Scene
from tests.e2e.support.stream import ClusterStream
from tests.faults.seed import SEED

pytestmark = [pytest.mark.alone, pytest.mark.matrix]

PARTITIONS = 2
_DEFAULT_REGISTRY = "docker.io"


@pytest.fixture(name="main_release")
def _main_release(release: Environment) -> Iterator[Release]:
    """The release of the cluster's operator, restored at the end."""
    main = Release(release)
    with main.restored():
        yield main


def test_an_upgrade_and_its_rollback_change_each_worker_once_and_cost_no_message(
    main_release: Release, place: Scene
) -> None:
    newer = main_release.values()
    older = renamed(newer)
    packed = main_release.package(previous_chart(place.directory), place.directory)
    main_release.upgrade(packed, older)
    streams = [place.stream(title, partitions=PARTITIONS) for title in ("first", "second")]
    for stream in streams:
        stream.apply()
    wait_until_run_by(streams, older)
    before = generations(streams)

    with ExitStack() as block:
        loads = [block.enter_context(LiveLoad(stream, SEED)) for stream in streams]
        main_release.upgrade(values={name: newer[name] for name in older})
        wait_until_run_by(streams, newer)
        upgraded = generations(streams)
        for load in loads:
            load.begin("after the upgrade")
        main_release.roll_back()
        wait_until_run_by(streams, older)
        for load in loads:
            load.begin("after the rollback")
        for load in loads:
            load.wait_until_filled()
    for load in loads:
        load.judged()

    assert upgraded == {name: generation + 1 for name, generation in before.items()}
    assert generations(streams) == {name: each + 2 for name, each in before.items()}


def renamed(values: Values) -> dict[str, Mapping[str, object]]:
    """The same images by another name, which makes them those of another version for the operator."""
    image, worker = values["image"], values["worker"]["image"]
    for repository in (image["repository"], worker["repository"]):
        if "." in repository.partition("/")[0]:
            pytest.skip("the images have a registry of their own, so they have one name only")
    return {
        "image": {**image, "repository": f"{_DEFAULT_REGISTRY}/{image['repository']}"},
        "worker": {
            "image": {**worker, "repository": f"{_DEFAULT_REGISTRY}/{worker['repository']}"}
        },
    }


def wait_until_run_by(streams: list[ClusterStream], values: Values) -> None:
    """Wait until all workers run with the image of a release, and are ready."""
    image = values["worker"]["image"]
    wanted = f"{image['repository']}:{image['tag']}"

    for stream in streams:
        stream.wait_until(
            lambda: images_of(stream) == [wanted] * PARTITIONS,  # noqa: B023 # called at once
            f"the workers have {wanted}",
        )
    for stream in streams:
        stream.wait_until_ready()


def images_of(stream: ClusterStream) -> list[str]:
    """The images of the workers."""
    return [pod["spec"]["containers"][0]["image"] for pod in stream.children("pods")]


def generations(streams: list[ClusterStream]) -> dict[str, int]:
    """Return the generation of each StatefulSet."""
    return {
        one["metadata"]["name"]: one["metadata"]["generation"]
        for stream in streams
        for one in stream.children("statefulsets")
    }
