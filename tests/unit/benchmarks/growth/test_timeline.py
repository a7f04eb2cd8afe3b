"""Delays count for a step, and for an id that stays or that moves."""

import numpy as np

from benchmarks.growth.timeline import ASKED, Received, Steps, delays_of, partitions_of
from benchmarks.harness.router import UNKEYED_SPEC
from benchmarks.harness.traffic import ID_HEADER, key_of
from dedupe_crds.manifest import parse_manifest
from dedupe_crds.spec.repartition import RepartitionBy
from dedupe_crds.status.growth import GrowthStep
from dedupe_ids.route import Route
from tests.unit.crds.manifests import changed
from tests.unit.router.group import record

SECOND = 1_000_000_000


def test_a_step_lasts_until_the_next_one_is_seen() -> None:
    steps = Steps(0)
    looks = (None, GrowthStep.LEARNING, GrowthStep.LEARNING, GrowthStep.READING_REST)
    for number, step in enumerate(looks):
        steps.see(step, number + 1)
    assert not steps.done
    steps.see(GrowthStep.DONE, 9)
    steps.see(GrowthStep.DONE, 10)
    assert steps.done
    assert (steps.asked_ns, steps.done_ns) == (0, 9)
    assert steps.spans() == [(ASKED, 0, 2), ("Learning", 2, 4), ("ReadingRest", 4, 9)]


def test_a_message_counts_for_the_time_at_which_it_was_due() -> None:
    due = np.array([0, 1, 2, 3]) * SECOND
    delays, moves = np.array([10.0, 4_000.0, 20.0, 30.0]), np.array([True, True, False, False])

    period = Received(due, delays, moves).during("Learning", 1 * SECOND, 3 * SECOND)

    assert (period.name, period.seconds) == ("Learning", 2.0)
    assert period.moves is not None
    assert (period.moves.records, period.moves.longest_ms) == (1, 4_000.0)
    assert period.stays is not None
    assert (period.stays.records, period.stays.longest_ms) == (1, 20.0)


def test_delays_are_told_by_quantiles_and_none_of_none() -> None:
    found = delays_of(np.arange(101, dtype=np.float64))
    assert found is not None
    assert (found.p50_ms, found.p99_ms, found.longest_ms) == (50.0, 99.0, 100.0)
    assert delays_of(np.array([], np.float64)) is None


def test_an_id_stays_or_moves_to_a_new_partition_as_the_routers_say() -> None:
    numbers = range(3_000)
    before, after = partitions_of(numbers, [4, 6])
    moves = before != after
    assert set(after[moves].tolist()) == {4, 5}
    assert 0.30 < moves.mean() < 0.37


def test_partitions_are_those_of_the_ids_in_the_header() -> None:
    records = [record(offset=n, headers=[(ID_HEADER, key_of(n))]) for n in range(200)]
    spec = parse_manifest(changed({"spec.id": UNKEYED_SPEC["id"]}), "-").spec
    (mine,) = partitions_of(range(200), [6])
    assert Route(spec, RepartitionBy.ID, 6).of(records).partitions == mine.tolist()
