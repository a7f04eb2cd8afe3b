"""What is sent is a function of a seed, in values of any size."""

import json

import numpy as np
import pytest

from benchmarks.harness.traffic import (
    HEADERS,
    key_and_headers,
    key_of,
    number_in,
    traffic,
    value_of,
)


@pytest.mark.parametrize("size", [128, 512, 700, 4096])
def test_a_value_is_json_of_exactly_the_size_that_names_its_number(size: int) -> None:
    for number in (0, 1, 99_999, 123_456_789):
        value = value_of(number, key_of(number), size)
        assert len(value) == size
        assert number_in(value) == number
        assert json.loads(value)["messageId"] == key_of(number).decode()


def test_traffic_says_how_its_values_are_made() -> None:
    assert len(traffic(10, value_bytes=4096).value(3, key_of(3))) == 4096


def test_an_id_is_the_key_or_else_in_the_header_of_a_message_without_a_key() -> None:
    assert key_and_headers(b"a", keyed=True) == (b"a", HEADERS)
    assert key_and_headers(b"a", keyed=False) == (None, [("id", b"a")])


def test_a_message_is_first_sent_where_it_is_said_to_be() -> None:
    sent = traffic(20_000)
    _, first_at = np.unique(sent.numbers, return_index=True)
    assert sent.first_at.tolist() == first_at.tolist()
    assert 0.04 < 1 - len(first_at) / 20_000 < 0.06


def test_all_repeats_are_near_if_that_is_asked_for() -> None:
    def farthest(near_share: float) -> int:
        numbers = traffic(20_000, near_share=near_share).numbers
        latest = dict[int, int]()
        distances = [0]
        for position, number in enumerate(numbers.tolist()):
            distances.append(position - latest.get(number, position))
            latest[number] = position
        return max(distances)

    assert farthest(1.0) <= 1_000 < farthest(0.5)
