"""Rows, changes, summary and table as a user sees them."""

import io
from datetime import UTC, datetime

from rich.console import Console

from dedupe_crds.formatting import duration, share
from dedupe_crds.status.worker import Counts, DegradedReason, Phase
from dedupe_local.run.live_table import table
from dedupe_local.run.table_rows import Rates, changes, row, summary, without_id
from tests.unit.local.run.views import status, view


def test_a_rate_is_of_the_last_seconds_only() -> None:
    rates = Rates()
    rates.observe({0: 0}, now=0)
    assert rates.observe({0: 1000}, now=1) == [1000.0]
    assert rates.observe({0: 1000}, now=5) == [200.0]
    assert rates.observe({0: 1000}, now=11) == [0.0]


def test_a_first_look_knows_no_rate() -> None:
    assert Rates().observe({0: 7, 1: 8}, now=3) == [0.0, 0.0]


def test_a_worker_without_an_answer_is_starting_or_waiting_for_its_turn() -> None:
    assert row(view(), 0).phase == "Starting"
    waiting = row(view(pid=None, last_exit="was killed by SIGKILL", restarts=1), 0)
    assert (waiting.phase, waiting.details) == ("Waiting", "was killed by SIGKILL")


def test_a_worker_in_trouble_says_why() -> None:
    failed = status(phase=Phase.FAILED, reason="DiskFull", message="free some space")

    assert row(view(status=failed), 0).details == "DiskFull: free some space"


def test_a_worker_that_does_not_keep_everything_says_what() -> None:
    now = datetime(2026, 11, 1, tzinfo=UTC)
    listed = [
        DegradedReason(reason=each, message="why", first_seen=now, last_seen=now)
        for each in ("MissingIds", "WindowShortened")
    ]
    runs = status().model_copy(update={"degraded": listed})

    assert row(view(status=runs), 0).details == "MissingIds; WindowShortened"


def test_a_worker_in_which_no_record_has_an_id_says_it_in_full() -> None:
    now = datetime(2026, 11, 1, tzinfo=UTC)
    listed = [DegradedReason(reason="MissingIds", message="no one", first_seen=now, last_seen=now)]
    counts = Counts(consumed=3, without_id=3)
    runs = status().model_copy(update={"degraded": listed, "counts": counts})
    assert row(view(status=runs), 0).details == "MissingIds: no one"
    some = runs.model_copy(update={"counts": Counts(consumed=4, without_id=3)})
    assert row(view(status=some), 0).details == "MissingIds"


def test_records_without_an_id_are_shown_by_why_and_are_no_change_of_state() -> None:
    before, after = (
        row(view(status=status(), missing_ids={"NotJson": records}), 0) for records in (1, 1_000)
    )
    assert changes([before], [after]) == []
    assert without_id([{"WrongType": 1}, {"NotJson": 1_999, "WrongType": 2}, {}]) == (
        "without an id: 2,002 (NotJson 1,999, WrongType 3)"
    )
    assert without_id([{}]) == ""
    assert summary([after]).endswith("0 restarts, without an id: 1,000 (NotJson 1,000)")


def test_only_a_change_of_state_is_worth_a_line() -> None:
    before = [row(view(status=status()), 0), row(view(1, status=status()), 0)]
    after = [
        row(view(status=status(5), consumed=5), 9.0),
        row(view(1, pid=None, last_exit="was killed by SIGKILL"), 0),
    ]

    assert changes(before, after) == ["partition 1: Waiting (was killed by SIGKILL)"]
    assert changes(after, after) == []
    assert changes([], before) == ["partition 0: Running", "partition 1: Running"]


def test_the_summary_adds_up_all_partitions() -> None:
    rows = [
        row(view(status=status(lag_messages=1000), consumed=1500, duplicates=100), 1200.4),
        row(view(1, status=status(lag_messages=5), consumed=500, restarts=2), 0.3),
    ]

    assert summary(rows) == (
        "2 of 2 running, 1,201 records/s, 2,000 read, 100 (5.0 %) duplicates, lag 1,005, 2 restarts"
    )


def test_a_lag_that_is_not_known_everywhere_is_not_added_up() -> None:
    rows = [row(view(status=status(lag_messages=7)), 0), row(view(1), 0)]

    assert "lag ?," in summary(rows)


def test_times_are_short_and_shares_have_a_percentage() -> None:
    assert [duration(s) for s in (None, 0, 59.9, 3599, 90_061, 4_500_000)] == [
        "-", "0s", "59s", "59m59s", "1d1h", "52d"
    ]  # fmt: skip
    assert share(0, 0) == "0"


def test_the_table_shows_messages_with_brackets_as_they_are() -> None:
    output = io.StringIO()
    failed = status(phase=Phase.FAILED, reason="BrokerUnavailable", message="at [::1]:9092")

    Console(file=output, width=200).print(table("s", [row(view(status=failed), 0)]))

    assert "BrokerUnavailable: at [::1]:9092" in output.getvalue()


def test_what_is_left_to_reconcile_is_shown_and_is_no_change_of_state() -> None:
    before, after = (
        row(view(status=status(phase=Phase.RECONCILING, to_reconcile=left)), 0)
        for left in (9000, 8000)
    )

    assert changes([before], [after]) == []
    assert summary([after]).endswith("8,000 to reconcile")
