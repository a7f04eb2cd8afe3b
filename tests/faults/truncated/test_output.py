"""The output loses its tail, as after a power loss, and other records come in its place."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from dedupe_crds.status.worker import DegradedReason
from dedupe_local.servers.kafka import EmbeddedBroker
from tests.faults.truncated.records import accept, messages, passed
from tests.support.processes.brokers import losing
from tests.support.processes.processes import WorkerProcess, Workers
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import produce

CreateStream = Callable[..., TestStream]

KEPT, LOST, OTHERS = 60, 40, 70
WRITTEN = KEPT + LOST


def finding(worker: WorkerProcess) -> DegradedReason:
    def found() -> list[DegradedReason]:
        return [each for each in worker.status().degraded if each.reason == "OutputTruncated"]

    worker.wait_until(lambda: bool(found()), "the status says OutputTruncated")
    (only,) = found()
    return only


@pytest.mark.parametrize("others", [0, OTHERS], ids=["cut", "grown"])
@pytest.mark.parametrize("running", [True, False], ids=["running", "stopped"])
def test_a_lost_tail_is_named_and_what_was_lost_passes_when_it_is_sent_again(
    broker: EmbeddedBroker,
    streams: CreateStream,
    workers: Workers,
    tmp_path: Path,
    *,
    running: bool,
    others: int,
) -> None:
    stream = streams(delivery="ExactlyOnce" if others else "AtLeastOnce")
    stream.send(messages(KEPT, 0))
    worker = workers.start(stream)
    worker.wait_until_caught_up()
    with losing(broker, stream.output_topic, tmp_path) as lose:
        worker.wait_until_ready()
        stream.send(messages(LOST, KEPT))
        worker.wait_until_caught_up()
        if not running:
            worker.sigterm()
        lose()
        produce(stream.bootstrap_servers, stream.output_topic, messages(others, 500))
    stream.send(messages(WRITTEN + 5, 0))
    if not running:
        worker = workers.start(stream)
    told = finding(worker)
    assert f"{stream.output_topic}/0" in told.message
    # What a running worker dropped before it noticed is sent again as well.
    stream.send(messages(WRITTEN + 5, 0))
    worker.wait_until_caught_up()
    expected = {b"%d" % n for n in [*range(WRITTEN + 5), *range(500, 500 + others)]}
    assert passed(stream) == Counter(expected)
    worker.sigterm()

    worker = workers.start(stream)
    assert finding(worker).message == told.message, "until a person has seen it"
    worker.sigterm()

    accept(stream, "output", yaml.safe_load(told.message[told.message.rindex("{") :]))
    worker = workers.start(stream)
    worker.wait_until_ready()
    assert not [each for each in worker.status().degraded if each.reason == "OutputTruncated"]
