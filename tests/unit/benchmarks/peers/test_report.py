"""What the page says of the peers: figures, goals, and by how much a goal is missed."""

from io import StringIO

from rich.console import Console

from benchmarks.harness.machine import describe_machine
from benchmarks.peers.report import peers_goals, peers_tables
from benchmarks.report import markdown, show
from tests.unit.benchmarks.peers.runs import crash, peer, peers, run


def test_a_peer_is_told_by_its_median_and_its_extremes() -> None:
    rates = [run(per_cpu_second=rate) for rate in (3_000, 1_000, 2_000)]
    figures, _ = peers_tables(peers(peer("flink", *rates), peer("ours", run(per_cpu_second=6_000))))

    row = dict(zip(figures.columns, figures.rows[0], strict=True))

    assert row["msgs/CPU s"] == "2,000"
    assert row["of rounds"] == "1,000 to 3,000"
    assert row["ours : it"] == "3.00"
    assert row["msgs/s"] == "4,000"


def test_what_was_wrong_after_kills_is_in_the_row_and_nothing_where_nobody_was_killed() -> None:
    spark, bare = peer("spark", run(), crash=crash(lost=1, twice=2_000)), peer("bare", run())
    figures, _ = peers_tables(peers(spark, bare))

    assert [row[-3:] for row in figures.rows] == [["1", "2,000", "0"], ["", "", ""]]


def test_one_run_out_of_order_is_enough_to_say_so() -> None:
    figures, _ = peers_tables(peers(peer("flink", run(), run(reordered=1)), peer("quix", run())))

    at = figures.columns.index("in order")
    assert [row[at] for row in figures.rows] == ["no", "yes"]


def test_goals_are_held_against_the_best_peer_and_the_better_quix() -> None:
    goals = peers_goals(
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
    goals = peers_goals(
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
    assert peers_goals(peers(peer("flink", run()))) == []
    assert (
        peers_goals(peers(peer("ours", run()), peer("bare", run(), removes_duplicates=False))) == []
    )


def test_a_run_that_is_too_short_is_called_so() -> None:
    short = peers(peer("ours", run()))
    long = short.model_copy(update={"messages": 1_000_000})

    assert "Too few messages" in markdown(short)
    assert "Too few messages" not in markdown(long)


def test_the_page_says_who_failed_in_one_line() -> None:
    text = markdown(peers(peer("ours", run()), failures=("round 1: Quix ended\nits log\n",)))

    assert "Failed: round 1: Quix ended." in text
    assert "its log" not in text


def test_the_terminal_shows_the_same_table() -> None:
    console = Console(file=StringIO(), width=200)
    show(console, describe_machine(), peers(peer("ours", run(per_cpu_second=1_234))))

    assert isinstance(console.file, StringIO)
    assert "1,234" in console.file.getvalue()
