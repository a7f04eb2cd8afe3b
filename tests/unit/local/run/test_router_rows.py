"""What a run shows of its routers."""

import io
from datetime import UTC, datetime

from rich.console import Console

from dedupe_crds.status.router import (
    RepartitionTopicStatus,
    RouterInput,
    RouterPhase,
    RouterStatus,
)
from dedupe_local.run.fleet_view import FleetView
from dedupe_local.run.live_table import PlainLines, router_table
from dedupe_local.run.router_process import RouterView
from dedupe_local.run.router_rows import (
    router_changes,
    router_row,
    router_summary,
    stage_lines,
)
from tests.unit.local.run.views import status as worker_status
from tests.unit.local.run.views import view as worker_view


def status(*inputs: RouterInput, phase: RouterPhase = RouterPhase.RUNNING) -> RouterStatus:
    return RouterStatus(
        stream="default/s",
        router=0,
        phase=phase,
        ready=phase is RouterPhase.RUNNING,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        uptime_seconds=1.0,
        inputs=list(inputs),
        output=RepartitionTopicStatus(
            topic="out-repartition", partitions=4, held_records=2_000, held_bytes=3 << 20
        ),
    )


def view(number: int = 0, found: RouterStatus | None = None, **known: object) -> RouterView:
    return RouterView(router=number, status=found, **{"pid": 1, **known})  # type: ignore[arg-type] # tests name what they mean


RAW = RouterInput(topic="raw", partitions=[0, 1, 2], lag_messages=5)
MORE = RouterInput(topic="more", partitions=[1], lag_messages=2)
UNKNOWN = RouterInput(topic="raw", partitions=[3], lag_messages=None)


def test_a_row_has_what_a_router_reads_and_its_lag() -> None:
    row = router_row(view(1, status(RAW, MORE)), 3.0)
    assert (row.router, row.phase, row.partitions, row.lag_messages) == (1, "Running", 4, 7)
    assert router_row(view(0, status(RAW, UNKNOWN)), 0).lag_messages is None


def test_a_router_without_an_answer_is_starting_or_waiting() -> None:
    assert router_row(view(), 0).phase == "Starting"
    waiting = router_row(view(pid=None, last_exit="was killed by SIGKILL"), 0)
    assert (waiting.phase, waiting.details) == ("Waiting", "was killed by SIGKILL")


def test_a_router_in_trouble_says_why() -> None:
    paused = status(phase=RouterPhase.PAUSED).model_copy(
        update={"reason": "RepartitionTopicFull", "message": "raise it"}
    )
    assert router_row(view(0, paused), 0).details == "RepartitionTopicFull: raise it"
    warns = status().model_copy(update={"warnings": {"InputTopicMissing": "a does not exist"}})
    assert router_row(view(0, warns), 0).details == "InputTopicMissing"


def test_a_change_gets_a_line() -> None:
    before = [router_row(view(), 0)]
    after = [router_row(view(0, status(RAW)), 9.0)]
    assert router_changes(before, after) == ["router 0: Running"]
    assert router_changes(after, after) == []


def test_the_stage_is_summed_over_routers() -> None:
    other = RouterInput(topic="raw", partitions=[3], lag_messages=4)
    lines = stage_lines([view(0, status(RAW, MORE)), view(1, status(other)), view(2)])
    assert lines == [
        "input more: lag 2",
        "input raw: lag 9",
        "out-repartition: 4 partitions, epoch 0, holds 2,000 records (about 3Mi)",
    ]
    assert stage_lines([view()]) == []
    assert stage_lines([view(0, status(RAW)), view(1, status(UNKNOWN))])[0] == "input raw: lag -"


def test_of_many_inputs_those_with_the_largest_lag_are_shown() -> None:
    many = [RouterInput(topic=f"raw-{n:02}", partitions=[0], lag_messages=n) for n in range(12)]
    lines = stage_lines([view(0, status(*many))])
    assert lines[0] == "input raw-02: lag 2"
    assert lines[10] == "2 more inputs: lag 1"
    assert len(lines) == 12


def test_the_summary_says_how_far_routers_are() -> None:
    views = [view(0, status(RAW)), view(1)]
    rows = [router_row(each, 0) for each in views]
    held = "held 2,000 records (about 3Mi)"
    assert router_summary(rows, views) == f"routers 1 of 2, input lag ?, {held}"
    assert router_summary(rows[:1], views) == f"routers 1 of 1, input lag 5, {held}"
    assert router_summary(rows[1:], views[1:]) == "routers 0 of 1, input lag ?"


def test_the_table_has_a_row_for_each_router() -> None:
    console = Console(file=io.StringIO(), width=120)
    rows = [router_row(view(0, status(RAW, MORE), restarts=3), 1_234.5), router_row(view(1), 0)]
    console.print(router_table(rows))
    told = console.file.getvalue()  # type: ignore[attr-defined] # a StringIO
    assert told.startswith("Routers")
    [first, second] = [line for line in told.splitlines() if "│ " in line]
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in (first, second)]
    assert cells == [
        ["0", "Running", "1,234", "7", "4", "3", ""],
        ["1", "Starting", "0", "-", "0", "0", ""],
    ]


def lines_of(*, routers: bool) -> list[str]:
    console = Console(file=io.StringIO(), width=120)
    times = iter([0.0, 0.0, 0.0, 9.0, 9.0, 9.0])
    lines = PlainLines(console, lambda: next(times))
    found = [view(0, status(RAW))] if routers else []
    for _ in range(2):
        lines.show(FleetView(workers=[worker_view(status=worker_status())], routers=found))
    told: str = console.file.getvalue()  # type: ignore[attr-defined] # a StringIO
    return told.splitlines()


def test_lines_without_a_terminal_have_the_routers_too() -> None:
    alone, with_routers = lines_of(routers=False), lines_of(routers=True)
    assert with_routers[:-1] == ["router 0: Running", *alone[:-1]]
    stage = ", routers 1 of 1, input lag 5, held 2,000 records (about 3Mi)"
    assert with_routers[-1] == f"{alone[-1]}{stage}"
