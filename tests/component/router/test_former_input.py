"""An input that is taken out of the manifest: the stream still grows, and continues with it once it is back."""

from collections.abc import Callable

import pytest
import yaml

from dedupe_crds.manifest import load_manifest
from dedupe_crds.status.growth import GrowthStep
from dedupe_growth.controller import GrowthController
from dedupe_kafka.cluster import Cluster
from tests.support.checker.id_sources import key_id
from tests.support.checker.record import Message
from tests.support.checker.repartitioned import judge_repartitioned
from tests.support.patience import wait_for
from tests.support.processes.processes import Workers
from tests.support.processes.routers import RoutedStream, Routers

CreateStream = Callable[..., RoutedStream]


def messages(ids: range, partitions: int = 2) -> list[Message]:
    return [Message(each % partitions, b"%d" % each, b"value") for each in ids]


def change(stream: RoutedStream, inputs: list[str], partitions: int) -> GrowthController:
    """Change the manifest; return a controller that has it."""
    document = yaml.safe_load(stream.manifest.read_text())
    document["spec"]["input"] = {"topics": inputs}
    document["spec"]["repartition"]["partitions"] = partitions
    stream.manifest.write_text(yaml.safe_dump(document))
    manifest, cluster = load_manifest(stream.manifest), Cluster(stream.bootstrap_servers)
    cluster.ensure_output(manifest)
    return GrowthController(manifest, {}, cluster)


def grow(controller: GrowthController, partitions: int) -> None:
    """Step until the growth is done, as the runner of a stream does."""
    learnt = dict.fromkeys(range(partitions), 0)

    def done() -> bool:
        while controller.step(partitions, learnt):
            pass
        return controller.status is not None and controller.status.step is GrowthStep.DONE

    wait_for(done, "the growth is done", explain=lambda: f"{controller.status}")


def routed(stream: RoutedStream, topic: str) -> dict[int, int]:
    return stream.routed()[topic]


@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_stream_grows_without_an_input_and_continues_with_it_once_it_is_back(
    routed_streams: CreateStream, routers: Routers, workers: Workers, *, exactly_once: bool
) -> None:
    delivery = "ExactlyOnce" if exactly_once else "AtLeastOnce"
    stream = routed_streams(inputs=(2, 2), partitions=2, delivery=delivery)
    stays, goes = stream.inputs
    router = routers.start(stream)
    for topic in stream.inputs:
        stream.send_to(topic, messages(range(100)))
    stream.wait_until_routed()
    assert router.sigterm() == 0
    before = routed(stream, goes)

    controller = change(stream, [stays], 3)
    controller.step(3, {})
    started = [workers.start(stream, each) for each in range(3)]
    router = routers.start(stream)
    stream.send_to(goes, messages(range(50, 150)))
    stream.send_to(stays, messages(range(100, 120)))
    grow(controller, 3)
    assert routed(stream, goes) == before, "nothing of it is routed"
    assert [each.topic for each in router.status().inputs] == [stays]
    assert router.status().warnings == {}
    assert router.sigterm() == 0

    controller = change(stream, [stays, goes], 3)
    while controller.step(3, {}):
        pass
    router = routers.start(stream)
    stream.wait_until_routed()
    assert router.status().counts.routed == 100, "what came while it was out, and nothing twice"
    stream.wait_until_read(started)
    judge_repartitioned(stream.raws(), stream.clean(), key_id).assert_exactly_once(320)
    assert {record.partition for record in stream.clean()} == {0, 1, 2}
