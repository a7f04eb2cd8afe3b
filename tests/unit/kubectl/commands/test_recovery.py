"""The commands about snapshots, restores and reconciles, against a small API server over HTTP."""

import json
import os
import pty
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dedupe_crds.annotations import RECONCILE, RESTORE
from dedupe_crds.status.worker import ReconcileStatus
from dedupe_kubectl import waiting
from dedupe_kubectl.cli import main
from tests.unit.kubectl.api_server import SNAPSHOTS, STREAMS, Answer, ApiServer, api_server, refused
from tests.unit.kubectl.documents import (
    NOW,
    copy,
    partition,
    pod,
    snapshot,
    stream,
    worker,
    written,
)

ORDERS = f"{STREAMS}/orders"
PLUGIN = Path(__file__).parents[4] / ".venv/bin/kubectl-dedupe"
WITH_SNAPSHOTS = {"snapshots": {"provider": "CSI"}}


@pytest.fixture(name="api")
def _api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ApiServer]:
    monkeypatch.setattr(waiting, "_POLL_SECONDS", 0.01)
    with api_server(tmp_path / "config") as api:
        api.holds(stream(spec=WITH_SNAPSHOTS, partitions=[partition(0), partition(1)]))
        yield api


def run(api: ApiServer, *arguments: str) -> Result:
    done = CliRunner(env={"NO_COLOR": "1"}).invoke(
        main, [*arguments, "--kubeconfig", str(api.kubeconfig)]
    )
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def requested(api: ApiServer, annotation: str) -> dict[str, Any]:
    """The one request that was written into the stream."""
    ((path, _, body),) = api.patches
    assert path == ORDERS
    request: dict[str, Any] = json.loads(body["metadata"]["annotations"][annotation])
    return request


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
        assert done.stdout == f"snapshot shop/{name} of orders asked for\n"

    def test_of_some_partitions_and_by_another_name(self, api: ApiServer) -> None:
        run(api, "snapshot", "orders", "--name", "before", "-p", "1", "-p", "0", "-p", "1")
        ((_, body),) = api.created
        assert body["metadata"] == {"name": "before", "namespace": "shop"}
        assert body["spec"]["partitions"] == [0, 1]

    def test_a_partition_the_stream_does_not_have_is_refused(self, api: ApiServer) -> None:
        done = run(api, "snapshot", "orders", "-p", "2")
        assert done.exit_code == 1
        assert done.stderr == "Error: shop/orders has no partition 2: it has 0-1\n"
        assert api.created == []

    def test_a_stream_without_a_provider_says_where_to_name_one(self, api: ApiServer) -> None:
        api.holds(stream())
        done = run(api, "snapshot", "orders")
        assert done.exit_code == 1
        assert "has no spec.snapshots: say there who makes them" in done.stderr
        assert api.created == []

    def test_a_suspended_stream_says_that_it_waits(self, api: ApiServer) -> None:
        api.holds(stream(spec={**WITH_SNAPSHOTS, "suspend": True}))
        assert "Suspended: " in run(api, "snapshot", "orders").stdout

    def test_a_name_that_is_taken_is_told(self, api: ApiServer) -> None:
        api.answers[f"POST {SNAPSHOTS}"] = refused(409, '"before" already exists', "before")
        done = run(api, "snapshot", "orders", "--name", "before")
        assert done.exit_code == 1
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
            "a is Pending: the operator has not begun it",
            "a is Running, 1/2 partitions",
            "snapshot shop/a is complete: 2/2 partitions, 1,234 ids, 1.5Gi",
        ]

    def test_waiting_for_one_that_fails_says_why(self, api: ApiServer) -> None:
        failed = snapshot("a", phase="Failed", reason="DeadlineExceeded", message="took too long")
        api.answers[f"{SNAPSHOTS}/a"] = (200, failed)
        done = run(api, "snapshot", "orders", "--name", "a", "--wait")
        assert done.exit_code == 1
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
        assert done.exit_code == 1
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


def restored(request: str = "", **fields: object) -> dict[str, Any]:
    """A partition whose store came from somewhere, by a request or not."""
    source = {"source": "Snapshot", "name": "orders-a", "reason": "asked for", "time": written(NOW)}
    return {**partition(0), "restore": {**source, "request": request or None}, **fields}


class TestRestore:
    ARGUMENTS = ("restore", "orders", "--partition", "0", "--from", "orders-a")

    def test_the_request_is_one_annotation(self, api: ApiServer) -> None:
        api.holds_snapshots(snapshot(copies=[copy(0)]))
        done = run(api, *self.ARGUMENTS, "--yes")
        assert done.exit_code == 0
        request = requested(api, RESTORE)
        assert request.pop("request")
        assert request == {"partition": 0, "source": "orders-a"}
        assert done.stdout == (
            "shop/orders: restore of partition 0 from snapshot orders-a asked for\n"
        )

    def test_the_output_topic_needs_no_snapshot(self, api: ApiServer) -> None:
        done = run(api, *self.ARGUMENTS[:-1], "OutputTopic", "--yes")
        assert done.exit_code == 0
        assert requested(api, RESTORE)["source"] == "OutputTopic"

    @pytest.mark.parametrize(
        ("made", "says"),
        [
            (snapshot(of="payments", copies=[copy(0)]), "is of stream payments"),
            (snapshot(copies=[copy(1)]), "has no copy of partition 0"),
            (
                snapshot(phase="Failed", copies=[copy(0, "Failed", error="no space")]),
                "partition 0 in shop/orders-a is Failed and not Completed (no space)",
            ),
            (
                snapshot(phase="Running", copies=[copy(0, "Running")]),
                "is Running and not Completed",
            ),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_a_snapshot_without_that_partition_is_refused(
        self, api: ApiServer, made: dict[str, Any], says: str
    ) -> None:
        api.holds_snapshots(made)
        done = run(api, *self.ARGUMENTS, "--yes")
        assert done.exit_code == 1
        assert says in done.stderr
        assert "`kubectl dedupe snapshots orders` shows all there are" in done.stderr
        assert api.patches == []

    def test_one_that_is_being_deleted_is_refused(self, api: ApiServer) -> None:
        made = snapshot(copies=[copy(0)])
        made["metadata"]["deletionTimestamp"] = written(NOW)
        api.holds_snapshots(made)
        assert "is being deleted" in run(api, *self.ARGUMENTS, "--yes").stderr

    def test_a_request_that_is_not_answered_is_not_overwritten(self, api: ApiServer) -> None:
        earlier = {"request": "r0", "partition": 1, "source": "OutputTopic"}
        metadata = {"annotations": {RESTORE: json.dumps(earlier)}}
        api.holds(stream(partitions=[partition(0), partition(1)], metadata=metadata))
        api.holds_snapshots(snapshot(copies=[copy(0)]))
        done = run(api, *self.ARGUMENTS, "--yes")
        assert done.exit_code == 1
        assert "the restore of partition 1 from OutputTopic that was asked for at r0" in done.stderr
        assert f"`kubectl annotate -n shop dedupestream orders {RESTORE}-`" in done.stderr
        answered = {**restored("r0"), "partition": 1}
        api.holds(stream(partitions=[partition(0), answered], metadata=metadata))
        assert run(api, *self.ARGUMENTS, "--yes").exit_code == 0

    def test_where_nobody_can_be_asked_nothing_is_done(self, api: ApiServer) -> None:
        api.holds_snapshots(snapshot(copies=[copy(0)]))
        done = run(api, *self.ARGUMENTS)
        assert done.exit_code == 2
        assert "give --yes" in done.stderr
        assert api.patches == []

    @pytest.mark.parametrize(("answer", "patches"), [("y", 1), ("n", 0)])
    def test_a_person_is_told_what_happens_and_asked(
        self, api: ApiServer, answer: str, patches: int
    ) -> None:
        made = copy(0, keys=1234, window="3d", completed=written(NOW))
        api.holds_snapshots(snapshot(copies=[made]))
        shown = at_a_terminal(api, *self.ARGUMENTS, answer=answer)
        assert (
            "Partition 0 of shop/orders gets a new volume, filled from snapshot orders-a" in shown
        )
        assert "1,234 ids and a window of 3d" in shown
        assert "Its volume orders-0-1 is kept" in shown
        assert ("nothing was done" in shown) == (patches == 0)
        assert len(api.patches) == patches

    def test_a_suspended_stream_says_that_it_waits(self, api: ApiServer) -> None:
        api.holds(stream(spec={"suspend": True}, partitions=[partition(phase="Suspended")]))
        assert "Suspended: " in run(api, *self.ARGUMENTS[:-1], "OutputTopic", "--yes").stdout

    def test_a_rebuild_says_what_is_forgotten(self, api: ApiServer) -> None:
        shown = at_a_terminal(api, *self.ARGUMENTS[:-1], "OutputTopic", answer="n")
        assert "rebuilt from what the output topic still holds (raw → clean)" in shown
        assert "ids of records it no longer holds are forgotten" in shown

    def test_waiting_shows_how_far_it_is_and_what_became_of_it(self, api: ApiServer) -> None:
        api.holds_snapshots(snapshot(copies=[copy(0)]))
        new = {"persistentVolumeClaim": "orders-0-2", "ready": False}
        transfer = {"name": "orders-a", "bytes": "1Gi", "totalBytes": "2Gi", "remaining": "30s"}
        follow(
            api,
            restored("?", **new, phase="Provisioning"),
            restored("?", **new, phase="Restoring", restoring=transfer),
            restored("?", **new, phase="Reconciling", reconciling=1200),
            restored("?", **{**new, "ready": True}, window="3d"),
        )
        done = run(api, *self.ARGUMENTS, "--yes", "--wait")
        assert done.stdout.splitlines()[1:] == [
            "partition 0 is Provisioning",
            "partition 0 is Restoring, 1Gi of 2Gi restored, 30s to come",
            "partition 0 is Reconciling, 1,200 records to come",
            "partition 0 is ready on orders-0-2, restored from Snapshot orders-a; its window is 3d",
        ]

    def test_waiting_ends_when_the_operator_refuses(self, api: ApiServer) -> None:
        api.holds_snapshots(snapshot(copies=[copy(0)]))
        refusal = restored("?")
        refusal["restore"]["refused"] = ["orders-a: the output topic was created again"]
        follow(api, refusal)
        done = run(api, *self.ARGUMENTS, "--yes", "--wait")
        assert done.exit_code == 1
        assert done.stderr == (
            "Error: refused, and the volume orders-0-1 stays in use: orders-a: the output topic was "
            "created again\n"
        )


def follow(api: ApiServer, *partitions: dict[str, Any]) -> None:
    """Let partition 0 go through these states once the stream was patched; `?` in them stands for the request."""

    def states(patch: dict[str, Any]) -> list[Answer]:
        (text,) = patch["metadata"]["annotations"].values()
        request = json.dumps(json.loads(text)["request"])
        told = (json.loads(json.dumps(one).replace('"?"', request)) for one in partitions)
        return [(200, stream(spec=WITH_SNAPSHOTS, partitions=[one, partition(1)])) for one in told]

    api.after_patch[ORDERS] = states


def at_a_terminal(api: ApiServer, *arguments: str, answer: str) -> str:
    """Run the plugin on a terminal of its own, answer its question, and return what it showed."""
    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        [str(PLUGIN), *arguments, "--kubeconfig", str(api.kubeconfig)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "COLUMNS": "300", "NO_COLOR": "1"},
    )
    os.close(theirs)
    shown = b""
    try:
        while b"Go on?" not in shown:
            shown += os.read(ours, 4096)
        os.write(ours, f"{answer}\n".encode())
        while part := _read(ours):
            shown += part
        assert running.wait(timeout=30) == 0, shown
    finally:
        running.kill()
        running.wait()
        os.close(ours)
    return shown.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    """What is there to read; nothing once the other side is closed, which Linux calls an error."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""


def compared(
    request: str = "?", *, done: bool = True, found: Mapping[str, object] | None = None
) -> dict[str, Any]:
    """Partition 0 with an answer to a request."""
    return partition(0, comparison={"request": request, "done": done, **(found or {})})


class TestReconcile:
    def test_the_request_is_one_annotation(self, api: ApiServer) -> None:
        done = run(api, "reconcile", "orders")
        assert done.stdout == "shop/orders: reconcile of all partitions asked for\n"
        request = requested(api, RECONCILE)
        assert request.pop("request")
        assert request == {"partitions": [], "full": False}

    def test_some_partitions_and_their_whole_stores(self, api: ApiServer) -> None:
        done = run(api, "reconcile", "orders", "-p", "1", "--full")
        assert done.stdout == "shop/orders: full reconcile of partition 1 asked for\n"
        request = requested(api, RECONCILE)
        assert (request["partitions"], request["full"]) == ([1], True)

    def test_a_partition_the_stream_does_not_have_is_refused(self, api: ApiServer) -> None:
        assert "has no partition 7" in run(api, "reconcile", "orders", "-p", "7").stderr
        assert api.patches == []

    def test_a_suspended_stream_has_no_workers_to_do_it(self, api: ApiServer) -> None:
        api.holds(stream(spec={"suspend": True}, partitions=[partition(phase="Suspended")]))
        done = run(api, "reconcile", "orders")
        assert done.exit_code == 1
        assert "`kubectl dedupe resume orders` first" in done.stderr

    def test_waiting_shows_what_remains_and_at_the_end_the_counts(self, api: ApiServer) -> None:
        counts = {
            "records": 12000,
            "added": 3,
            "removed": 2,
            "agedOut": 1,
            "unverifiable": 4,
        }
        follow(api, partition(0, reconciling=9000, ready=False), compared(found=counts))
        done = run(api, "reconcile", "orders", "-p", "0", "--full", "--wait")
        assert done.exit_code == 0, done.stderr
        _, remaining, head, row = done.stdout.splitlines()
        assert remaining == "0 of 1 reconciled, 0 to come; partition 0: 9,000 records to come"
        assert head.split("  ")[0] == "PARTITION"
        assert head.split()[1:] == ["RECORDS", "ADDED", "REMOVED", "AGED", "OUT", "UNVERIFIABLE"]
        assert row.split() == ["0", "12,000", "3", "2", "1", "4"]

    def test_the_workers_own_word_is_shown_where_it_can_be_had(self, api: ApiServer) -> None:
        follow(api, partition(0, ready=False), compared())
        reconciling = worker(reason="Reconciling").model_copy(
            update={"reconcile": ReconcileStatus(reason="r", records=1, remaining=77, seconds=1.0)}
        )
        api.answers["/api/v1/namespaces/shop/pods"] = (200, {"items": [pod(0)]})
        api.worker_says("orders-0-0", 200, reconciling.model_dump(mode="json", by_alias=True))
        done = run(api, "reconcile", "orders", "-p", "0", "--wait")
        assert "partition 0: 77 records to come" in done.stdout

    def test_an_answer_to_an_earlier_request_or_to_half_of_this_is_none(
        self, api: ApiServer
    ) -> None:
        half, whole = compared(done=False, found={"records": 1}), compared(found={"records": 5})
        follow(api, compared("r0"), half, half, whole)
        done = run(api, "reconcile", "orders", "-p", "0", "--wait")
        assert done.exit_code == 0
        _, missing, _, row = done.stdout.splitlines()
        assert missing == "0 of 1 reconciled, 0 to come"
        assert row.split() == ["0", "5", "0", "0", "0", "0"]

    def test_one_that_failed_is_told_with_why(self, api: ApiServer) -> None:
        follow(api, compared(found={"error": "DiskFull: the volume is full"}))
        done = run(api, "reconcile", "orders", "-p", "0", "--wait")
        assert done.exit_code == 1
        assert done.stderr == (
            "Error: partition 0 was not reconciled: DiskFull: the volume is full\n"
        )
