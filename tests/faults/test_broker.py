"""The broker dies, is down or hangs, and the worker survives it."""

import os
import signal
from collections.abc import Callable, Iterator
from http import HTTPStatus

import pytest

from dedupe_crds.status.exit_code import ExitCode
from dedupe_local.servers.kafka import EmbeddedBroker
from tests.faults.seed import SEED
from tests.support.crashes.aftermath import (
    assert_undisturbed,
    failures,
    fault_met,
    finish,
    judged,
    logged,
    wait_until_frozen,
    wait_until_passed,
)
from tests.support.crashes.inner_crashes import FaultWorkers, InnerCrash, Point
from tests.support.layers import matrix
from tests.support.patience import pace, wait_for
from tests.support.processes.brokers import MORTAL_SESSION_SECONDS, mortal_broker
from tests.support.processes.forked import STOP_SECONDS
from tests.support.processes.processes import WorkerProcess
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import PacedProducer, retries

CreateStream = Callable[..., TestStream]

RECORDS = 10_000
SMALL_TRANSACTIONS = {"tuning": {"maxBatchRecords": 500, "maxTransactionRecords": 1_000}}
HANGS_SECONDS = MORTAL_SESSION_SECONDS + 5.0
STUCK_SECONDS = 3.0
PRODUCT_STOP_SECONDS = 9.0
SOON_SECONDS = 30.0
LAST_LINES = 40


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """Run a broker that these tests may kill."""
    with mortal_broker(tmp_path_factory.mktemp("mortal-broker")) as running:
        yield running


@pytest.fixture(autouse=True)
def back_again(broker: EmbeddedBroker, topics: Callable[..., str]) -> Iterator[None]:  # noqa: ARG001 # ends after this
    """Ensure a running broker when `topics` deletes its topics; print its last words, which a failure shows."""
    yield
    print(*broker.log_path.read_text().splitlines()[-LAST_LINES:], sep="\n")
    if broker.running:
        os.kill(broker.pid, signal.SIGCONT)
    else:
        broker.start()


def wait_until_unready(worker: WorkerProcess, reason: str) -> None:
    """Wait until it is not ready, long before a call to the broker times out."""

    def unready() -> bool:
        answer = worker.readiness()
        return (
            answer.http_status == HTTPStatus.SERVICE_UNAVAILABLE and answer.body["reason"] == reason
        )

    worker.wait_until(unready, f"it is not ready for {reason}", deadline_seconds=SOON_SECONDS)


def fail_broker_in_commit(
    stream: TestStream,
    workers: FaultWorkers,
    broker: EmbeddedBroker,
    *,
    fault: signal.Signals = signal.SIGSTOP,
    point: Point = Point.OFFSETS_SENT,
    stuck_seconds: float | None = None,
) -> WorkerProcess:
    """Start a worker whose broker hangs or dies in the midst of a commit."""
    worker = workers.start_towards(
        stream,
        InnerCrash(
            point=point,
            time=3,
            signal=fault,
            pid=broker.pid,
            stuck_seconds=stuck_seconds,
        ),
    )
    if fault is signal.SIGSTOP:
        wait_until_frozen(broker.pid)
    else:
        wait_for(lambda: not broker.running, "the broker is dead")
    return worker


@pytest.mark.proof
def test_a_broker_killed_in_the_midst_of_traffic(
    streams: CreateStream, workers: FaultWorkers, broker: EmbeddedBroker
) -> None:
    stream = streams()
    worker = workers.start(stream)
    worker.wait_until_ready()
    messages = list(retries(SEED, RECORDS, value_bytes=100))
    with PacedProducer(
        stream.bootstrap_servers, stream.input_topic, messages, messages_per_second=1_000
    ) as producer:
        for part in (1, 2):
            worker.wait_until(
                lambda part=part: stream.progress().get(0, 0) > part * RECORDS // 4,  # type: ignore[misc] # bound now
                "some is passed on",
            )
            broker.kill()
            broker.start()
        producer.finish()
    wait_until_passed(stream, worker)
    judged(stream)
    assert worker.sigterm() == ExitCode.OK


def test_a_worker_waits_for_a_broker_that_is_away(
    streams: CreateStream, workers: FaultWorkers, broker: EmbeddedBroker
) -> None:
    """It reports that, keeps running, and resumes automatically."""
    stream = streams()
    messages = list(retries(SEED, RECORDS, value_bytes=100))
    stream.send(messages[: RECORDS // 2])
    worker = workers.start(stream)
    wait_until_passed(stream, worker)
    broker.kill()
    wait_until_unready(worker, "BrokerUnavailable")
    assert worker.get("/healthz").status_code == HTTPStatus.OK
    broker.start()
    worker.wait_until_ready()
    stream.send(messages[RECORDS // 2 :])
    wait_until_passed(stream, worker)
    judged(stream)
    assert worker.sigterm() == ExitCode.OK


@pytest.mark.matrix
def test_a_worker_started_without_a_broker_begins_when_it_comes(
    streams: CreateStream, workers: FaultWorkers, broker: EmbeddedBroker
) -> None:
    stream = streams()
    stream.send(retries(SEED, RECORDS, value_bytes=100))
    broker.kill()
    worker = workers.start(stream)
    worker.endpoint()  # how soon it starts is another matter
    wait_until_unready(worker, "BrokerUnavailable")
    worker.wait_until(lambda: logged(worker, "session failed"), "it has tried in vain")
    wait_until_unready(worker, "BrokerUnavailable")
    broker.start()
    worker.wait_until_ready()
    wait_until_passed(stream, worker)
    judged(stream)


@pytest.mark.matrix
def test_a_coordinator_that_hangs_during_a_commit(
    streams: CreateStream, workers: FaultWorkers, broker: EmbeddedBroker
) -> None:
    stream = streams(worker=SMALL_TRANSACTIONS)
    stream.send(retries(SEED, RECORDS, value_bytes=100))
    worker = fail_broker_in_commit(stream, workers, broker)
    pace(HANGS_SECONDS)
    assert worker.is_running
    os.kill(broker.pid, signal.SIGCONT)
    wait_until_passed(stream, worker)
    judged(stream)
    assert fault_met(worker)["point"] == Point.OFFSETS_SENT


def test_a_client_that_stops_fetching_is_replaced(
    streams: CreateStream, workers: FaultWorkers
) -> None:
    """This imitates librdkafka after a partition had no leader: no fetch, no error."""
    stream = streams(worker=SMALL_TRANSACTIONS)
    stream.send(retries(SEED, RECORDS, value_bytes=100))
    worker = workers.start_towards(stream, InnerCrash(point=Point.READING, time=3, signal=0))
    wait_until_passed(stream, worker)
    judged(stream)
    assert fault_met(worker)["point"] == Point.READING
    assert_undisturbed(worker)
    assert [failure for failure in failures(worker) if "nothing of" in failure["error"]]


@pytest.mark.parametrize("point", [matrix(Point.RECORDS_SENT), Point.OFFSETS_SENT])
def test_a_broker_that_dies_during_a_commit(
    streams: CreateStream, workers: FaultWorkers, broker: EmbeddedBroker, point: Point
) -> None:
    """Offset or commit never reach the broker, and the worker must not lose the records."""
    stream = streams(worker=SMALL_TRANSACTIONS)
    stream.send(retries(SEED, RECORDS, value_bytes=100))
    worker = fail_broker_in_commit(stream, workers, broker, fault=signal.SIGKILL, point=point)
    wait_until_unready(worker, "BrokerUnavailable")
    broker.kill()  # for it to be waited for
    broker.start()
    wait_until_passed(stream, worker)
    judged(stream)
    assert fault_met(worker)["point"] == point


def test_a_worker_whose_loop_hangs_is_ended_as_stuck(
    streams: CreateStream, workers: FaultWorkers, broker: EmbeddedBroker
) -> None:
    """The watchdog does not wait for librdkafka; its limit is made short."""
    stream = streams(worker=SMALL_TRANSACTIONS)
    stream.send(retries(SEED, RECORDS, value_bytes=100))
    worker = fail_broker_in_commit(stream, workers, broker, stuck_seconds=STUCK_SECONDS)
    assert worker.wait_until_ended() == ExitCode.STUCK
    [end] = logged(worker, "worker is ended")
    assert "no progress" in end["why"]
    os.kill(broker.pid, signal.SIGCONT)
    finish(stream, workers)
    judged(stream)


@pytest.mark.parametrize("how", [matrix("killed while the worker is idle"), "hanging in a commit"])
def test_a_worker_told_to_stop_does_not_wait_for_a_broker_that_is_away(
    streams: CreateStream,
    workers: FaultWorkers,
    broker: EmbeddedBroker,
    how: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(STOP_SECONDS, str(PRODUCT_STOP_SECONDS))
    stream = streams(worker=SMALL_TRANSACTIONS)
    messages = list(retries(SEED, RECORDS, value_bytes=100))
    stream.send(messages)
    if how == "hanging in a commit":
        worker = fail_broker_in_commit(stream, workers, broker)
        assert worker.sigterm() == ExitCode.FAILED
        [end] = logged(worker, "worker is ended")
        assert "did not stop in time" in end["why"]
        os.kill(broker.pid, signal.SIGCONT)
    else:
        worker = workers.start(stream)
        wait_until_passed(stream, worker)
        broker.kill()
        wait_until_unready(worker, "BrokerUnavailable")
        assert worker.sigterm() == ExitCode.OK
        broker.start()
    stream.send(messages)
    finish(stream, workers)
    judged(stream)
