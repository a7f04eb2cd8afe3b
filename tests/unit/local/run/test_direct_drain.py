"""A drain of workers: a partition whose end cannot be read does not keep the others from theirs."""

from collections.abc import Collection
from typing import Any

from confluent_kafka import IsolationLevel

from dedupe_kafka.errors import BrokerUnavailable, NoLeader, StreamError
from dedupe_kafka.offsets import TopicOffsets
from dedupe_local.run.direct_drain import DirectDrain
from tests.unit.local.run.views import status

STALL_SECONDS = 120.0


class FakeCluster:
    def __init__(self) -> None:
        self.ends = {0: 10, 1: 20}
        self.failed: dict[int, StreamError] = {}
        self.away = False
        self.asked: list[list[int]] = []

    def offsets_of(
        self, name: str, partitions: Collection[int], isolation: IsolationLevel
    ) -> TopicOffsets:
        assert isolation is IsolationLevel.READ_UNCOMMITTED, "what it hides is not read yet"
        self.asked.append(list(partitions))
        if self.away:
            raise BrokerUnavailable("no answer")
        known = {each: end for each, end in self.ends.items() if each in partitions}
        ends = {each: end for each, end in known.items() if each not in self.failed}
        failed = {each: why for each, why in self.failed.items() if each in partitions}
        return TopicOffsets(topic=name, id="", lows={}, ends=ends, failed=failed)


def drain_of(cluster: FakeCluster) -> DirectDrain:
    known: Any = cluster
    return DirectDrain(known, "raw", range(2), STALL_SECONDS, now=0)


def test_it_is_done_when_each_worker_is_at_its_end() -> None:
    cluster = FakeCluster()
    drain = drain_of(cluster)
    drain.observe([status(10), status(7)], now=1)
    assert (drain.done, drain.missing()) == (False, ["partition 1 is at offset 7 of 20"])
    drain.observe([status(10), status(20)], now=2)
    assert drain.done
    assert cluster.asked == [[0, 1]]


def test_an_end_that_is_not_known_is_asked_for_again_once_a_second() -> None:
    cluster = FakeCluster()
    cluster.failed = {1: NoLeader("raw/1 has no leader")}
    drain = drain_of(cluster)
    for tenths in range(1, 26):
        drain.observe([status(10), status(20)], now=tenths / 10)
    assert cluster.asked == [[0, 1], [1], [1]]
    assert not drain.done
    why = ["the end of partition 1 is not known: NoLeader: raw/1 has no leader"]
    assert drain.missing() == why
    cluster.away = True
    drain.observe([status(10), status(20)], now=100)
    assert drain.stalled(119) == []
    assert drain.stalled(120) == why
    cluster.away, cluster.failed = False, {}
    drain.observe([status(10), status(19)], now=121)
    assert drain.stalled(122) == []
    assert drain.missing() == ["partition 1 is at offset 19 of 20"]
    drain.observe([status(10), status(20)], now=123)
    assert drain.done


def test_a_partition_that_is_gone_is_named() -> None:
    cluster = FakeCluster()
    del cluster.ends[1]
    drain = drain_of(cluster)
    drain.observe([status(10), status(20)], now=1)
    [missing] = drain.missing()
    assert "the end of partition 1 is not known: TopicMissing: raw has no such" in missing
