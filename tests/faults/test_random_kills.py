"""Workers are killed repeatedly, at random moments, during traffic."""

import random
from collections.abc import Callable

import pytest

from tests.faults.seed import SEED
from tests.support.crashes.aftermath import finish, judged, logged
from tests.support.crashes.inner_crashes import FaultWorkers
from tests.support.layers import matrix
from tests.support.processes.processes import WorkerProcess
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import PacedProducer, retries

CreateStream = Callable[..., TestStream]

PARTITIONS = 2
RATE = 600.0
# More than are sent before the last kill, however slow the machine is.
MOST_RECORDS = 600_000


def let_live(worker: WorkerProcess, rng: random.Random) -> str:
    """Wait until the moment of the next kill; return which it is."""
    moment = rng.choice(("starting", "reconciled", "at work", "at work"))
    if moment == "starting":
        worker.endpoint()
    elif moment == "reconciled":
        worker.wait_until(lambda: logged(worker, "caught up"), moment)
    else:
        stream, partition = worker.stream, worker.partition
        goal = stream.progress().get(partition, 0) + rng.randrange(1, 300)
        worker.wait_until(lambda: stream.progress().get(partition, 0) >= goal, moment)
    return moment


@pytest.mark.proof
@pytest.mark.parametrize("kills", [6, matrix(20)])
def test_random_kills_in_one_run(streams: CreateStream, workers: FaultWorkers, kills: int) -> None:
    rng = random.Random(SEED)
    stream = streams(partitions=PARTITIONS)
    messages = retries(SEED, MOST_RECORDS, partitions=PARTITIONS, value_bytes=100)
    moments = []
    running = [workers.start(stream, partition) for partition in range(PARTITIONS)]
    with PacedProducer(
        stream.bootstrap_servers, stream.input_topic, messages, messages_per_second=RATE
    ) as producer:
        for _ in range(kills):
            partition = rng.randrange(PARTITIONS)
            moments.append(let_live(running[partition], rng))
            assert running[partition].is_running, "nothing but the test ends it"
            running[partition].sigkill()
            running[partition] = workers.start(stream, partition)
        assert producer.delivered < MOST_RECORDS, "traffic went on until the last kill"
    assert len(set(moments)) >= min(3, kills // 3), "of three kinds"
    for worker in running:
        worker.sigkill()
    finish(stream, workers, PARTITIONS)
    verdict = judged(stream)
    assert verdict.expected < producer.delivered, "there were repeats"
