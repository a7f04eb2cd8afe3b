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
    row = router_row(view(1, status(RAW, MORE), routed=10), 3.0)
    assert (row.router, row.phase, row.inputs, row.lag_messages, row.routed) == (
        1,
        "Running",
        "raw 0-2; more 1",
        7,
        10,
    )
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
    rows = [router_row(view(0, status(RAW), routed=1_000), 20.0), router_row(view(1), 0)]
    assert router_summary(rows) == "1 of 2 routers running, 20 records/s, 1,000 routed, lag ?"


def test_the_table_and_the_lines_have_the_routers() -> None:
    console = Console(file=io.StringIO(), width=120)
    console.print(router_table([router_row(view(0, status(RAW)), 1.0)]))
    times = iter([0.0, 0.0, 0.0, 9.0, 9.0, 9.0])
    lines = PlainLines(console, lambda: next(times))
    fleet = FleetView(workers=[], routers=[view(0, status(RAW))])
    lines.show(fleet)
    lines.show(fleet)
    told = console.file.getvalue()  # type: ignore[attr-defined] # a StringIO
    assert "raw 0-2" in told
    assert told.count("router 0: Running") == 1
    assert "input raw: lag 5" in told
