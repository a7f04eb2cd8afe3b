"""The controller finds what ran before a stream got routers, and what was handed over."""

from collections.abc import Iterable, Mapping

import pytest
from confluent_kafka import TopicPartition

from dedupe_crds.manifest import parse_manifest
from dedupe_crds.spec.stream import DedupeStream
from dedupe_growth.before_routers import (
    Committed,
    Ran,
    RoutersRefused,
    check_partitions,
    find_direct,
    find_handed_over,
)
from dedupe_growth.decide import HandOver
from dedupe_growth.entries import Direct, RouterStart
from dedupe_kafka.errors import TopicUnusable
from dedupe_kafka.offset_metadata import Cut, encode_metadata, with_token
from dedupe_kafka.offsets import Place, TopicOffsets
from dedupe_kafka.topic_id import NO_TOPIC_ID
from tests.unit.crds.manifests import changed
from tests.unit.growth.scene import BETWEEN, STREAM

INPUTS = {"orders": 4}
OUTPUT = "orders-clean"
SEVERAL = parse_manifest(
    changed(
        {"spec.input": {"topics": ["orders", "returns"]}, "spec.repartition": {"partitions": 2}}
    ),
    "-",
)
DIRECT = Direct(epoch=0, partitions=2, topic="orders", topic_id="In1")


class Cluster:
    """The topics' ends, and the offsets that the workers' group has committed."""

    def __init__(
        self,
        read: Mapping[Place, int] | None = None,
        ends: Mapping[str, Iterable[int]] | None = None,
    ) -> None:
        self.ids = {"orders": "In1", "returns": "In2"}
        self.read = dict(read or {})
        self.ends = {name: dict(enumerate(each)) for name, each in (ends or {}).items()}
        self.metadata: dict[Place, str] = {}

    def offsets(self, name: str) -> TopicOffsets:
        ends = self.ends.get(name, {})
        return TopicOffsets(
            topic=name, id=self.ids.get(name, "T"), lows=dict.fromkeys(ends, 0), ends=ends
        )

    def committed(self, group: str, places: Iterable[Place]) -> dict[Place, TopicPartition]:
        assert group == STREAM.consumer_group
        return {
            place: TopicPartition(*place, self.read[place], metadata=self.metadata.get(place, ""))
            for place in places
            if place in self.read
        }

    def find(
        self,
        stream: DedupeStream = STREAM,
        inputs: Mapping[str, int] | None = None,
        ran: Ran | None = None,
    ) -> Direct | None:
        committed: Committed = self.committed
        return find_direct(stream, INPUTS if inputs is None else inputs, self, committed, ran)


def test_a_new_stream_had_no_workers_without_routers() -> None:
    assert Cluster().find() is None
    assert Cluster(ends={OUTPUT: [0, 0], BETWEEN: [0, 0]}).find() is None


def test_the_workers_were_as_many_as_have_committed_an_offset() -> None:
    assert Cluster({("orders", 0): 0, ("orders", 1): 7}).find() == DIRECT


def test_workers_that_run_and_have_not_committed_count_as_well() -> None:
    ran = Ran("orders", 2)
    assert Cluster().find(ran=ran) == DIRECT
    assert Cluster({("orders", 0): 7}).find(ran=ran) == DIRECT
    several = Cluster({("orders", 0): 7, ("returns", 3): 9})
    assert several.find(SEVERAL, ran=ran) == DIRECT, "they are known to read this one"


def test_a_worker_that_has_only_written_counts_as_well() -> None:
    """Its offset may have expired, or the user may have deleted it."""
    found = Cluster({("orders", 0): 7}, {OUTPUT: [3, 0, 9, 0]}).find()
    assert found is not None
    assert found.partitions == 3


def test_output_without_any_offset_is_of_the_only_input() -> None:
    assert Cluster(ends={OUTPUT: [3, 5]}).find() == DIRECT


def test_a_stream_of_a_release_without_epochs_has_routed() -> None:
    assert Cluster({("orders", 0): 7}, {BETWEEN: [0, 4], OUTPUT: [3]}).find() is None


@pytest.mark.parametrize("topic", ["orders", "returns"])
def test_of_several_inputs_the_one_with_offsets_was_read(topic: str) -> None:
    found = Cluster({(topic, 0): 7}, {OUTPUT: [3]}).find(SEVERAL, {"orders": 1, "returns": 1})
    assert found is not None
    assert found.topic == topic


def test_offsets_of_several_inputs_are_refused() -> None:
    cluster = Cluster({("orders", 0): 7, ("returns", 0): 7})
    with pytest.raises(RoutersRefused, match="several inputs, orders, returns"):
        cluster.find(SEVERAL, {"orders": 1, "returns": 1})


@pytest.mark.parametrize(
    ("stream", "inputs"), [(SEVERAL, {"orders": 1, "returns": 1}), (STREAM, {})]
)
def test_output_of_an_unknown_input_is_refused(
    stream: DedupeStream, inputs: Mapping[str, int]
) -> None:
    """Else every record that its workers have passed on may pass again."""
    with pytest.raises(RoutersRefused, match="which input"):
        Cluster(ends={OUTPUT: [3]}).find(stream, inputs)


def test_brokers_without_topic_ids_are_refused() -> None:
    cluster = Cluster({("orders", 0): 7})
    cluster.ids["orders"] = NO_TOPIC_ID
    with pytest.raises(RoutersRefused, match="give topics no ids"):
        cluster.find()


def test_a_stream_does_not_get_fewer_partitions_with_its_routers() -> None:
    check_partitions(DIRECT.partitions, 2)
    with pytest.raises(TopicUnusable, match="is 1, and the stream has 2 partitions"):
        check_partitions(DIRECT.partitions, 1)


def test_an_input_partition_is_handed_over_by_an_offset_with_a_cut() -> None:
    cluster = Cluster({("orders", 0): 7, ("orders", 1): 8, ("orders", 2): 9})
    text = encode_metadata("Out1", "In9", 4, Cut(1, 40))
    cluster.metadata = {
        ("orders", 0): encode_metadata("Out1", "In1", 4),
        ("orders", 1): with_token(text, "3-17"),
        ("orders", 2): text,
    }
    found = find_handed_over(DIRECT, STREAM, cluster.committed)
    start = RouterStart(offset=8, topic_id="In9")
    assert found == {1: HandOver(start, 40)}, "of the two partitions that there were"
