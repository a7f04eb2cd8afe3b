"""An epoch log that was deleted: controller, router and worker name it, and continue with a copy."""

from collections.abc import Callable
from functools import partial

import pytest

from dedupe_crds.manifest import load_manifest
from dedupe_growth.controller import GrowthController
from dedupe_growth.log import EpochLogMissing
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.epochs_topic import epochs_topic
from tests.support.checker import history
from tests.support.checker.record import Message
from tests.support.patience import patience_clock
from tests.support.processes.processes import WorkerProcess, Workers
from tests.support.processes.routers import RoutedStream, RouterProcess, Routers
from tests.support.traffic.topic_changes import delete_topic
from tests.support.traffic.traffic import produce

CreateStream = Callable[..., RoutedStream]

# The client says nothing of it for 30 s.
AT_ONCE_SECONDS = 10.0


def names_log(process: RouterProcess | WorkerProcess, log: str) -> bool:
    """Return whether the status of a process names the log as missing."""
    status = process.status()
    return status.reason == "EpochLogMissing" and f"{log} does not exist" in (status.message or "")


def test_a_deleted_log_is_named_at_once(
    routed_streams: CreateStream, routers: Routers, workers: Workers
) -> None:
    stream = routed_streams(inputs=(1,), partitions=1)
    servers, log = stream.bootstrap_servers, epochs_topic(stream.output_topic)
    copy = history.read_topic(servers, log)
    delete_topic(stream, log)
    controller = GrowthController(load_manifest(stream.manifest), {}, Cluster(servers))
    began = patience_clock()
    with pytest.raises(EpochLogMissing, match=f"{log} does not exist"):
        controller.read()
    assert patience_clock() - began < AT_ONCE_SECONDS

    router, worker = routers.start(stream), workers.start(stream, 0)
    for process in (router, worker):
        names = partial(names_log, process, log)
        process.wait_until(names, "it names the log", deadline_seconds=2 * AT_ONCE_SECONDS)

    Cluster(servers).create(log, 1, 1, {"cleanup.policy": "compact"})
    produce(servers, log, [Message(0, each.key, each.value) for each in copy])
    router.wait_until_ready()
    worker.wait_until_ready()
    assert controller.read().switched == 0
