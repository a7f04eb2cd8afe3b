"""Transactions: those of other producers, open and aborted, what they write, and the worker's own that expired."""

import signal
from collections.abc import Callable, Sequence
from uuid import uuid4

from confluent_kafka import Consumer, Producer

from dedupe_crds.clock import SYSTEM_CLOCK
from dedupe_crds.status.exit_code import ExitCode
from dedupe_kafka.client_config import consumer_config
from dedupe_kafka.fetch_progress import FetchProgress
from dedupe_local.servers.kafka import EmbeddedBroker
from dedupe_worker.kafka.consumer import PartitionReader
from tests.faults.seed import SEED
from tests.support.checker.record import Message
from tests.support.crashes.aftermath import (
    assert_undisturbed,
    failures,
    finish,
    judged,
    logged,
    passed_and_stopped,
    reconciled,
    wait_until_frozen,
    wait_until_open,
    wait_until_passed,
)
from tests.support.crashes.inner_crashes import FaultWorkers, InnerCrash, Point
from tests.support.patience import HANG_SECONDS
from tests.support.processes.processes import WorkerProcess
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import retries

CreateStream = Callable[..., TestStream]

RECORDS = 3_000
SMALL_TRANSACTIONS = {"tuning": {"maxBatchRecords": 500, "maxTransactionRecords": 1_000}}
ABORTED_BATCHES = 10_000
MOST_STRETCHES = 5
STARVED_SECONDS = 2.0
LEAST_SILENT_READS = 6  # the first takes 0.2 s, the others 0.5 s


def traffic(start: int = 0) -> Sequence[Message]:
    return list(retries(SEED, RECORDS, start=start, value_bytes=100))


def transactional(servers: str, **config: object) -> Producer:
    """Make a foreign producer that has begun a transaction."""
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "transactional.id": f"foreign-{uuid4()}",
            "transaction.timeout.ms": 600_000,
            **config,
        }
    )
    producer.init_transactions(HANG_SECONDS)
    producer.begin_transaction()
    return producer


def send_one(stream: TestStream, key: bytes, producer: Producer | None = None) -> None:
    """Write a record to the output, as another producer."""
    producer = producer or Producer({"bootstrap.servers": stream.bootstrap_servers})
    producer.produce(stream.output_topic, b"foreign", key, 0)
    assert producer.flush(HANG_SECONDS) == 0


def test_an_open_transaction_of_another_producer_costs_no_store(
    streams: CreateStream, workers: FaultWorkers
) -> None:
    """The worker's own records are behind it, and are no sign of a store ahead of the output."""
    stream = streams()
    passed_and_stopped(stream, workers, traffic())
    foreign = transactional(stream.bootstrap_servers)
    send_one(stream, b"never committed", foreign)
    before = workers.start(stream)
    before.wait_until(
        lambda: before.readiness().body["reason"] == "OpenTransaction", "it names what it waits for"
    )
    assert before.sigterm() == ExitCode.OK, "a stop ends the wait"
    foreign.abort_transaction(60)
    running = workers.start(stream)
    running.wait_until_ready()
    foreign.begin_transaction()
    send_one(stream, b"never committed", foreign)
    stream.send(traffic(start=RECORDS))
    ends = stream.ends()
    running.wait_until(lambda: stream.progress() == ends, "its own transactions are committed")
    assert running.sigterm() == ExitCode.OK

    worker = workers.start(stream)
    worker.wait_until(
        lambda: worker.readiness().body["reason"] == "OpenTransaction", "it names what it waits for"
    )
    assert worker.readiness().http_status == 503
    assert "kafka-transactions.sh" in worker.readiness().body["message"]
    foreign.abort_transaction(60)
    worker.wait_until_ready()
    assert reconciled(worker)["reason"] == "Tail"
    stream.send([*traffic(), *traffic(start=RECORDS)])
    wait_until_passed(stream, worker)
    judged(stream)


def test_ids_that_others_write_between_two_own_records_are_learnt_at_the_next_start(
    streams: CreateStream, workers: FaultWorkers
) -> None:
    stream = streams()
    stream.send(traffic())
    [worker] = finish(stream, workers)
    assert_learnt_after(stream, worker, workers, kill=True, key=b"foreign-1")


def test_ids_that_others_write_between_two_own_records_are_learnt_by_the_running_worker(
    streams: CreateStream, workers: FaultWorkers
) -> None:
    stream = streams()
    stream.send(traffic())
    [worker] = finish(stream, workers)
    assert_learnt_after(stream, worker, workers, kill=False, key=b"foreign-2")


def assert_learnt_after(
    stream: TestStream, worker: WorkerProcess, workers: FaultWorkers, *, kill: bool, key: bytes
) -> None:
    """Write a foreign record, pass on more, and send a record with its id."""
    event = "reading records of other producers"
    send_one(stream, key)
    stream.send(traffic(start=RECORDS))
    wait_until_passed(stream, worker)
    if kill:
        assert worker.sigterm() == ExitCode.OK, "its store is flushed up to its last record"
        worker = workers.start(stream)
        worker.wait_until_ready()
    else:
        worker.wait_until(lambda: logged(worker, event), "it reads what others wrote")
    stream.send([Message(0, key, b"a repeat of the foreign record")])
    wait_until_passed(stream, worker)
    assert [record.value for record in stream.clean() if record.key == key] == [b"foreign"]


def test_a_worker_that_was_suspended_for_longer_than_its_transaction_begins_anew(
    streams: CreateStream, workers: FaultWorkers
) -> None:
    """Kafka refuses it as if it was fenced, but there is no newer worker."""
    messages = list(retries(SEED, 10_000, value_bytes=100))
    stream = streams(worker=SMALL_TRANSACTIONS)
    stream.send(messages)
    worker = workers.start_towards(
        stream, InnerCrash(point=Point.RECORDS_SENT, time=3, signal=signal.SIGSTOP)
    )
    wait_until_frozen(worker.pid)
    wait_until_open(stream, is_open=True)
    stream.settle()  # the coordinator aborts it

    worker.resume()
    stream.send(messages)
    wait_until_passed(stream, worker)
    judged(stream)
    assert_undisturbed(worker)
    assert "TransactionExpired" in {failure["reason"] for failure in failures(worker)}
    assert worker.sigterm() == ExitCode.OK


def test_a_long_stretch_of_aborted_records_is_read_through(
    broker: EmbeddedBroker, topics: Callable[..., str]
) -> None:
    """It has as many batches as some GiB, and each fetch brings one of them."""
    servers, topic = broker.bootstrap_servers, topics("raw")
    plain = Producer({"bootstrap.servers": servers})
    plain.produce(topic, b"before", b"1", 0)
    assert plain.flush(HANG_SECONDS) == 0
    foreign = transactional(servers, **{"batch.num.messages": 1, "linger.ms": 0})
    end, silent_reads = 1, 0
    for _ in range(MOST_STRETCHES):  # the machine decides how long one lasts
        end += abort_batches(foreign, topic)
        keys, silent_reads = read_to_the_end(servers, topic, end=end)
        assert keys == [b"1"]
        if silent_reads >= LEAST_SILENT_READS:
            break
    assert silent_reads >= LEAST_SILENT_READS, "it is shorter than what the reader can bear"

    plain.produce(topic, b"after", b"2", 0)
    assert plain.flush(HANG_SECONDS) == 0
    assert read_to_the_end(servers, topic, end=end + 1)[0] == [b"1", b"2"]


def abort_batches(foreign: Producer, topic: str) -> int:
    """Write a stretch of batches, abort it, and begin anew; return the number of offsets it takes."""
    for _ in range(ABORTED_BATCHES):
        foreign.produce(topic, bytes(1_000), None, 0)
        while len(foreign) > ABORTED_BATCHES // 10:
            foreign.poll(0.1)
    assert foreign.flush(HANG_SECONDS) == 0
    foreign.abort_transaction(HANG_SECONDS)
    foreign.begin_transaction()
    return ABORTED_BATCHES + 1


def read_to_the_end(servers: str, topic: str, *, end: int) -> tuple[list[object], int]:
    """Read with a reader that is soon starved; return the keys, and the number of reads without a record."""
    fetched = FetchProgress(STARVED_SECONDS)
    config = {
        **consumer_config(servers, {}, group="g", queue_bytes=1 << 20),
        "stats_cb": fetched,
        "statistics.interval.ms": 100,
        "fetch.max.bytes": 1_000,
        "message.max.bytes": 1_000,
    }
    consumer = Consumer(config)
    reader = PartitionReader(consumer, topic, 0, SYSTEM_CLOCK, fetched)
    reader.seek(0)
    keys: list[object] = []
    silent_reads = 0
    while reader.next_offset < end:
        batch = reader.read(1_000, 0.2)
        if keys:  # not while it connects, which takes long on a busy machine
            reader.check(end)
            silent_reads += not batch.records
        keys += [record.key() for record in batch.records]
    reader.close()
    return keys, silent_reads
