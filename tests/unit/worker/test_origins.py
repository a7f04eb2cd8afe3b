"""The numbers of places: given once, kept as text, and the same after a rebuild."""

import numpy as np
import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from dedupe_ids.origin import HEADER, encode_origin, strip_origins
from dedupe_worker.origins import Origins, TooManyOrigins

PLACES = st.lists(
    st.tuples(st.sampled_from(["orders", "returns", "a.b-c_d"]), st.integers(0, 500)), max_size=30
)
OWN = ("orders-clean-repartition", 3)


def owner(number: int, offset: int) -> int:
    return number << 48 | offset


@given(PLACES)
def test_each_place_has_a_number_of_its_own(places: list[tuple[str, int]]) -> None:
    origins = Origins()
    numbers = {place: origins.number_of(place) for place in places}
    assert len(set(numbers.values())) == len(numbers)
    assert {place: origins.place_of(number) for place, number in numbers.items()} == {
        place: place for place in places
    }
    again = Origins(origins.text)
    assert {place: again.number_of(place) for place in places} == numbers
    assert again.text == origins.text


def test_partitions_that_are_added_get_numbers_and_change_none() -> None:
    origins = Origins()
    assert [origins.number_of(("orders", p)) for p in (0, 1, 2, 7)] == [0, 1, 2, 7]
    assert origins.number_of(("returns", 0)) == 8
    assert [origins.number_of(("orders", p)) for p in (8, 23, 0)] == [9, 24, 0]
    assert origins.text == "orders:0+8,returns:0+1,orders:8+24"
    assert [origins.place_of(number) for number in (24, 32, 33, -1)] == [
        ("orders", 23),
        ("orders", 31),
        None,
        None,
    ]


@given(st.permutations(range(50)))
def test_a_topic_takes_at_most_two_numbers_a_partition(partitions: list[int]) -> None:
    origins = Origins()
    for partition in partitions:
        origins.number_of(("orders", partition))
    origins.number_of(("returns", 0))
    assert origins.number_of(("returns", 0)) <= 2 * len(partitions)


def test_numbers_are_not_without_end_and_that_is_told_before() -> None:
    origins, hours = Origins(), 0
    while not origins.problem:
        hours += 1
        origins.number_of((f"orders-{hours}", 0))
    assert hours == 24_576
    assert "24,576 of the 32,768 numbers" in origins.problem
    while hours < 32_768:
        hours += 1
        origins.number_of((f"orders-{hours}", 0))
    with pytest.raises(TooManyOrigins, match="returns needs 1 more"):
        origins.number_of(("returns", 0))
    assert origins.number_of(("orders-9", 0)) == 8


def test_the_owner_of_a_record_is_its_origin_or_else_its_own_place() -> None:
    origins = Origins()
    places = [("orders", 2, 7), None, ("returns", 0, 9), ("orders", 2, 8)]
    records = [
        Message(topic="between", headers=[(HEADER, encode_origin(*place))] if place else None)
        for place in places
    ]
    found = origins.owners(strip_origins(records), OWN, np.array([10, 11, 12, 13], np.uint64))
    assert origins.text == "orders:0+4,returns:0+1,orders-clean-repartition:0+4"
    assert found.tolist() == [owner(2, 7), owner(8, 11), owner(4, 9), owner(2, 8)]


@given(PLACES, PLACES, st.integers(0, 2**48 - 1))
def test_owners_of_another_store_keep_their_places(
    ours: list[tuple[str, int]], theirs: list[tuple[str, int]], offset: int
) -> None:
    origins, others = Origins(), Origins()
    for place in ours:
        origins.number_of(place)
    owners = np.array([owner(others.number_of(place), offset) for place in theirs], np.uint64)
    adopted = origins.adopted(owners, Origins(others.text))
    assert [origins.place_of(each >> 48) for each in adopted.tolist()] == theirs
    assert {each & (2**48 - 1) for each in adopted.tolist()} <= {offset}


@given(PLACES, st.data())
def test_a_table_of_some_owners_names_their_places_alone(
    places: list[tuple[str, int]], data: st.DataObject
) -> None:
    origins = Origins()
    numbers = [origins.number_of(place) for place in places]
    some = data.draw(st.lists(st.sampled_from(range(len(places))))) if places else []
    owners = np.array([owner(numbers[each], each) for each in some], np.uint64)
    narrowed, named = origins.narrowed(owners)
    again = Origins(named.text)
    found = [(again.place_of(each >> 48), each & (2**48 - 1)) for each in narrowed.tolist()]
    assert found == [(places[each], each) for each in some]
    wanted = {places[each] for each in some}
    assert all(again.place_of(number) in wanted for number in range(len(wanted)))
    assert again.place_of(len(wanted)) is None


def test_a_number_that_no_place_has_is_damage() -> None:
    with pytest.raises(ValueError, match="no place has the number 9"):
        Origins().adopted(np.array([owner(9, 0)], np.uint64), Origins("orders:0+8"))
