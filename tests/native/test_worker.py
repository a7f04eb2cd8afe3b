"""Workers on the native path: their output, bytes that are damaged, and what they refuse."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from dedupe_crds.status.exit_code import ExitCode
from dedupe_local.servers.kafka import EmbeddedBroker
from dedupe_worker.cli import NATIVE
from tests.faults.seed import SEED
from tests.support.checker.record import Message, Record
from tests.support.crashes.aftermath import finish, judged, logged
from tests.support.crashes.inner_crashes import FaultWorkers
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import START_MS, retries

CreateStream = Callable[..., TestStream]

ON = "the experimental native path is on"
SMALL_BATCHES = {"tuning": {"maxBatchRecords": 700, "maxTransactionRecords": 2_000}}


def odd_messages() -> Iterator[Message]:
    """Yield records of all shapes: odd keys, null and empty parts, old times, values above a batch."""
    random = Random(SEED)
    keys = [None, b"", b"k", b"\xff\xfe", b"A" * 300, b"00112233-4455-6677-8899-aabbccddeeff"]
    keys.append(b"00112233-4455-6677-8899-AABBCCDDEEFF")
    headers = [(), (("a", b"1"),), (("a", b"1"), ("a", b"2")), (("", None), ("é", b""))]
    times = [1, START_MS, START_MS + 1, 4_102_444_800_000]
    for number in range(4_000):
        key = random.choice([*keys, b"%d" % number])
        value = random.choice([b"", b"v" * random.randrange(2_000), random.randbytes(100)])
        yield Message(0, key, value, random.choice(headers), random.choice(times))
    yield Message(0, b"large", random.randbytes(1_000_000), (), START_MS)
    yield Message(0, b"larger", b"v" * 1_040_000, (), START_MS)
    yield Message(0, b"last", b"v", (), START_MS)


def content(record: Record) -> tuple[object, ...]:
    return (
        *(record.partition, record.key, record.value, record.headers),
        *(record.timestamp_type, record.timestamp_ms),
    )


@pytest.mark.parametrize(("codec", "stored"), [("none", "uncompressed"), ("lz4", "lz4")])
def test_the_output_is_what_today_s_path_writes(
    *,
    streams: CreateStream,
    workers: FaultWorkers,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    codec: str,
    stored: str,
) -> None:
    properties = tmp_path / "kafka.properties"
    properties.write_text(f"compression.type={codec}\n")
    outputs = []
    for native in ("", "1"):
        monkeypatch.setenv(NATIVE, native)
        stream = streams(input={"compression.type": stored}, worker=SMALL_BATCHES)
        stream.send(odd_messages())
        worker = workers.start(stream, arguments=("--kafka-properties", properties))
        worker.wait_until(lambda: stream.progress() == stream.ends(), "all is committed")  # noqa: B023 (it is waited for here)
        stream.settle()
        assert len(logged(worker, ON)) == len(native)
        outputs.append([content(record) for record in stream.clean()])
    today, native_output = outputs
    assert native_output == today
    assert 1_000 < len(today) < 4_003, "repeats were dropped"


def test_with_log_append_time_a_record_keeps_the_broker_s_time(
    streams: CreateStream, workers: FaultWorkers
) -> None:
    stream = streams(input={"message.timestamp.type": "LogAppendTime"})
    stream.send(retries(SEED, 3_000))
    finish(stream, workers)
    judged(stream)
    firsts: dict[bytes | None, Record] = {}
    for record in stream.raw():
        firsts.setdefault(record.key, record)
    times = [record.timestamp_ms for record in stream.clean()]
    assert times == [record.timestamp_ms for record in firsts.values()]


def test_damaged_bytes_end_the_session_with_offset_and_reason(
    broker: EmbeddedBroker, streams: CreateStream, workers: FaultWorkers
) -> None:
    stream = streams()
    for start in (0, 2_000):
        stream.send(retries(SEED, 2_000, start=start))
    [log] = (broker.data_dir / "data" / f"{stream.input_topic}-0").glob("*.log")
    at = log.stat().st_size - 50
    flip(log, at)
    worker = workers.start(stream)
    worker.wait_until(lambda: logged(worker, "session failed"), "it meets the damage")
    error = logged(worker, "session failed")[0]["error"]
    assert "the batch does not have its checksum" in error
    offset = int(error.partition(": offset ")[2].partition(":")[0])
    assert 0 < offset < 4_000
    flip(log, at)
    worker.wait_until(lambda: stream.progress() == stream.ends(), "it has gone on")
    stream.settle()
    judged(stream)


def flip(file: Path, at: int) -> None:
    """Change a byte of a file; again, and it is as it was."""
    with file.open("r+b") as opened:
        opened.seek(at)
        [byte] = opened.read(1)
        opened.seek(at)
        opened.write(bytes([byte ^ 0x40]))


@pytest.mark.parametrize(
    ("spec", "missing"),
    [
        ({"delivery": "AtLeastOnce"}, "AtLeastOnce"),
        ({"id": {"from": "Content"}}, "ids but those from keys"),
        ({"duplicates": {"policy": "Topic", "topic": "again"}}, "side topics"),
    ],
)
def test_a_stream_that_needs_more_is_refused(
    streams: CreateStream, workers: FaultWorkers, spec: dict[str, object], missing: str
) -> None:
    worker = workers.start(streams(**spec))
    assert worker.wait_until_ended() == ExitCode.CONFIG
    assert f"no {missing}" in worker.log_path.read_text()
