"""Traffic is a function of its seed, with the promised shares."""

import pytest

from dedupe_kafka.partitioners import Partitioner, partitions_of
from tests.support.checker.id_sources import content_id, header_id, json_id, key_id
from tests.support.traffic.hostile import hostile
from tests.support.traffic.traffic import ID_HEADER, ID_STEPS, retries


def test_the_same_seed_sends_the_same_and_another_does_not() -> None:
    assert list(retries(1, 500)) == list(retries(1, 500))
    assert list(retries(1, 500)) != list(retries(2, 500))
    assert list(hostile(1, 500)) == list(hostile(1, 500))
    assert list(hostile(1, 500)) != list(hostile(2, 500))


def test_repeats_are_as_many_as_asked_for() -> None:
    messages = list(retries(3, 10_000, repeat_rate=0.2))
    unique = {key_id(each) for each in messages}
    assert 0.18 < 1 - len(unique) / len(messages) < 0.22


def test_half_of_the_repeats_differ_from_the_first() -> None:
    messages = list(retries(3, 5_000, repeat_rate=0.5))
    by_key = {key_id(each) for each in messages}
    by_content = {content_id(each) for each in messages}
    assert len(by_content) > 1.2 * len(by_key)


def test_an_order_has_one_id_in_three_places_and_one_partition() -> None:
    messages = list(retries(4, 500, partitions=4))
    keys = [key_id(each) for each in messages]
    assert keys == [header_id(ID_HEADER)(each) for each in messages]
    texts = [("text", key.decode()) for key in keys if isinstance(key, bytes)]
    assert texts == [json_id(*ID_STEPS)(each) for each in messages]
    assert len({(each.key, each.partition) for each in messages}) == len(set(keys))
    assert {each.partition for each in messages} == {0, 1, 2, 3}


@pytest.mark.parametrize("partitions", [1, 2, 3, 4, 6])
def test_partitions_are_those_that_librdkafka_chooses(partitions: int) -> None:
    """Else a stream says that no known partitioner explains them."""
    messages = list(retries(4, 200, partitions=partitions))
    keys = [message.key or b"" for message in messages]
    wanted = partitions_of(keys, partitions, Partitioner.CRC32).tolist()
    assert [message.partition for message in messages] == wanted


def test_traffic_goes_on_where_another_left_off_without_an_id_in_common() -> None:
    first = {key_id(each) for each in retries(5, 100, repeat_rate=0)}
    second = {key_id(each) for each in retries(5, 100, repeat_rate=0, start=100)}
    assert not first & second
