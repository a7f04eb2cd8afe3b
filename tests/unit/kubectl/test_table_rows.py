"""What the tables say."""

import io
import json
from typing import Any

import pytest
from rich.console import Console

from dedupe_crds.status.worker import DownloadPhase, DownloadStatus, Phase
from dedupe_kubectl.errors import PluginError
from dedupe_kubectl.objects import read_stream
from dedupe_kubectl.table_rows import Rates, partition_rows, stream_note, stream_state
from dedupe_kubectl.tables import as_json, partitions_table, render_stream, view_json
from tests.unit.kubectl.documents import (
    LONG_AGO,
    NOW,
    READY,
    condition,
    partition,
    pod,
    stream,
    view,
    worker,
    written,
)


def test_a_rate_needs_two_looks_and_is_of_the_last_seconds() -> None:
    rates = Rates()
    assert rates.observe({0: worker(consumed=100)}, now=0) == {}
    assert rates.observe({0: worker(consumed=600)}, now=1) == {0: 500.0}
    rates.observe({0: worker(consumed=600)}, now=11)
    assert rates.observe({0: worker(consumed=600)}, now=12) == {0: 0.0}


def test_a_worker_that_began_anew_has_no_negative_rate() -> None:
    rates = Rates()
    rates.observe({0: worker(consumed=1000)}, now=0)
    assert rates.observe({0: worker(consumed=10)}, now=1) == {}
    assert rates.observe({0: worker(consumed=30)}, now=2) == {0: 20.0}


def test_a_worker_that_was_silent_has_no_rate_over_its_silence() -> None:
    rates = Rates()
    rates.observe({0: worker(consumed=0)}, now=0)
    rates.observe({}, now=1)
    assert rates.observe({0: worker(consumed=10)}, now=2) == {}


def test_a_workers_own_figures_come_before_the_operators() -> None:
    told = partition(lagMessages=100, duplicates=10, window="2h")
    seen = view(stream(partitions=[told]), [pod()], [worker(consumed=200, duplicates=20)])
    (row,) = partition_rows(seen, {0: 5.0})
    assert (row.lag_messages, row.duplicates, row.window_seconds) == (7, 20, 3600)
    assert (row.records_per_second, row.live, row.node) == (5.0, True, "node-0")


def test_without_the_worker_the_operators_figures_stand() -> None:
    told = partition(
        lagMessages=100, duplicates=10, window="2h", nodeName="n", message="why", phase="Failed"
    )
    (row,) = partition_rows(view(stream(partitions=[told])), {})
    assert (row.lag_messages, row.duplicates, row.window_seconds) == (100, 10, 7200)
    assert (row.phase, row.note, row.pod, row.node, row.live) == ("Failed", "why", None, "n", False)


def test_a_partition_the_operator_has_not_told_of_is_seen_by_its_pod() -> None:
    rows = partition_rows(view(stream(partitions=[partition(0)]), [pod(0), pod(1)]), {})
    assert [(row.partition, row.pod) for row in rows] == [(0, "orders-0-0"), (1, "orders-1-0")]


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, "Running"),
        ({"spec": {"suspend": True}}, "Suspended"),
        ({"metadata": {"annotations": {"dedupestream.io/pause-reconciliation": "true"}}}, "Paused"),
        ({"metadata": {"deletionTimestamp": written(NOW)}}, "Deleting"),
        ({"metadata": {"generation": 2}}, "Changing"),
        ({"conditions": []}, "NotSeen"),
        ({"conditions": [condition("Ready", "False", "PartitionsNotReady")]}, "PartitionsNotReady"),
        ({"conditions": [*READY[:1], condition("Degraded", "True", "DiskFull")]}, "DiskFull"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_state_of_a_stream_is_one_word(changes: dict[str, Any], state: str) -> None:
    assert stream_state(read_stream(stream(**changes))) == state


def test_partitions_that_were_added_are_rows_with_their_lag() -> None:
    document = stream(partitions=[partition(0)])
    document["status"]["addedPartitions"] = [{"partition": 1, "lagMessages": 70}]
    rows = partition_rows(view(document, [pod()], [worker()]), {})
    assert [(row.partition, row.phase, row.lag_messages) for row in rows[1:]] == [(1, "Added", 70)]
    assert "addedPartitions" in rows[1].note


def test_a_partition_says_how_far_its_restore_is() -> None:
    transfer = {"name": "s", "bytes": "1Gi", "totalBytes": "4Gi", "remaining": "90s"}
    told = partition(phase="Restoring", restoring=transfer)
    (by_operator,) = partition_rows(view(stream(partitions=[told])), {})
    assert by_operator.note == "1Gi of 4Gi restored, 1m30s left"

    download = DownloadStatus(
        name="s", phase=DownloadPhase.RUNNING, total_bytes=4096, bytes=1024, seconds=10.0
    )
    busy = worker(phase=Phase.RESTORING).model_copy(update={"download": download})
    (by_worker,) = partition_rows(view(stream(partitions=[told]), [pod()], [busy]), {})
    assert by_worker.note == "1Ki of 4Ki restored, 30s left"


def test_a_restore_that_has_just_begun_promises_no_time() -> None:
    download = DownloadStatus(name="s", phase=DownloadPhase.RUNNING, total_bytes=4096)
    busy = worker(phase=Phase.RESTORING).model_copy(update={"download": download})
    (row,) = partition_rows(view(stream(partitions=[partition()]), [pod()], [busy]), {})
    assert row.note == "0 of 4Ki restored"


def test_a_partition_says_how_far_its_reconcile_is_by_the_operators_word() -> None:
    told = partition(phase="Reconciling", reconciling=1200)
    (row,) = partition_rows(view(stream(partitions=[told])), {})
    assert row.note == "1,200 records to reconcile"


def test_a_stream_whose_snapshots_fail_says_so() -> None:
    failed = condition("SnapshotsHealthy", "False", "LastSnapshotFailed", "Snapshot a failed.")
    assert stream_note(read_stream(stream(conditions=[*READY, failed]))) == "Snapshot a failed."


def test_what_a_running_worker_does_not_keep_is_the_note_of_its_stream() -> None:
    missing = condition("GuaranteesMet", "False", "MissingIds", "Records have no id.")
    assert stream_note(read_stream(stream(conditions=[*READY, missing]))) == "Records have no id."


def test_a_status_with_fields_of_a_newer_operator_is_read() -> None:
    document = stream(status={"newField": 1}, partitions=[partition(newField=2)])
    assert read_stream(document).status.partitions[0].partition == 0


def test_a_status_that_cannot_be_read_says_which_field_and_what_to_do() -> None:
    with pytest.raises(PluginError, match=r"partitions\.0\.phase.*install the plugin"):
        read_stream(stream(partitions=[partition(phase="Flying")]))


def test_a_partition_shows_where_its_store_came_from_and_its_snapshot() -> None:
    told = partition(
        restore={
            "source": "Snapshot", "name": "snap-7", "reason": "r", "time": written(LONG_AGO)
        },
        lastSnapshot={"name": "snap-9", "time": written(LONG_AGO)},
    )  # fmt: skip
    text = drawn(partitions_table(partition_rows(view(stream(partitions=[told])), {}), NOW))
    assert "Snapshot snap-7" in text
    assert "2d ago" in text


def test_the_view_says_what_the_users_rights_do_not_show() -> None:
    seen = view(stream(partitions=[partition(0), partition(1)]), [pod(0)], [worker(0)])
    text = drawn(render_stream(seen, partition_rows(seen, {0: 1200.0}), NOW))
    assert "shop/orders: raw → clean, Running" in text
    assert "1,200" in text
    (total,) = (line for line in text.splitlines() if line.strip().startswith("total"))
    assert total.split()[1:] == ["-", "-", "-"], "a sum with an unknown part is unknown"


def test_messages_with_brackets_are_shown_as_they_are() -> None:
    waits = worker(phase=Phase.FAILED, reason="BrokerUnavailable", message="at [::1]:9092")
    seen = view(stream(partitions=[partition()]), [pod()], [waits])
    assert "BrokerUnavailable: at [::1]:9092" in drawn(
        render_stream(seen, partition_rows(seen, {}), NOW)
    )


def test_json_has_times_and_names_for_programs() -> None:
    told = partition(lastSnapshot={"name": "s", "time": written(LONG_AGO)})
    seen = view(stream(partitions=[told]), [pod()], [worker(consumed=3)])
    document = json.loads(as_json(view_json(seen, partition_rows(seen, {0: 1.5}))))
    (found,) = document["partitions"]
    assert document["name"] == "orders"
    assert found["recordsPerSecond"] == 1.5
    assert found["lastSnapshot"] == LONG_AGO.isoformat()


def drawn(what: object) -> str:
    output = io.StringIO()
    Console(file=output, width=300).print(what)
    return output.getvalue()
