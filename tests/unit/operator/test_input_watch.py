"""Inputs whose partitions are counted between two passes."""

from collections.abc import Collection, Iterator, Mapping
from queue import Queue
from time import monotonic

import pytest

from dedupe_crds.spec.stream import DedupeStream
from dedupe_kafka.errors import BrokerUnavailable
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.input_watch import InputWatch
from dedupe_operator.kafka_asks import KafkaAsks
from tests.support.patience import HANG_SECONDS
from tests.unit.crds.manifests import changed

ORDERS, PAYMENTS = Key("shop", "orders"), Key("shop", "payments")


class FakeBrokers:
    """The partition counts of topics, and what was asked."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.connections = 0
        self.asked: Queue[set[str]] = Queue()
        self.away = False

    def __call__(
        self, servers: str, properties: Mapping[str, str], *, timeout_seconds: float
    ) -> "FakeBrokers":
        """Connect."""
        assert servers
        assert properties
        assert timeout_seconds > 0
        self.connections += 1
        return self

    def topic_names(self) -> list[str]:
        return list(self.counts)

    def partition_counts(self, names: Collection[str]) -> dict[str, int]:
        self.asked.put(set(names))
        if self.away:
            raise BrokerUnavailable("no broker answers")
        return {name: self.counts[name] for name in names if name in self.counts}

    def wait_until_asked(self, times: int = 2) -> set[str]:
        """Wait until as many requests that begin from now on are answered but the last."""
        while not self.asked.empty():
            self.asked.get_nowait()
        return [self.asked.get(timeout=HANG_SECONDS) for _ in range(times)][-1]


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> FakeBrokers:
    made = FakeBrokers()
    monkeypatch.setattr("dedupe_operator.kafka_asks.Cluster", made)
    monkeypatch.setattr("dedupe_operator.input_watch._EVERY_SECONDS", 0.01)
    return made


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[InputWatch]:
    monkeypatch.setattr("dedupe_operator.kafka_asks._LONGEST_RETRY_SECONDS", 0.01)
    asks = KafkaAsks(monotonic)
    made = InputWatch(asks)
    yield made
    made.stop()
    asks.stop()


def stream(topic: str) -> DedupeStream:
    return DedupeStream.model_validate(changed({"spec.input.topic": topic}))


def test_streams_of_a_cluster_share_a_request_and_a_change_is_told_once(
    watch: InputWatch, brokers: FakeBrokers
) -> None:
    brokers.counts = {"raw": 2, "paid": 3}
    assert watch.counts(ORDERS, stream("raw"), {}) == {}
    assert watch.counts(PAYMENTS, stream("paid"), {}) == {}
    due: Queue[Key] = Queue()
    watch.start(due.put)
    assert brokers.wait_until_asked() == {"raw", "paid"}
    assert brokers.connections == 1
    assert watch.counts(ORDERS, stream("raw"), {}) == {"raw": 2}
    brokers.counts["raw"] = 4
    assert due.get(timeout=HANG_SECONDS) == ORDERS
    assert watch.counts(ORDERS, stream("raw"), {}) == {"raw": 4}
    brokers.wait_until_asked()
    assert due.empty()


def test_a_topic_that_is_gone_and_brokers_that_are_away_change_nothing(
    watch: InputWatch, brokers: FakeBrokers
) -> None:
    brokers.counts = {"raw": 2}
    watch.counts(ORDERS, stream("raw"), {})
    due: Queue[Key] = Queue()
    watch.start(due.put)
    brokers.wait_until_asked()
    brokers.away = True
    brokers.wait_until_asked(1)
    brokers.away, brokers.counts = False, {}
    brokers.wait_until_asked()
    assert watch.counts(ORDERS, stream("raw"), {}) == {"raw": 2}
    brokers.counts = {"raw": 3}
    assert due.get(timeout=HANG_SECONDS) == ORDERS


def test_a_stream_that_is_gone_is_asked_for_no_longer(
    watch: InputWatch, brokers: FakeBrokers
) -> None:
    brokers.counts = {"raw": 2, "paid": 3}
    watch.counts(ORDERS, stream("raw"), {})
    watch.counts(PAYMENTS, stream("paid"), {})
    watch.start(lambda _: None)
    brokers.wait_until_asked()
    watch.forget(ORDERS)
    assert brokers.wait_until_asked(3) == {"paid"}
    assert watch.counts(ORDERS, stream("raw"), {}) == {}, "what was counted is forgotten"


def test_the_count_of_another_topic_is_counted_anew(
    watch: InputWatch, brokers: FakeBrokers
) -> None:
    brokers.counts = {"raw": 2, "other": 5}
    watch.counts(ORDERS, stream("raw"), {})
    watch.start(lambda _: None)
    brokers.wait_until_asked()
    assert "other" not in watch.counts(ORDERS, stream("other"), {})
    brokers.wait_until_asked()
    assert watch.counts(ORDERS, stream("other"), {}) == {"other": 5}


def test_another_secret_is_another_connection(watch: InputWatch, brokers: FakeBrokers) -> None:
    brokers.counts = {"raw": 2}
    watch.counts(ORDERS, stream("raw"), {})
    watch.start(lambda _: None)
    brokers.wait_until_asked()
    watch.counts(ORDERS, stream("raw"), {"other": b"key"})
    brokers.wait_until_asked()
    assert brokers.connections == 2


def test_all_inputs_of_a_stream_with_routers_are_watched(
    watch: InputWatch, brokers: FakeBrokers
) -> None:
    brokers.counts = {"orders-eu": 2, "orders-us": 3, "paid": 1}
    routed = {"spec.input": {"pattern": "orders-.*"}, "spec.repartition": {"partitions": 4}}
    of_pattern = DedupeStream.model_validate(changed(routed))
    watch.counts(ORDERS, of_pattern, {})
    due: Queue[Key] = Queue()
    watch.start(due.put)
    brokers.wait_until_asked()
    assert watch.counts(ORDERS, of_pattern, {}) == {"orders-eu": 2, "orders-us": 3}
    brokers.counts["orders-us"] = 4
    assert due.get(timeout=HANG_SECONDS) == ORDERS
    brokers.counts["orders-asia"] = 1
    assert due.get(timeout=HANG_SECONDS) == ORDERS
    assert watch.counts(ORDERS, of_pattern, {})["orders-asia"] == 1
