"""Goals are judged by the figures that were measured."""

import pytest

from benchmarks.cases.ageing import Ageing, AgeingPair
from benchmarks.cases.cores import CoresPair, CoreUse
from benchmarks.cases.extras import ExtraRate, ExtraRound, Extras
from benchmarks.cases.router_worker import WithWorker
from benchmarks.cases.throughput import Throughput
from benchmarks.recovery.failover import Climb, Failover, Rung
from benchmarks.reporting.goals import Goal
from benchmarks.reporting.render import Result, goals_of, text_of
from benchmarks.scale.result import Ageing as ScaleAgeing
from benchmarks.scale.result import Scale
from tests.unit.benchmarks.peers.runs import crash, peer, peers, run
from tests.unit.benchmarks.runs import (
    filters,
    fixed_tables,
    growth_use,
    landings,
    latency,
    loop_run,
    many_chunks,
    native_use,
    router_latency,
    router_use,
    size,
)
from tests.unit.benchmarks.scale import results


def told(result: Result) -> list[tuple[str, str, bool]]:
    """Wanted, measured, and whether the goal is reached."""
    return [(goal.wanted, goal.measured, goal.reached) for goal in goals_of(result)]


def reached(result: Result) -> list[bool]:
    return [goal.reached for goal in goals_of(result)]


def test_the_share_of_the_bare_loop_is_a_goal_for_each_size_from_the_smallest_on() -> None:
    result = Throughput(sizes=[size(512, 0.8, 0.9, 0.86), size(128, 0.84, 0.7, 0.9)])
    assert told(result) == [("≥ 85%", "84.0%", False), ("≥ 85%", "86.0%", True)]
    assert goals_of(result)[0].what.endswith("values of 128 bytes")


def test_a_minute_of_a_core_is_told_with_how_often_it_passes_the_goal() -> None:
    one, two = (
        loop_run(messages=50_000, cpu_seconds=0.9),
        loop_run(messages=75_000, cpu_seconds=1.4),
    )
    minute, speedup = told(CoreUse(messages=1000, rounds=[CoresPair(cores=2, one=one, two=two)]))
    assert minute == ("≥ 2 M", "3.0 M (1.5 times the goal)", True)
    assert speedup == ("≥ 1.60", "1.50", False)


def test_ageing_is_told_as_what_it_adds_to_the_cpu_time_of_a_message() -> None:
    pair = AgeingPair(keeping=loop_run(messages=1040), ageing=loop_run(messages=1000))
    assert told(Ageing(messages=1000, rounds=[pair])) == [("< 5%", "4.0%", True)]


def extras(*, passed: float, routed: float, filters: float = 1.0) -> Extras:
    """A result in which a passed and a routed record take so many CPU seconds."""

    def rate(share: float) -> ExtraRate:
        seconds = {"plain": 1.0, "conflicts": 1.09, "filters": filters}
        seconds["duplicates and owners"] = (1 - share) * passed + share * routed
        runs = {kind: loop_run(messages=1, cpu_seconds=each) for kind, each in seconds.items()}
        return ExtraRate(repeat_rate=share, rounds=[ExtraRound(runs=runs)] * 2)

    return Extras(messages=1000, rates=[rate(share) for share in (0.3, 0.05, 0.006)])


def test_a_routed_record_is_held_against_a_passed_one_of_the_same_stream() -> None:
    _, routed, *others = told(extras(passed=4.0, routed=8.0, filters=1.11))
    assert routed == ("≤ 1.3", "2.00, 54% off", False)
    assert others == [("≤ 10%", "9.0%", True), ("≤ 10%", "11.0%", False)]
    assert told(extras(passed=4.0, routed=5.0))[1] == ("≤ 1.3", "1.25", True)


def test_latency_at_half_load_has_a_goal_of_its_own() -> None:
    *usual, half = told(latency(usual_ms=50.1, half_load_ms=99.9))
    assert usual == [("≤ 50 ms", "50.1 ms", False), ("≤ 250 ms", "50.1 ms", True)]
    assert half == ("≤ 100 ms", "99.9 ms", True)


def test_a_router_is_held_against_its_bare_loop_by_the_median_of_the_rounds() -> None:
    assert told(router_use(0.8, 0.86, 0.9)) == [("≥ 85%", "86.0%", True)]
    assert told(router_use(0.51)) == [("≥ 85%", "51.0%, 40% off", False)]


def test_a_router_and_its_worker_are_held_against_a_worker_alone() -> None:
    alone, router, behind = (loop_run(cpu_seconds=each) for each in (1.0, 0.9, 1.1))
    together = WithWorker(alone=alone, router=router, behind=behind)
    result = router_use(0.9).model_copy(update={"with_worker": [together]})
    assert told(result)[1:] == [("≤ 1.9", "2.00, 5% off", False)]
    assert "| 1 | 10000.00 | 9000.00 | 11000.00 | 2.00 |" in text_of(result, "results")


def test_latency_with_routers_is_judged_and_that_without_them_is_not() -> None:
    result = router_latency((500.0, 61.0), (500.0, 59.0), (500.0, 200.0))
    assert told(result) == [("≤ 60 ms", "61.0 ms", False), ("≤ 150 ms", "61.0 ms", True)]


def test_a_growth_is_judged_by_its_longest_moved_id_and_by_the_usual_p99_of_those_that_stay() -> (
    None
):
    moves, stays, exact = told(growth_use())
    assert moves == ("< 10 s", "3.0 s", True)
    assert stays == ("≤ 1.00", "0.95 (190 : 200 ms)", True)
    assert exact == ("0, 0, 0", "0, 0, 0", True)
    assert reached(growth_use(moves_ms=10_000.0, stays_ms=201.0, lost=1)) == [False] * 3
    assert told(growth_use(stays_ms=300.0))[1] == ("≤ 1.00", "1.50 (300 : 200 ms)", False)


def test_each_goal_of_filters_is_reached_or_missed_by_its_own_figure() -> None:
    assert reached(filters()) == [True, True, True, True]
    assert reached(filters(measured=0.03)) == [False, True, True, True]
    assert reached(filters(fetched=201_000)) == [True, False, True, True]
    assert reached(filters(seconds=2.1)) == [True, True, False, True]
    assert reached(filters(cpu=13.1)) == [True, True, True, False]


def test_each_goal_of_many_chunks_is_reached_or_missed_by_its_own_figure() -> None:
    assert reached(many_chunks()) == [True, True]
    assert reached(many_chunks(plan=2.0)) == [False, True]
    assert reached(many_chunks(everything=3.9)) == [True, False]


def test_the_goal_of_landing_is_reached_or_missed_by_its_own_figure() -> None:
    assert reached(landings()) == [True]
    assert reached(landings(cpu=15.1)) == [False]


def test_each_goal_of_a_fixed_table_is_reached_or_missed_by_its_own_figure() -> None:
    assert reached(fixed_tables()) == [True, True]
    assert reached(fixed_tables(per_cpu_second=499_999)) == [False, True]
    assert reached(fixed_tables(measured=0.889)) == [True, False]
    assert reached(fixed_tables(measured=0.911)) == [True, False]


def test_failover_has_goals_for_each_size_of_reattach_and_csi_alone() -> None:
    climbs = [
        Climb(keys=1_000_000, rung=rung, seconds=[14.0, 15.0, 16.0], start_seconds=[1.0])
        for rung in Rung
    ]
    found = goals_of(Failover(nodes=2, climbs=climbs))
    assert [goal.what for goal in found] == [
        "reattach with 1 M ids, loss to ready",
        "CSI snapshot with 1 M ids, loss to ready",
    ]
    assert [goal.reached for goal in found] == [False, True]


# -- peers ---------------------------------------------------------------------------------------------


def test_goals_are_held_against_the_best_peer_and_the_better_quix() -> None:
    goals = goals_of(
        peers(
            peer("quix", run(per_cpu_second=900)),
            peer("quix-bloom", run(per_cpu_second=1_000)),
            peer("flink", run(per_cpu_second=2_000, peak_mib=1_000)),
            peer("ours", run(per_cpu_second=5_000, peak_mib=300), crash=crash()),
            peer("bare", run(per_cpu_second=9_000), removes_duplicates=False),
        )
    )

    assert [(goal.measured, goal.reached) for goal in goals] == [
        ("2.50", True),
        ("5.00", True),
        ("0.30", True),
        ("0, 0, 0", True),
    ]
    assert "Flink" in goals[0].what
    assert "Quix-bloom" in goals[1].what


def test_a_goal_that_is_missed_says_by_how_much() -> None:
    goals = goals_of(
        peers(
            peer("flink", run(per_cpu_second=2_000, peak_mib=1_000)),
            peer("ours", run(per_cpu_second=4_000, peak_mib=400), crash=crash(twice=7)),
        )
    )

    assert [(goal.measured, goal.reached) for goal in goals] == [
        ("2.00, 20% off", False),
        ("0.40, 20% off", False),
        ("0, 7, 0", False),
    ]


def test_without_ours_or_without_others_there_is_nothing_to_reach() -> None:
    assert goals_of(peers(peer("flink", run()))) == []
    assert goals_of(peers(peer("ours", run()), peer("bare", run(), removes_duplicates=False))) == []


# -- scale ---------------------------------------------------------------------------------------------


def goal(result: Scale, what: str) -> Goal:
    (found,) = [each for each in goals_of(result) if what in each.what]
    return found


def test_all_goals_can_be_reached() -> None:
    assert [each.what for each in goals_of(results.scale()) if not each.reached] == []


def test_throughput_is_held_against_the_first_rung() -> None:
    slow = results.rung(100_000_000, run=results.run(cpu_seconds=8.0))
    found = goal(results.scale(results.rung(1_000_000), slow), "messages per CPU second")
    assert (found.measured, found.reached) == ("62%", False)


@pytest.mark.parametrize(("micros", "reached"), [(1.35, True), (1.4, False)])
def test_a_lookup_is_that_of_the_last_rung(micros: float, *, reached: bool) -> None:
    large = results.rung(100_000_000, run=results.run(stages={"lookup": micros}))
    found = goal(results.scale(results.rung(1_000_000), large), "lookup of an id")
    assert found.what == "lookup of an id, elapsed, with 100 M ids (with 1 M: 0.70 µs)"
    assert (found.wanted, found.measured) == ("≤ 1.35 µs", f"{micros:.2f} µs")
    assert found.reached is reached


def test_disk_is_that_of_the_last_rung() -> None:
    filled = results.filled(keys=100_000_000, bytes=3_100_000_000)
    large = results.rung(100_000_000, filled=filled)
    found = goal(results.scale(results.rung(1_000_000), large), "disk per id")
    assert (found.measured, found.reached) == ("31.0 B", False)


def test_one_slow_start_is_enough_to_miss() -> None:
    for which in ("start", "restart", "tail"):
        slow = results.rung(1_000_000, **{which: results.start(reconciling_seconds=6.5)})
        found = goal(results.scale(slow, results.rung(100_000_000)), "start of a worker")
        assert (found.measured, found.reached) == ("6.5 s", False)


def test_memory_that_grows_faster_than_the_filter_misses() -> None:
    large = results.rung(100_000_000, run=results.run(anonymous=700 * results.MIB))
    assert not goal(results.scale(results.rung(1_000_000), large), "memory constant").reached


def test_memory_that_comes_up_to_the_limit_misses() -> None:
    at_limit = results.run(anonymous=400 * results.MIB, peak=1024 * results.MIB)
    large = results.rung(100_000_000, run=at_limit)
    found = goal(results.scale(results.rung(1_000_000), large), "memory constant")
    assert found.measured.endswith("peak 1024 MiB of 1024")
    assert not found.reached


def test_ageing_is_held_against_the_fill_before() -> None:
    ageing = ScaleAgeing(
        max_bytes=31_000_000,
        unaged=results.filled(cpu_seconds=2.0),
        aged=results.filled(cpu_seconds=2.2),
    )
    found = goal(results.scale(ageing=ageing), "ageing adds")
    assert (found.measured, found.reached) == ("+10.0%", False)


def test_a_store_that_outgrows_its_window_misses() -> None:
    aged = results.filled(peak_bytes=34_100_000)
    ageing = ScaleAgeing(max_bytes=31_000_000, unaged=results.filled(), aged=aged)
    found = goal(results.scale(ageing=ageing), "of maxBytes")
    assert (found.measured, found.reached) == ("110%", False)


def test_the_native_path_is_held_against_today_s_in_the_median_round() -> None:
    assert told(native_use(2.5, 3.0, 2.25)) == [("≥ 2", "2.50", True)]
    assert reached(native_use(1.5, 3.0, 1.75)) == [False]
