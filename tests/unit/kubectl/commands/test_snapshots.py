"""`kubectl dedupe snapshot` and `snapshots`, against a small API server over HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.kubectl.api_server import SNAPSHOTS, STREAMS, ApiServer, refused
from tests.unit.kubectl.commands.scene import WITH_SNAPSHOTS, orders, run
from tests.unit.kubectl.documents import (
    NOW,
    copy,
    snapshot,
    stream,
    written,
)


@pytest.fixture(name="api")
def _api(tmp_path: Path) -> Iterator[ApiServer]:
    with orders(tmp_path / "config") as api:
        yield api


class TestSnapshot:
    def test_it_is_named_after_its_stream_and_the_time(self, api: ApiServer) -> None:
        done = run(api, "snapshot", "orders")
        assert done.exit_code == 0
        ((path, body),) = api.created
        assert path == SNAPSHOTS
        name = body["metadata"]["name"]
        day, time = name.removeprefix("orders-").split("-")
        assert (len(day), len(time)) == (8, 6)
        assert (body["kind"], body["apiVersion"]) == ("DedupeSnapshot", "dedupestream.io/v1alpha1")
        assert body["spec"] == {"streamRef": {"name": "orders"}}
        assert done.stdout == f"snapshot shop/{name} of orders requested\n"

    def test_of_some_partitions_and_by_another_name(self, api: ApiServer) -> None:
        run(api, "snapshot", "orders", "--name", "before", "-p", "1", "-p", "0", "-p", "1")
        ((_, body),) = api.created
        assert body["metadata"] == {"name": "before", "namespace": "shop"}
        assert body["spec"]["partitions"] == [0, 1]

    def test_a_partition_the_stream_does_not_have_is_refused(self, api: ApiServer) -> None:
        done = run(api, "snapshot", "orders", "-p", "2")
        assert done.exit_code == 3
        assert done.stderr == "Error: shop/orders has no partition 2: it has 0-1\n"
        assert api.created == []

    def test_a_stream_without_a_provider_says_where_to_name_one(self, api: ApiServer) -> None:
        api.holds(stream())
        done = run(api, "snapshot", "orders")
        assert done.exit_code == 3
        assert "has no spec.snapshots: configure a provider there" in done.stderr
        assert api.created == []

    def test_a_suspended_stream_says_that_it_waits(self, api: ApiServer) -> None:
        api.holds(stream(spec={**WITH_SNAPSHOTS, "suspend": True}))
        assert "Suspended: " in run(api, "snapshot", "orders").stdout

    def test_a_name_that_is_taken_is_told(self, api: ApiServer) -> None:
        api.answers[f"POST {SNAPSHOTS}"] = refused(409, '"before" already exists', "before")
        done = run(api, "snapshot", "orders", "--name", "before")
        assert done.exit_code == 3
        assert done.stderr.endswith('namespace shop: "before" already exists\n')

    def test_waiting_shows_its_progress_and_what_it_holds(self, api: ApiServer) -> None:
        path = f"{SNAPSHOTS}/a"
        api.answers[path] = (200, snapshot("a", phase="Pending"))
        complete = snapshot(
            "a",
            progress="2/2",
            copies=[copy(0, keys=1000, bytes="1Gi"), copy(1, keys=234, bytes="512Mi")],
        )
        running = snapshot("a", phase="Running", progress="1/2")
        api.then[path] = [(200, running), (200, complete)]
        done = run(api, "snapshot", "orders", "--name", "a", "--wait")
        assert done.exit_code == 0
        assert done.stdout.splitlines()[1:] == [
            "a is Pending: the operator has not started it",
            "a is Running, 1/2 partitions",
            "snapshot shop/a is complete: 2/2 partitions, 1,234 ids, 1.5Gi",
        ]

    def test_waiting_for_one_that_fails_says_why(self, api: ApiServer) -> None:
        failed = snapshot("a", phase="Failed", reason="DeadlineExceeded", message="took too long")
        api.answers[f"{SNAPSHOTS}/a"] = (200, failed)
        done = run(api, "snapshot", "orders", "--name", "a", "--wait")
        assert done.exit_code == 3
        assert done.stderr == "Error: snapshot shop/a failed: DeadlineExceeded: took too long\n"


class TestSnapshots:
    def test_the_newest_comes_first_with_its_figures_and_why_one_failed(
        self, api: ApiServer
    ) -> None:
        copies = [
            copy(0, keys=1000, bytes="1Gi", window="3d"),
            copy(1, keys=500, bytes="1Gi", window="2d"),
        ]
        old = snapshot("old", copies=copies, progress="2/2")
        new = snapshot(
            "new", phase="Failed", created=NOW, copies=[copy(0, "Failed", error="no space")]
        )
        api.holds_snapshots(old, new, snapshot("others", of="payments"))
        head, first, second = run(api, "snapshots", "orders").stdout.splitlines()
        assert head.split() == [
            "NAME", "STREAM", "PHASE", "PROVIDER", "PARTITIONS", "SIZE", "KEYS", "WINDOW", "AGE", "NOTE",
        ]  # fmt: skip
        assert first.split()[:5] == ["new", "orders", "Failed", "CSI", "-"]
        assert first.endswith("partition 0: no space")
        assert second.split()[:8] == [
            "old", "orders", "Completed", "CSI", "2/2", "2Gi", "1,500", "2d",
        ]  # fmt: skip

    def test_a_copy_that_can_not_be_reached_is_shown_with_the_reason(self, api: ApiServer) -> None:
        why = "BucketRefused: reading it of bucket old: AccessDenied"
        api.holds_snapshots(snapshot("a", copies=[copy(0), copy(1, unreachable=why)]))
        assert (
            run(api, "snapshots").stdout.rstrip().endswith(f"partition 1 can't be reached: {why}")
        )

    def test_of_all_streams_and_for_programs(self, api: ApiServer) -> None:
        api.holds_snapshots(
            snapshot("a", copies=[copy(3, bytes="1Gi", completed=written(NOW))]),
            snapshot("b", of="payments"),
        )
        items = json.loads(run(api, "snapshots", "-o", "json").stdout)["items"]
        assert [(one["name"], one["stream"]) for one in items] == [
            ("b", "payments"),
            ("a", "orders"),
        ]
        assert (items[1]["phase"], items[1]["bytes"]) == ("Completed", 1024**3)
        assert items[1]["partitions"][0]["partition"] == 3

    def test_of_all_namespaces_they_have_a_column_for_it(self, api: ApiServer) -> None:
        api.holds_snapshots(snapshot("first"))
        head, line = run(api, "snapshots", "-A").stdout.splitlines()
        assert head.split()[:2] == ["NAMESPACE", "NAME"]
        assert line.split()[:2] == ["shop", "first"]
        api.holds_snapshots()
        assert run(api, "snapshots", "-A").stdout == "No snapshots in all namespaces.\n"
        done = run(api, "snapshots", "orders", "-A")
        assert done.exit_code == 2
        assert "use -n instead of -A" in done.stderr

    def test_none_is_said_and_a_stream_that_is_not_there_is_no_empty_table(
        self, api: ApiServer
    ) -> None:
        api.holds_snapshots()
        assert run(api, "snapshots").stdout == "No snapshots in namespace shop.\n"
        assert (
            run(api, "snapshots", "orders").stdout == "No snapshots of orders in namespace shop.\n"
        )
        api.answers[f"{STREAMS}/nobody"] = refused(404, "not found", "nobody")
        done = run(api, "snapshots", "nobody")
        assert done.exit_code == 3
        assert "`kubectl dedupe status -A`" in done.stderr

    def test_a_cluster_without_the_kind_says_how_to_install_it(self, api: ApiServer) -> None:
        assert "helm install" in run(api, "snapshots").stderr

    def test_one_that_nobody_has_looked_at_is_pending(self, api: ApiServer) -> None:
        fresh = snapshot("a")
        del fresh["status"]
        api.holds_snapshots(fresh)
        assert run(api, "snapshots").stdout.splitlines()[1].split()[2:6] == [
            "Pending",
            "-",
            "-",
            "-",
        ]
