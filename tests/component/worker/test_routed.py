"""Duplicates, conflicts and late records in side topics, each with its headers."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.support.checker.checker import judge
from tests.support.checker.id_sources import key_id
from tests.support.checker.record import Message
from tests.support.checker.routed import added, everything, judge_routes, routed, routes_of
from tests.support.fixtures import topics_beside
from tests.support.patience import HANG_SECONDS
from tests.support.processes.loopback import HTTP
from tests.support.processes.processes import Workers
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import retries

CreateStream = Callable[..., TestStream]

SEED = 20261122
RECORDS = 5_000
TOKEN = "a token for this test"  # noqa: S105 # it opens nothing else
DAY_MS = 86_400_000
NOW_MS = 1_790_000_000_000


@pytest.mark.proof
def test_each_duplicate_is_in_its_topic_once_with_what_it_repeats(
    routing: CreateStream, workers: Workers
) -> None:
    stream = routing(partitions=2, duplicates=True)
    stream.send(retries(SEED, RECORDS, partitions=2))
    for partition in range(2):
        workers.start(stream, partition=partition).wait_until_caught_up()
    raw, clean = stream.raw(), stream.clean()
    judge(raw, clean, key_id).assert_exactly_once(RECORDS)
    routes = routes_of(stream)
    judge_routes(raw, routes, key_id)
    assert everything(raw) == everything(clean, routes.duplicates)


def test_another_content_under_a_known_id_goes_to_the_topic_of_conflicts(
    routing: CreateStream, workers: Workers
) -> None:
    stream = routing(duplicates=True, conflicts=True)
    stream.send(retries(SEED, RECORDS))
    worker = workers.start(stream)
    worker.wait_until_caught_up()
    raw, conflicts = stream.raw(), routed(stream, "conflicts")
    judge(raw, stream.clean(), key_id).assert_exactly_once(RECORDS)
    judge_routes(raw, routes_of(stream), key_id)
    assert len(conflicts) > 100
    worker.wait_until(
        lambda: worker.status().counts.conflicts == len(conflicts), "it has counted them"
    )


@pytest.mark.parametrize("left", ["the whole store", "a store killed in the middle", "nothing"])
def test_owners_are_right_after_the_store_has_learnt_from_the_output(
    routing: CreateStream, workers: Workers, left: str
) -> None:
    """Duplicates name the same original, whatever is left of the store."""
    stream = routing(duplicates=True, conflicts=True)
    traffic = list(retries(SEED, RECORDS))
    stream.send(traffic)
    worker = workers.start(stream)
    worker.wait_until_caught_up()
    if left == "the whole store":
        worker.sigterm()
    else:
        worker.sigkill()
    if left == "nothing":
        shutil.rmtree(worker.state_dir)
    later = [replace(message, timestamp_ms=NOW_MS) for message in traffic]
    stream.send(later)
    workers.start(stream).wait_until_caught_up()
    raw = stream.raw()
    judge(raw, stream.clean(), key_id).assert_exactly_once(2 * RECORDS)
    judge_routes(raw, routes_of(stream), key_id)


def test_a_stream_that_begins_to_route_says_unknown_of_what_it_saw_before(
    streams: CreateStream, topics: Callable[..., str], workers: Workers
) -> None:
    """It adds no age that it has not stored."""
    stream = streams()
    stream.send([Message(0, b"a", b"1", timestamp_ms=NOW_MS)])
    worker = workers.start(stream)
    worker.wait_until_caught_up()
    worker.sigterm()
    topic = topics("duplicates", 1, **{"retention.ms": -1})
    document = stream.manifest.read_text()
    stream.manifest.write_text(f"{document}  duplicates: {{policy: Topic, topic: {topic}}}\n")
    topics_beside(stream)
    stream.send([Message(0, b"a", b"1", timestamp_ms=NOW_MS), Message(0, b"b", b"2")])
    workers.start(stream).wait_until_caught_up()
    [record] = routed(stream, "duplicates")
    assert added(record) == {"dedupe-original": "0:0", "dedupe-position": "0:1"}


def test_who_only_observes_has_duplicates_in_the_output_and_nowhere_else(
    routing: CreateStream, workers: Workers
) -> None:
    stream = routing(duplicates=True, mode="Observe")
    stream.send(retries(SEED, 500))
    workers.start(stream).wait_until_caught_up()
    judge(stream.raw(), stream.clean(), key_id, observe=True).assert_exactly_once(500)
    assert routed(stream, "duplicates") == []


def test_what_is_too_old_to_be_judged_goes_to_its_topic(
    routing: CreateStream, workers: Workers
) -> None:
    stream = routing(late={"maxAge": "3650d"})
    young = [Message(0, b"%d" % n, b"v", timestamp_ms=NOW_MS) for n in range(5)]
    old = [Message(0, b"old %d" % n, b"v", timestamp_ms=NOW_MS - 6000 * DAY_MS) for n in range(3)]
    known = replace(young[0], timestamp_ms=old[0].timestamp_ms)
    nameless = Message(0, None, b"v", timestamp_ms=old[0].timestamp_ms)
    stream.send([*young, *old, *old, known, nameless])
    worker = workers.start(stream)
    worker.wait_until_caught_up()
    assert [record.key for record in stream.clean()] == [*(record.key for record in young), None]
    late = routed(stream, "late")
    assert [record.key for record in late] == [message.key for message in [*old, *old]]
    assert {added(record)["dedupe-position"] for record in late} == {f"0:{n}" for n in range(5, 11)}
    worker.wait_until(lambda: worker.status().counts.late == 6, "it has counted them")
    assert worker.status().counts.duplicates == 1


def test_a_missing_topic_beside_the_output_is_named(
    streams: CreateStream, workers: Workers
) -> None:
    stream = streams(duplicates={"policy": "Topic", "topic": "nowhere"})
    stream.send([Message(0, b"a", b"1")])
    worker = workers.start(stream)
    worker.wait_until(
        lambda: worker.readiness().body.get("reason") == "TopicMissing", "it misses a topic"
    )
    assert "nowhere" in worker.readiness().body["message"]


def test_a_lookup_tells_what_is_known_of_an_id_until_it_is_forgotten(
    routing: CreateStream,
    workers: Workers,
    tmp_path: Any,  # noqa: ANN401 # a Path
) -> None:
    stream = routing(duplicates=True)
    stream.send([Message(0, b"a", b"1"), Message(0, b"b", b"1", timestamp_ms=NOW_MS)])
    token_file = tmp_path / "token"
    token_file.write_text(TOKEN)
    worker = workers.start(stream, arguments=["--admin-token-file", token_file])
    worker.wait_until_caught_up()

    def ask(call: str) -> Any:  # noqa: ANN401 # JSON
        answer = HTTP.post(
            f"http://{worker.endpoint()}/{call}",
            json={"ids": ["b", "z"]},
            headers={"X-Admin-Token": TOKEN},
            timeout=HANG_SECONDS,
        )
        return answer.raise_for_status().json()

    [known, unknown] = ask("lookup")["ids"]
    assert (known["known"], known["owner"]) == (
        True,
        {"topic": None, "partition": 0, "offset": 1},
    )
    assert known["timestamp"] == "2026-09-21T14:13:20Z"
    assert known["seenAfter"] <= known["seenBefore"]
    assert unknown == {**dict.fromkeys(unknown), "id": "z", "known": False}
    assert ask("forget")["forgotten"] == 1
    worker.sigkill()
    worker = workers.start(stream, arguments=["--admin-token-file", token_file])
    worker.wait_until_ready()
    assert not ask("lookup")["ids"][0]["known"]
    stream.send([Message(0, b"b", b"once more")])
    worker.wait_until_caught_up()
    assert [record.key for record in stream.clean()] == [b"a", b"b", b"b"]
