"""Both pages show what was measured, and nothing that was not."""

import re
from io import StringIO
from itertools import pairwise
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.cases.ageing import Ageing, AgeingPair
from benchmarks.cases.cores import CoresPair, CoreUse
from benchmarks.cases.extras import ExtraRate, ExtraRound, Extras
from benchmarks.cases.memory import MemoryRun, MemoryUse, Sample
from benchmarks.cases.reconcile import KINDS, Reconcile, ReconcileRun
from benchmarks.cases.throughput import Throughput
from benchmarks.kubernetes.results import Cost, OperatorUse, Readiness
from benchmarks.operator_load.result import OperatorLoad
from benchmarks.peers.results import UnkeyedPeers
from benchmarks.recovery.bucket import Restore, Upload
from benchmarks.recovery.failover import Climb, Failover, Rung
from benchmarks.recovery.local import Rebuild, Recovered, Recovery
from benchmarks.recovery.pause import Pause
from benchmarks.reporting.goals import judge
from benchmarks.reporting.plots import plot
from benchmarks.reporting.render import (
    PAGE,
    PARTS,
    SCALE,
    WORKER,
    Measured,
    Result,
    View,
    goals_of,
    load,
    name_of,
    save,
    show,
    text_of,
    write_pages,
)
from tests.unit.benchmarks.peers.runs import crash, peer, peers, run
from tests.unit.benchmarks.runs import (
    MACHINE,
    aggregated,
    audits,
    change,
    change_latency,
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
from tests.unit.benchmarks.scale.results import rung, scale

MIB = 1 << 20


def memory_run(what: str) -> MemoryRun:
    return MemoryRun(
        what=what,
        messages=10,
        keys=9_000_000,
        working=200 * MIB,
        working_anonymous=150 * MIB,
        idle=180 * MIB,
        idle_anonymous=140 * MIB,
        peak=210 * MIB,
        samples=[Sample(offset=10, resident=200 * MIB, anonymous=150 * MIB)],
    )


def upload(added: int, new_bytes: int) -> Upload:
    return Upload(
        name="a",
        manifest="m",
        keys=1_000_000,
        added=added,
        bytes=40_000_000,
        new_bytes=new_bytes,
        seconds=1.0,
    )


def unkeyed() -> UnkeyedPeers:
    """A result in which ours is four times as fast, and half of its time is the router's."""
    ours = peer("ours", run(per_cpu_second=100_000, router=5.0))
    both = peers(peer("flink", run(per_cpu_second=25_000), crash=crash(twice=1)), ours)
    return UnkeyedPeers.model_validate(both.model_dump())


RESULTS: list[Result] = [
    Throughput(sizes=[size(512, 0.8, 0.9), size(128, 0.84)]),
    CoreUse(messages=1000, rounds=[CoresPair(cores=2, one=loop_run(), two=loop_run(messages=150))]),
    Ageing(messages=1000, rounds=[AgeingPair(keeping=loop_run(), ageing=loop_run())]),
    Extras(
        messages=1000,
        rates=[
            ExtraRate(
                repeat_rate=rate,
                rounds=[
                    ExtraRound(
                        runs={
                            "plain": loop_run(messages=1040),
                            "duplicates and owners": loop_run(messages=1000),
                        }
                    )
                ],
            )
            for rate in (0.006, 0.3)
        ],
    ),
    fixed_tables(),
    latency(usual_ms=30.0, half_load_ms=40.0),
    MemoryUse(
        growing=[memory_run("to 9 M keys, tiny messages")],
        backlogs=[memory_run("short"), memory_run("long")],
    ),
    Reconcile(
        records=1000,
        runs=[
            ReconcileRun(
                kind=kind,
                reason="Tail",
                records=1000,
                seconds=2.0,
                ready_seconds=3.0,
                cpu_seconds=4.0,
            )
            for kind in KINDS
        ],
    ),
    router_use(0.7, 0.9, 0.8),
    router_latency((30.0, 50.0), (20.0, 45.0), (40.0, 70.0)),
    growth_use(),
    unkeyed(),
    OperatorUse(
        nodes=1,
        readiness=[Readiness(partitions=8, seconds=7.84)],
        costs=[
            Cost(
                streams=20, doing="at rest", seconds=60, reads=602, writes=0, memory_bytes=97 * MIB
            )
        ],
    ),
    OperatorLoad(
        streams=500,
        partitions=16,
        ready_seconds=157.2,
        seconds=600,
        cpu_seconds=228,
        memory_bytes=754 * MIB,
        requests={"get secrets": 3900, "list pods": 36, "list nodes": 1},
    ),
    Recovery(
        sizes=[
            Recovered(
                keys=1_000_000,
                rebuild=Rebuild(records=1_000_000, seconds=4, ready_seconds=7, cpu_seconds=5),
                reattach_seconds=[2.5, 2.6, 2.9],
                pause=Pause(
                    rate=10_000,
                    bytes=51_000_000,
                    with_ms=[78, 133],
                    without_ms=[53],
                    loop_ms=[84],
                    request_ms=[56],
                ),
                uploads=[
                    upload(1_000_000, 40_000_000),
                    *(upload(added, 100_000) for added in (1_000, 10_000, 100_000)),
                ],
                restore=Restore(
                    bytes=81_000_000,
                    seconds=1.0,
                    ready_seconds=4.8,
                    write_seconds=0.2,
                    download_seconds=1.5,
                ),
            )
        ]
    ),
    Failover(
        nodes=2,
        climbs=[
            Climb(keys=1_000_000, rung=r, seconds=[9.0, 11.0], start_seconds=[3]) for r in Rung
        ],
    ),
    peers(peer("flink", run()), peer("ours", run(), crash=crash())),
    scale(),
    filters(),
    aggregated((100, 9), (1000, 2), (100, 10), (1000, 4), (100, 11)),
    many_chunks(),
    landings(),
    audits(),
    change((5.0, 4.0), (6.0, 3.0), (4.0, 3.8)),
    change_latency(200.0, 82.0, 80.0, 81.0),
    native_use(2.5, 2.0, 3.0),
]
NAMES = [name_of(result) for result in RESULTS]


def all_of(result: Result) -> str:
    """Text of both pages."""
    return f"{text_of(result, 'results')}\n\n{text_of(result, 'details')}"


def cells(text: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]


def test_the_load_of_an_operator_is_told_by_the_second() -> None:
    (load,) = (each for each in RESULTS if isinstance(each, OperatorLoad))
    assert "0.38 cores and 754 MiB, and makes 6.6 requests a second" in all_of(load)
    assert cells(all_of(load))[2:] == [["get secrets", "6.50"], ["list pods", "0.06"]]
    assert [(goal.measured, goal.reached) for goal in goals_of(load)] == [("0.38", True)]


def test_there_is_an_example_of_every_result() -> None:
    assert sorted(NAMES) == sorted(name for part in PARTS for name in part.models)


NOT_DRAWN = {
    *("operator", "operator_load", "many_chunks", "landing", "audit"),
    *("change", "change_latency", "native"),
}


@pytest.mark.parametrize("result", RESULTS, ids=NAMES)
def test_a_result_is_shown_judged_drawn_and_saved(result: Result, tmp_path: Path) -> None:
    """Each table has rows of all columns, and each goal a figure."""
    tables = [block for block in all_of(result).split("\n\n") if "\n| ---" in f"\n{block}"]
    assert tables
    for table in tables:
        rows = cells(table)
        assert len(rows) > 2, table
        assert {len(row) for row in rows} == {len(rows[0])}, table
    for goal in goals_of(result):
        assert re.search(r"\d", goal.measured), goal
    file = tmp_path / "result.svg"
    plot(result, file)
    assert file.exists() == (name_of(result) not in NOT_DRAWN)
    assert not file.exists() or file.stat().st_size > 1000
    save(Measured(machine=MACHINE, result=result), tmp_path)
    [part] = [part for part in PARTS if name_of(result) in part.models]
    assert load(part, tmp_path) == {name_of(result): Measured(machine=MACHINE, result=result)}


ROWS = [
    ("throughput", "| 512 | 1,000 | 2 | 1,000 | 850 | 85.0% |  |"),
    ("extras", "| 1, duplicates and owners | 1,000 | 1,000 | 0.30 | 0.10 | 1 | +4.0% |"),
    ("inverse_bloom", "| 50,000 | 1 | 2.00 M | 1.00 to 3.00 M |"),
    ("inverse_bloom", "| 105 | 90.00% | 89.50% |"),
    ("latency", "| 25 ms (default) | 10,000 | 30.0 | 30.0 | 30.0 | 30.0 |"),
    ("memory", "| short | 10 | 9,000,000 | 200 | 150 | 180 | 140 | 210 |"),
    ("reconcile", "| Tail (Tail) | 500 | 2.00 | 3.00 | 4.00 |"),
    ("router", "| bare loop | 1,000 | 1000.00 | 1,000 |  |  |"),
    ("router", "| router | 800 | 1250.00 | 800 | 80.0% | 70.0% to 90.0% |"),
    ("router", "| 2 router | 900 | 900 | 0.30 | 0.10 | 1 | 90.0% |"),
    ("router_latency", "| with a worker | 30.0 | 20.0 to 40.0 | 30.0 | 20.0 to 40.0 | 30.0 |"),
    (
        "router_latency",
        "| with a router and a worker | 50.0 | 45.0 to 70.0 | 50.0 | 45.0 to 70.0 | 50.0 |",
    ),
    ("growth", "| before the growth | 20.0 | 200 | 50 | 200 | 400 | 100 | 60 | 100 | 200 |"),
    (
        "growth",
        "| of it, until the first step | 1.0 | 200 | 50 | 200 | 400 | 100 | 60 | 100 | 200 |",
    ),
    ("growth", "| of it, step ReadingRest | 3.0 | 0 |  |  |  | 100 | 60 | 1,500 | 3,000 |"),
    ("growth", "| partition 4 | 3.0 | 900 | 300 | 150 | 50 | 1,100 |"),
    (
        "growth",
        "learnt 100 ids/s and read 6.0 MB of the old outputs, which have 3.0 MB: 2.00 times",
    ),
    ("operator", "| 20 | at rest | 60 | 602 | 0.50 | 0 | 97 |"),
    ("operator", "| 8 | 7.8 |"),
    ("recovery", "| 1 M | 2.6 | 2.9 | 7.0 | 250,000 | 200,000 |"),
    ("recovery", "| 1 M, 1.0% more | 40.00 | 0.10 | 0.10 | 0.10 | 0.25% | 1.0 |"),
    ("failover", "| 1 M, reattach | the pod deleted by force | 10.0 | 11.0 | 3.0 | 2 |"),
    ("filters", "| 10,000 | 1.0 | 0.1 | 90.0% | 8.00 | 1.00 | 8.0 |"),
    ("aggregate", "| 100 | 10.0 | 100 | 20.0 | 1.0 | 50 |"),
    ("aggregate", "| 1,000 | 3.0 | 333 | 6.0 | 1.0 | 167 |"),
    ("many_chunks", "| everything, filtered by Spark | 1,000 |  |  | 9.00 | 12.00 |"),
    ("many_chunks", "| 1 chunk in 1,000 | 1,000 | 10 | 0.50 | 1.00 | 2.00 |"),
    ("landing", "| land, Parquet | 5.0 | 200 | 15.0 | 67 | 3 | 2.0 | 4.0 | 7 |"),
    (
        "audit",
        "| 64 | 1,000,000 | 950,000 | 10 | 195,000 | 10.00 | 100,000 | 60 | 3 | 1,024 |",
    ),
    (
        "change",
        "| passed, 5% repeats | 5.00 | 4.00 to 6.00 | 3.80 | 3.00 to 4.00 | 0.80 |",
    ),
    ("change", "messages per CPU second: 60.0% before, 78.9% after."),
    ("change", "took 2.20 times the worker\nalone before, 1.75 times after."),
    ("change_latency", "| after | 81.0 | 81.0 | 80, 81, 82 | 81.0 | 0.40 |"),
    ("native", "| 512 | 1,000 | 1000.00 | 400.00 | 1,000 | 2,500 | 2.50 | 2.00 to 3.00 |"),
    ("native", "| native | 60.0 | 60.0 | 60, 60, 60 | 60.0 | 0.40 |"),
    # A terabyte has 12.5 billion such records, and the output 95 % of them.
    ("audit", "| 64 | 12.5 billion | 68 | 8.5 | 1.1 | 1,462 |"),
    ("audit", "| 1,024 | 1.0 billion | 10 | 1.3 | 0.2 | 112 |"),
]


def test_figures_are_those_of_the_result() -> None:
    texts = {name_of(result): all_of(result) for result in RESULTS}
    assert [(name, row) for name, row in ROWS if row not in texts[name]] == []


def test_an_audit_on_a_busy_machine_says_so() -> None:
    assert "Spark got 49% of the 2 cores" in all_of(audits(seconds=20.0))
    assert "Spark got" not in all_of(audits(seconds=10.0))


def test_without_keys_ours_is_shown_with_the_part_of_its_routers() -> None:
    columns, _, flink, ours = cells(text_of(unkeyed(), "results"))

    shown = [dict(zip(columns, row, strict=True)) for row in (flink, ours)]

    assert [row["CPU µs per message"] for row in shown] == ["40.00", "10.00"]
    assert [row["it : ours"] for row in shown] == ["4.00", "1.00"]
    assert [row["of it routers"] for row in shown] == ["", "5.00"]
    assert [row["duplicated"] for row in shown] == ["1", ""]


def test_a_peer_is_told_by_its_median_and_its_extremes() -> None:
    rates = [run(per_cpu_second=rate) for rate in (3_000, 1_000, 2_000)]
    result = peers(peer("flink", *rates), peer("ours", run(per_cpu_second=6_000)))

    columns, _, flink, _ = cells(text_of(result, "results"))

    row = dict(zip(columns, flink, strict=True))
    assert row["msgs/CPU s"] == "2,000"
    assert row["of rounds"] == "1,000 to 3,000"
    assert row["ours : it"] == "3.00"
    assert row["msgs/s"] == "4,000"


def test_what_was_wrong_after_kills_is_in_the_row_and_nothing_where_nobody_was_killed() -> None:
    spark, bare = peer("spark", run(), crash=crash(lost=1, twice=2_000)), peer("bare", run())
    rows = cells(text_of(peers(spark, bare), "results"))[2:]
    assert [row[-3:] for row in rows] == [["1", "2,000", "0"], ["", "", ""]]


def test_one_run_out_of_order_is_enough_to_say_so() -> None:
    result = peers(peer("flink", run(), run(reordered=1)), peer("quix", run()))
    columns, _, *rows = cells(text_of(result, "results"))
    at = columns.index("in order")
    assert [row[at] for row in rows] == ["no", "yes"]


def test_a_run_that_is_too_short_is_called_so() -> None:
    short = peers(peer("ours", run()))
    long = short.model_copy(update={"messages": 1_000_000})
    assert "Too few messages" in all_of(short)
    assert "Too few messages" not in all_of(long)


def test_the_page_says_who_failed_in_one_line() -> None:
    text = all_of(peers(peer("ours", run()), failures=("round 1: Quix ended\nits log\n",)))
    assert "Failed: round 1: Quix ended." in text
    assert "its log" not in text


def test_the_terminal_shows_the_same_figures_and_names_a_missed_goal() -> None:
    console = Console(file=StringIO(), width=200)
    result = peers(
        peer("flink", run(per_cpu_second=1_000)), peer("ours", run(per_cpu_second=1_234))
    )
    show(console, Measured(machine=MACHINE, result=result))
    assert isinstance(console.file, StringIO)
    assert "1,234" in console.file.getvalue()
    assert "1.23, 51% off, wanted ≥ 2.5: missed" in console.file.getvalue()


def test_a_run_that_was_interrupted_after_its_first_rung_is_shown(tmp_path: Path) -> None:
    result = scale(rung(1_000_000), ageing=None, rebuild=None)
    text = all_of(result)
    assert text.count("| --- |") == 5
    assert len(judge(name_of(result), result)) == 5
    assert "Ageing" not in text
    assert "without a store" not in text
    plot(result, tmp_path / "scale.svg")


@pytest.mark.parametrize("result", RESULTS, ids=NAMES)
def test_the_committed_pages_have_the_tables_of_the_template(result: Result) -> None:
    [part] = [part for part in PARTS if name_of(result) in part.models]
    views: tuple[tuple[View, Path], ...] = (
        ("results", PAGE),
        ("details", PAGE.with_name("performance-method.md")),
    )
    for view, page in views:
        text = page.read_text().partition(part.begin)[2].partition(part.end)[0]
        assert text, f"{page} has no part of {part.made_by}"
        lines = text_of(result, view).splitlines()
        for header in (line for line, rule in pairwise(lines) if rule.startswith("| ---")):
            assert header in text.splitlines()
    # The bound of two workers on two cores depends on what they leave to each other.
    fixed = [] if name_of(result) == "cores" else goals_of(result)
    results = PAGE.read_text()
    assert [goal.wanted for goal in fixed if f"| {goal.wanted} |" not in results] == []


def test_both_pages_have_the_results_between_their_lines(tmp_path: Path) -> None:
    save(Measured(machine=MACHINE, result=scale()), tmp_path)
    page, method = tmp_path / "performance.md", tmp_path / "performance-method.md"
    page.write_text("# Performance\n\nOthers.\n")
    write_pages(SCALE, tmp_path, page)
    first = page.read_text()
    assert first.startswith("# Performance\n\nOthers.\n")
    assert "generated by `make bench-scale`" in first
    assert "| ≥ 70% | 100% | reached |" in first
    assert "generated by `make bench-scale`" in method.read_text()
    assert "Its memory, MiB" in method.read_text()
    write_pages(SCALE, tmp_path, page)
    assert page.read_text() == first


def test_what_was_not_measured_is_neither_added_nor_changed(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text(f"# Performance\n\n{WORKER.begin}\n\nas it was\n\n{WORKER.end}\n")
    before = page.read_text()
    assert write_pages(WORKER, tmp_path, page) == {}
    assert write_pages(SCALE, tmp_path, page) == {}
    assert page.read_text() == before
    save(Measured(machine=MACHINE, result=latency(usual_ms=50.1, half_load_ms=30.0)), tmp_path)
    write_pages(WORKER, tmp_path, page)
    assert "| ≤ 50 ms | 50.1 ms | missed |" in page.read_text()
    assert "values of 512 bytes" not in page.read_text()
    assert "Memory" not in (tmp_path / "performance-method.md").read_text()
