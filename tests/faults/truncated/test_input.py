"""The input loses its tail, as after a power loss, and other records come in its place."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from dedupe_local.servers.kafka import EmbeddedBroker
from tests.faults.truncated.records import accept, messages, passed
from tests.support.processes.brokers import losing
from tests.support.processes.processes import WorkerProcess, Workers
from tests.support.traffic.streams import TestStream

CreateStream = Callable[..., TestStream]

KEPT, LOST, NEW = 60, 40, 70
READ = KEPT + LOST


def wait_until_truncated(worker: WorkerProcess, *words: str) -> None:
    def is_so() -> bool:
        try:
            readiness = worker.readiness()
        except httpx.TransportError:
            return False
        message = readiness.body["message"] or ""
        return readiness.body["reason"] == "InputTruncated" and all(
            word in message for word in words
        )

    worker.wait_until(is_so, f"/readyz says InputTruncated, {words}")


@pytest.mark.parametrize("running", [True, False], ids=["running", "stopped"])
def test_a_lost_tail_waits_for_a_person_and_skips_nothing(
    broker: EmbeddedBroker,
    streams: CreateStream,
    workers: Workers,
    tmp_path: Path,
    *,
    running: bool,
) -> None:
    stream = streams(delivery="ExactlyOnce" if running else "AtLeastOnce")
    stream.send(messages(KEPT, 0))
    place = {"topic": stream.input_topic, "partition": 0, "offset": KEPT}
    with losing(broker, stream.input_topic, tmp_path) as lose:
        stream.send(messages(LOST, KEPT))
        worker = workers.start(stream)
        worker.wait_until_caught_up()
        if not running:
            worker.sigterm()
        lose()
        # The last of the lost ids are sent again: their first copies are in the output.
        stream.send([*messages(NEW, READ), *messages(5, READ - 5)])
    if not running:
        worker = workers.start(stream)
    wait_until_truncated(
        worker, f"{stream.input_topic}/0", f"offset {KEPT}", f"up to offset {READ}"
    )
    assert passed(stream).total() == READ
    worker.sigterm()

    accept(stream, "input", {**place, "offset": KEPT - 1, "epoch": 2})  # of another one
    worker = workers.start(stream)
    wait_until_truncated(worker, "epoch: 2")
    worker.sigterm()

    accept(stream, "input", {**place, "epoch": 2})
    worker = workers.start(stream)
    worker.wait_until_caught_up()
    assert passed(stream) == Counter(b"%d" % n for n in range(READ + NEW))
    (finding,) = [each for each in worker.status().degraded if each.reason == "InputTruncated"]
    assert finding.count == 1
    worker.sigterm()

    # It counts once: what was accepted does not stop, or report, a later start.
    worker = workers.start(stream)
    stream.send(messages(1, READ + NEW))
    worker.wait_until_caught_up()
    worker.wait_until_ready()
    assert passed(stream) == Counter(b"%d" % n for n in range(READ + NEW + 1))
    assert not [each for each in worker.status().degraded if each.reason == "InputTruncated"]
