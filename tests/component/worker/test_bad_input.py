"""Input at the limits: no loss, no crash, and errors that name the record."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx
import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined] # all are public
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from dedupe_crds.status.worker import Phase
from tests.support.checker.checker import judge
from tests.support.checker.id_sources import IdOf, content_id, header_id, json_id, key_id
from tests.support.checker.record import Message
from tests.support.patience import HANG_SECONDS
from tests.support.processes.processes import Workers
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import ID_PATH, ID_STEPS, retries

CreateStream = Callable[..., TestStream]

SEED = 20261121
MIB = 1 << 20


def order_json(tail: str) -> bytes:
    return ('{"order": {"id": "a"}' + tail).encode()


@dataclass(frozen=True)
class Case:
    """Records, the place of their ids, how many of them must pass, and those without an id by why."""

    source: dict[str, str]
    id_of: IdOf
    messages: list[Message]
    passed: int
    missing: dict[str, int] = field(default_factory=dict)


def by_key(keys: list[bytes | None], passed: int, **missing: int) -> Case:
    messages = [Message(0, key, b"v") for key in keys]
    return Case({"from": "Key"}, key_id, messages, passed, missing)


def by_header(name: str, messages: list[Message], passed: int, **missing: int) -> Case:
    return Case({"from": "Header", "name": name}, header_id(name), messages, passed, missing)


def by_json(values: list[bytes], passed: int, **missing: int) -> Case:
    messages = [Message(0, None, value) for value in values]
    source = {"from": "JsonPath", "path": ID_PATH}
    return Case(source, json_id(*ID_STEPS), messages, passed, missing)


def nested(depth: int) -> bytes:
    return order_json(', "deep": ' + "[" * depth + "]" * depth + "}")


CASES = {
    "null key": by_key([None] * 3, 3, NoKey=3),
    "empty key": by_key([b""] * 3, 3, EmptyId=3),
    "a header in another case": by_header(
        "Id", [Message(0, None, b"v", (("id", b"1"),))] * 2, 2, HeaderAbsent=2
    ),
    "1-byte id": by_key([b"k", b"l", b"k"], 2),
    "10 KiB ids that differ in the last byte": by_key(
        [b"x" * 10_239 + end for end in (b"a", b"b", b"a", b"b")], 2
    ),
    "not UTF-8": by_key([b"\xff\xfe\x00"] * 3, 1),
    "nothing at all": Case(
        {"from": "Content"}, content_id, [Message(0, None, None)] * 3, 3, {"NoContent": 3}
    ),
    "broken JSON": by_json([order_json(""), order_json(",,}"), order_json("")], 3, NotJson=3),
    "JSON that is not UTF-8": by_json(
        [order_json(', "n": "\xe9"}').decode().encode("latin-1")] * 2, 2, NotJson=2
    ),
    "what is no id in JSON": by_json(
        [
            b'{"order": {"id": %s}}' % each
            for each in (b"1.5", b"%d" % 2**64, b"null", b'""', b"7", b"7")
        ],
        5,
        WrongType=2,
        NumberTooLarge=1,
        EmptyId=1,
    ),
    "no such field": by_json([b'{"order": {"ID": "a"}}'] * 2, 2, PathAbsent=2),
    "binary formats": by_json(
        [b"\0\0\0\0\x07\x02a", b"Obj\x01", b"\x0a\x05hello"],
        3,
        ConfluentFormat=1,
        Avro=1,
        Protobuf=1,
    ),
    "deep JSON": by_json([nested(400)] * 2, 1),
    "JSON deeper than is read": by_json([nested(300_000)] * 2, 2, NotJson=2),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_it_passes_or_is_told_apart(streams: CreateStream, workers: Workers, case: Case) -> None:
    stream = streams(id=case.source)
    stream.send(case.messages)
    worker = workers.start(stream)
    worker.wait_until_caught_up()
    raw, clean = stream.raw(), stream.clean()
    judge(raw, clean, case.id_of).assert_exactly_once(len(case.messages))
    assert len(clean) == case.passed
    without_id = sum(case.id_of(record) is None for record in raw)
    worker.wait_until(
        lambda: worker.status().counts.without_id == without_id, f"{without_id} without id"
    )
    assert worker.status().counts.missing_ids == case.missing
    readiness = worker.readiness()
    assert readiness.http_status == 200
    degraded = {each["reason"]: each["count"] for each in readiness.body["degraded"]}
    assert degraded.get("MissingIds", 0) == without_id


def test_a_million_repeats_of_one_id_leave_one(streams: CreateStream, workers: Workers) -> None:
    stream = streams()
    first, repeat = Message(0, b"one", b"first"), Message(0, b"one", b"again")
    messages = (repeat if place else first for place in range(1_000_000))
    stream.send(messages)
    worker = workers.start(stream)
    worker.wait_until_caught_up()
    [record] = stream.clean()
    assert (record.key, record.value) == (b"one", b"first")
    worker.wait_until(
        lambda: worker.status().counts.duplicates == 999_999, "it has counted the repeats"
    )
    assert worker.status().window.keys < 10


def test_a_record_too_large_for_the_output_holds_the_partition_until_it_fits(
    streams: CreateStream, workers: Workers
) -> None:
    """Send 5 MiB that cannot be compressed to an output with a limit of 1 MiB."""
    stream = streams(
        input={"max.message.bytes": 10 * MIB},
        output={"max.message.bytes": MIB},
        # A transaction for every few records, so that those before the large record pass.
        worker={"tuning": {"maxBatchRecords": 100, "maxTransactionRecords": 100}},
    )
    large = Message(0, b"large", random.Random(SEED).randbytes(5 * MIB))
    before, after = list(retries(SEED, 500)), list(retries(SEED, 50, start=10_000))
    stream.send([*before, large, *after])
    worker = workers.start(stream)

    def refused() -> bool:
        try:
            readiness = worker.readiness()
        except httpx.TransportError:
            return False
        return readiness.http_status == 503 and readiness.body["reason"] == "RecordTooLarge"

    worker.wait_until(refused, "/readyz says RecordTooLarge")
    worker.wait_until(
        lambda: stream.progress().get(0, 0) == len(before),
        "all that stands before the large record is passed on",
    )
    stream.settle()
    judge(stream.raw(), stream.clean(), key_id, up_to=stream.committed()).assert_exactly_once(
        len(before)
    )
    assert worker.is_running
    assert worker.get("/healthz").status_code == 200

    def names_both() -> bool:  # between two tries it may speak of what else is in the way
        try:
            message = worker.readiness().body["message"] or ""
        except httpx.TransportError:
            return False
        return "max.message.bytes" in message and f"at offset {len(before)} of" in message

    worker.wait_until(names_both, "the message names the record and what to raise")

    raise_max_message_bytes(stream, 10 * MIB)
    worker.wait_until_caught_up()
    judge(stream.raw(), stream.clean(), key_id).assert_exactly_once(len(before) + 1 + len(after))
    worker.wait_until_ready()
    assert worker.status().phase is Phase.RUNNING


def test_a_record_larger_than_the_whole_queue_passes(
    streams: CreateStream, workers: Workers
) -> None:
    """Between small ones, and as the first and the last of a transaction."""
    room = {"max.message.bytes": 10 * MIB}
    stream = streams(input=room, output=room, worker={"tuning": {"queueBytes": "1Mi"}})
    large = [Message(0, b"large-%d" % size, b"v" * (size * MIB)) for size in (2, 5, 3)]
    small = list(retries(SEED, 500))
    stream.send([large[0], *small, large[1], *retries(SEED, 50, start=10_000), large[2]])
    worker = workers.start(stream)
    worker.wait_until_caught_up()
    judge(stream.raw(), stream.clean(), key_id).assert_exactly_once(len(small) + 50 + len(large))
    worker.wait_until_ready()


def raise_max_message_bytes(stream: TestStream, max_bytes: int) -> None:
    setting = ConfigEntry(
        "max.message.bytes", str(max_bytes), incremental_operation=AlterConfigOpType.SET
    )
    topic = ConfigResource(ResourceType.TOPIC, stream.output_topic, incremental_configs=[setting])
    admin = AdminClient({"bootstrap.servers": stream.bootstrap_servers})
    admin.incremental_alter_configs([topic])[topic].result(HANG_SECONDS)
