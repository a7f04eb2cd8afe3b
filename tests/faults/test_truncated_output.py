"""The output loses its tail, as after a power loss, and other records come in its place."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from dedupe_crds.status.worker import DegradedReason
from dedupe_local.servers.kafka import EmbeddedBroker
from tests.support.checker.record import Message
from tests.support.processes.brokers import losing, mortal_broker
from tests.support.processes.processes import WorkerProcess, Workers
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import produce

CreateStream = Callable[..., TestStream]

KEPT, LOST, OTHERS = 60, 40, 70
WRITTEN = KEPT + LOST


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """Run a broker whose logs these tests may cut."""
    with mortal_broker(tmp_path_factory.mktemp("cut-broker")) as running:
        yield running


def messages(count: int, first: int) -> list[Message]:
    return [Message(0, b"%d" % (first + n), b"amount-%d" % (first + n)) for n in range(count)]


def finding(worker: WorkerProcess) -> DegradedReason:
    def found() -> list[DegradedReason]:
        return [each for each in worker.status().degraded if each.reason == "OutputTruncated"]

    worker.wait_until(lambda: bool(found()), "the status says OutputTruncated")
    (only,) = found()
    return only


def accept(stream: TestStream, text: str) -> None:
    """Add the entry that a finding's text ends with to the manifest."""
    document = yaml.safe_load(stream.manifest.read_text())
    document["spec"]["output"]["acceptTruncated"] = [yaml.safe_load(text[text.rindex("{") :])]
    stream.manifest.write_text(yaml.safe_dump(document))


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
    assert Counter(record.key for record in stream.clean()) == Counter(expected)
    worker.sigterm()

    worker = workers.start(stream)
    assert finding(worker).message == told.message, "until a person has seen it"
    worker.sigterm()

    accept(stream, told.message)
    worker = workers.start(stream)
    worker.wait_until_ready()
    assert not [each for each in worker.status().degraded if each.reason == "OutputTruncated"]
