"""What follows from results, and which goals they reach."""

import pytest
from matplotlib.figure import Figure

from benchmarks.scale.plots import plot_scale
from benchmarks.scale.report import scale_goals, scale_tables
from benchmarks.scale.result import Ageing, Scale
from benchmarks.tables import Goal
from tests.unit.benchmarks.scale.results import MIB, filled, run, rung, scale, start


def goal(result: Scale, what: str) -> Goal:
    (found,) = [each for each in scale_goals(result) if what in each.what]
    return found


def test_all_goals_can_be_reached() -> None:
    assert [each.what for each in scale_goals(scale()) if not each.reached] == []


def test_throughput_is_held_against_the_first_rung() -> None:
    slow = rung(100_000_000, run=run(cpu_seconds=8.0))
    found = goal(scale(rung(1_000_000), slow), "messages a CPU second")
    assert (found.measured, found.reached) == ("62%", False)


def test_disk_is_that_of_the_last_rung() -> None:
    large = rung(100_000_000, filled=filled(keys=100_000_000, bytes=3_100_000_000))
    found = goal(scale(rung(1_000_000), large), "disk for an id")
    assert (found.measured, found.reached) == ("31.0 B", False)


@pytest.mark.parametrize("which", ["start", "restart", "tail"])
def test_one_slow_start_is_enough_to_miss(which: str) -> None:
    slow = rung(1_000_000, **{which: start(reconciling_seconds=6.5)})
    found = goal(scale(slow, rung(100_000_000)), "start until it reconciles")
    assert (found.measured, found.reached) == ("6.5 s", False)


def test_memory_is_a_line_over_the_ids() -> None:
    base, per_id = scale().memory_line()
    assert base == pytest.approx(200 * MIB)
    assert per_id == pytest.approx(2.0)


def test_memory_that_grows_faster_than_the_filter_misses() -> None:
    large = rung(100_000_000, run=run(anonymous=700 * MIB))
    assert not goal(scale(rung(1_000_000), large), "memory flat").reached


def test_memory_that_comes_up_to_the_limit_misses() -> None:
    large = rung(100_000_000, run=run(anonymous=400 * MIB, peak=1024 * MIB))
    assert not goal(scale(rung(1_000_000), large), "memory flat").reached


def test_ageing_is_held_against_the_fill_before() -> None:
    ageing = Ageing(
        max_bytes=31_000_000, unaged=filled(cpu_seconds=2.0), aged=filled(cpu_seconds=2.2)
    )
    found = goal(scale(ageing=ageing), "in a window that ages")
    assert (found.measured, found.reached) == ("+10.0%", False)


def test_a_store_that_outgrows_its_window_misses() -> None:
    ageing = Ageing(max_bytes=31_000_000, unaged=filled(), aged=filled(peak_bytes=34_100_000))
    found = goal(scale(ageing=ageing), "to maxBytes")
    assert (found.measured, found.reached) == ("110%", False)


def test_write_amplification_is_over_all_fills() -> None:
    first = rung(1_000_000, filled=filled(ids=1_000_000, written=48_000_000))
    second = rung(4_000_000, filled=filled(ids=3_000_000, written=288_000_000))
    assert first.filled.write_amplification == 2.0
    assert scale(first, second).write_amplification == 3.5


def test_a_run_that_was_interrupted_after_its_first_rung_is_shown() -> None:
    result = scale(rung(1_000_000), ageing=None, rebuild=None)
    assert len(scale_tables(result)) == 5
    assert len(scale_goals(result)) == 4
    plot_scale(Figure(), result)


def test_every_row_of_every_table_has_all_columns() -> None:
    for table in scale_tables(scale()):
        assert all(len(row) == len(table.columns) for row in table.rows), table.title
