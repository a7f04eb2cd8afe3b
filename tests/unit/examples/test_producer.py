"""The plan of the demo's producer, and its messages."""

from collections import Counter
from itertools import pairwise

import pytest

from dedupe_crds.manifest import load_manifest
from examples.flights.data import messages
from examples.flights.demo import SCATTERED_MANIFEST
from examples.flights.producer import (
    ID_HEADER,
    Kind,
    Send,
    plan,
    repeats_in_another_partition,
    scatter,
)

COUNT, REPEATS = 20_000, 0.1


@pytest.fixture(scope="module", params=[1, 2013])
def sends(request: pytest.FixtureRequest) -> list[Send]:
    return plan(COUNT, REPEATS, request.param)


def test_every_message_is_sent_first_once_and_in_order(sends: list[Send]) -> None:
    assert [send.row for send in sends if send.kind is Kind.FIRST] == list(range(COUNT))


def test_a_retry_follows_its_message_at_once(sends: list[Send]) -> None:
    pairs = pairwise(sends)

    assert all(
        before.row == send.row and before.kind is not Kind.REPLAY
        for before, send in pairs
        if send.kind is Kind.RETRY
    )


def test_a_replay_comes_much_later_than_its_message(sends: list[Send]) -> None:
    first_at = {send.row: at for at, send in enumerate(sends) if send.kind is Kind.FIRST}
    distances = [
        at - first_at[send.row] for at, send in enumerate(sends) if send.kind is Kind.REPLAY
    ]

    # A batch at the end cannot be replayed much later.
    assert sum(distance > COUNT // 20 for distance in distances) > 0.8 * len(distances)
    assert min(distances) > 0


def test_half_of_the_repeats_are_retries_and_half_are_replays(sends: list[Send]) -> None:
    kinds = Counter(send.kind for send in sends)

    assert kinds[Kind.RETRY] == pytest.approx(COUNT * REPEATS / 2, rel=0.15)
    assert kinds[Kind.REPLAY] == pytest.approx(COUNT * REPEATS / 2, rel=0.15)


def test_a_rate_of_zero_repeats_nothing() -> None:
    assert plan(100, 0, 1) == [Send(row, Kind.FIRST) for row in range(100)]


def test_the_same_seed_gives_the_same_ids_and_another_seed_others() -> None:
    once, again, other = (list(messages(50, seed)) for seed in (1, 1, 2))

    assert once == again
    assert len({message.key for message in [*once, *other]}) == 100
    assert [message.value for message in once] == [message.value for message in other]


def test_scattered_records_are_the_same_in_random_partitions(sends: list[Send]) -> None:
    scattered = scatter(sends, 4, 1)
    partitions = Counter(send.partition for send in scattered)

    assert [send._replace(partition=None) for send in scattered] == sends
    assert scattered == scatter(sends, 4, 1) != scatter(sends, 4, 2)
    assert [partitions[number] for number in range(4)] == pytest.approx(
        [len(sends) / 4] * 4, rel=0.1
    )


def test_duplicates_without_an_earlier_copy_in_their_partition_are_counted() -> None:
    places = [(0, 1), (0, 1), (0, 2), (0, 1), (0, 0), (1, 3), (1, 3), (2, 0)]
    scattered = [Send(row, Kind.FIRST, partition) for row, partition in places]

    assert repeats_in_another_partition(scattered) == 2
    assert repeats_in_another_partition(plan(1_000, REPEATS, 1)) == 0


def test_the_manifest_of_scattered_records_names_the_header_of_the_producer() -> None:
    assert load_manifest(SCATTERED_MANIFEST).spec.id.name == ID_HEADER
