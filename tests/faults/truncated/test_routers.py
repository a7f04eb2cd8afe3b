"""An input of routers loses its tail, as after a power loss, and other records come in its place."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from dedupe_local.servers.kafka import EmbeddedBroker
from tests.faults.truncated.records import accept, messages, passed
from tests.support.processes.brokers import losing
from tests.support.processes.processes import Workers
from tests.support.processes.routers import RoutedStream, RouterProcess, Routers

CreateStream = Callable[..., RoutedStream]

KEPT, LOST, NEW = 60, 40, 70
READ = KEPT + LOST


def wait_until_truncated(router: RouterProcess, *words: str) -> None:
    def is_so() -> bool:
        try:
            status = router.status()
        except httpx.TransportError:
            return False
        said = status.message or ""
        return status.reason == "InputTruncated" and all(word in said for word in words)

    router.wait_until(is_so, f"it says InputTruncated, {words}")


def numbers(*ranges: range) -> Counter[bytes]:
    return Counter(b"%d" % n for each in ranges for n in each)


@pytest.mark.parametrize("running", [True, False], ids=["running", "stopped"])
def test_a_lost_tail_holds_its_partition_for_a_person_and_skips_nothing(
    broker: EmbeddedBroker,
    routed_streams: CreateStream,
    routers: Routers,
    workers: Workers,
    tmp_path: Path,
    *,
    running: bool,
) -> None:
    stream = routed_streams(
        inputs=(2,), partitions=1, delivery="ExactlyOnce" if running else "AtLeastOnce"
    )
    (raw,) = stream.inputs
    worker = workers.start(stream)
    stream.send_to(raw, messages(KEPT, 0))
    place = {"topic": raw, "partition": 0, "offset": KEPT}
    with losing(broker, raw, tmp_path) as lose:
        stream.send_to(raw, messages(LOST, KEPT))
        router = routers.start(stream)
        stream.wait_until_routed()
        if not running:
            assert router.sigterm() == 0
        lose()
        # The last of the lost ids are sent again: their first copies are in the output.
        stream.send_to(raw, [*messages(NEW, READ), *messages(5, READ - 5)])
    stream.send_to(raw, messages(200, 1000, partition=1))
    if not running:
        router = routers.start(stream)
    wait_until_truncated(router, f"{raw}/0", f"offset {KEPT}", f"up to offset {READ}")
    router.wait_until(lambda: stream.routed()[raw].get(1) == 200, "the other partition goes on")
    assert stream.routed()[raw].get(0) == READ
    assert router.sigterm() == 0

    accept(stream, "input", {**place, "offset": KEPT - 1, "epoch": 2})  # of another one
    router = routers.start(stream)
    wait_until_truncated(router, "epoch: 2")
    assert router.sigterm() == 0

    accept(stream, "input", {**place, "epoch": 2})
    router = routers.start(stream)
    stream.wait_until_routed()
    router.wait_until_ready()
    assert f"{raw}/0" in router.status().warnings["InputTruncated"]
    stream.wait_until_read([worker])
    assert passed(stream) == numbers(range(READ + NEW), range(1000, 1200))
    assert router.sigterm() == 0

    # It counts once: what was accepted does not hold, or report, a later start.
    router = routers.start(stream)
    stream.send_to(raw, messages(1, READ + NEW))
    stream.wait_until_routed()
    router.wait_until_ready()
    assert "InputTruncated" not in router.status().warnings
    stream.wait_until_read([worker])
    assert passed(stream) == numbers(range(READ + NEW + 1), range(1000, 1200))
