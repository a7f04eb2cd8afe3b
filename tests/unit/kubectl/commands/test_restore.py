"""`kubectl dedupe restore`, against a small API server over HTTP."""

import json
import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dedupe_crds.annotations import RESTORE
from tests.support.patience import HANG_SECONDS
from tests.unit.kubectl.api_server import Answer, ApiServer, api_server, refused
from tests.unit.kubectl.commands.scene import ORDERS, follow, orders, requested, run
from tests.unit.kubectl.documents import (
    NOW,
    copy,
    partition,
    pod,
    snapshot,
    stream,
    written,
)

PLUGIN = Path(__file__).parents[4] / ".venv/bin/kubectl-dedupe"


@pytest.fixture(name="api")
def _api(tmp_path: Path) -> Iterator[ApiServer]:
    with orders(tmp_path / "config") as api:
        yield api


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
            "shop/orders: restore of partition 0 from snapshot orders-a requested\n"
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
            (
                snapshot(copies=[copy(0, unreachable="BucketRefused: no")]),
                "can't be read where it lies (BucketRefused: no)",
            ),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_a_snapshot_without_that_partition_is_refused(
        self, api: ApiServer, made: dict[str, Any], says: str
    ) -> None:
        api.holds_snapshots(made)
        done = run(api, *self.ARGUMENTS, "--yes")
        assert done.exit_code == 3
        assert says in done.stderr
        assert "`kubectl dedupe snapshots orders` lists all snapshots" in done.stderr
        assert api.patches == []

    def test_one_that_is_being_deleted_is_refused(self, api: ApiServer) -> None:
        made = snapshot(copies=[copy(0)])
        made["metadata"]["deletionTimestamp"] = written(NOW)
        api.holds_snapshots(made)
        assert "is being deleted" in run(api, *self.ARGUMENTS, "--yes").stderr

    def test_a_request_of_another_partition_is_kept_until_it_is_answered(
        self, api: ApiServer
    ) -> None:
        earlier = {"request": "r0", "partition": 1, "source": "OutputTopic"}
        metadata = {"annotations": {RESTORE: json.dumps(earlier)}, "resourceVersion": "7"}
        api.holds(stream(partitions=[partition(0), partition(1)], metadata=metadata))
        api.holds_snapshots(snapshot(copies=[copy(0)]))
        assert run(api, *self.ARGUMENTS, "--yes").exit_code == 0
        kept, added = requested_all(api)
        assert (kept, added["partition"], added["source"]) == (earlier, 0, "orders-a")
        assert api.patches[0][2]["metadata"]["resourceVersion"] == "7"

        api.patches.clear()
        answered = {**restored("r0"), "partition": 1}
        api.holds(stream(partitions=[partition(0), answered], metadata=metadata))
        assert run(api, *self.ARGUMENTS, "--yes").exit_code == 0
        assert [each["partition"] for each in requested_all(api)] == [0]

    def test_a_request_that_comes_at_the_same_time_is_kept(self, api: ApiServer) -> None:
        api.holds_snapshots(snapshot(copies=[copy(0)]))
        other = {"request": "r0", "partition": 1, "source": "OutputTopic"}
        two = [partition(0), partition(1)]
        metadata = {"annotations": {RESTORE: json.dumps(other)}, "resourceVersion": "8"}
        changed = stream(partitions=two, metadata=metadata)
        conflict = refused(409, "the object has been modified", "orders")
        api.patch_answers[ORDERS] = [conflict]
        api.then[ORDERS] = [(200, changed)]
        done = run(api, *self.ARGUMENTS, "--yes")
        assert done.exit_code == 0, done.stderr
        versions = [body["metadata"]["resourceVersion"] for _, _, body in api.patches]
        assert versions == ["", "8"]
        api.patches.pop(0)
        assert [each["partition"] for each in requested_all(api)] == [1, 0]

    def test_a_stream_that_changes_all_the_time_is_given_up(self, api: ApiServer) -> None:
        api.holds_snapshots(snapshot(copies=[copy(0)]))
        api.patch_answers[ORDERS] = [refused(409, "modified", "orders")] * 20
        done = run(api, *self.ARGUMENTS, "--yes")
        assert done.exit_code == 3
        assert "changed again before each of 10 attempts" in done.stderr

    def test_a_request_that_is_not_answered_is_not_overwritten(self, api: ApiServer) -> None:
        earlier = {"request": "r0", "partition": 0, "source": "OutputTopic"}
        metadata = {"annotations": {RESTORE: json.dumps(earlier)}}
        api.holds(stream(partitions=[partition(0), partition(1)], metadata=metadata))
        api.holds_snapshots(snapshot(copies=[copy(0)]))
        done = run(api, *self.ARGUMENTS, "--yes")
        assert done.exit_code == 3
        assert "the restore of partition 0 from OutputTopic that was requested at r0" in done.stderr
        assert f"`kubectl annotate -n shop dedupestream orders {RESTORE}-`" in done.stderr
        api.holds(stream(partitions=[restored("r0"), partition(1)], metadata=metadata))
        assert run(api, *self.ARGUMENTS, "--yes").exit_code == 0

    def test_where_nobody_can_be_asked_nothing_is_done(self, api: ApiServer) -> None:
        api.holds_snapshots(snapshot(copies=[copy(0)]))
        done = run(api, *self.ARGUMENTS)
        assert done.exit_code == 2
        assert "use --yes" in done.stderr
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
        assert "Its volume orders-0-1 is retained" in shown
        assert ("nothing was done" in shown) == (patches == 0)
        assert len(api.patches) == patches

    def test_a_suspended_stream_says_that_it_waits(self, api: ApiServer) -> None:
        api.holds(stream(spec={"suspend": True}, partitions=[partition(phase="Suspended")]))
        assert "Suspended: " in run(api, *self.ARGUMENTS[:-1], "OutputTopic", "--yes").stdout

    def test_a_rebuild_says_what_is_forgotten(self, api: ApiServer) -> None:
        shown = at_a_terminal(api, *self.ARGUMENTS[:-1], "OutputTopic", answer="n")
        assert "rebuilt from what the output topic still holds (raw → clean)" in shown
        assert (
            "ids of records it no longer holds are forgotten, and the window starts again" in shown
        )

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
            "partition 0 is Restoring, 1Gi of 2Gi restored, 30s left",
            "partition 0 is Reconciling, 1,200 records to reconcile",
            "partition 0 is ready on orders-0-2, restored from Snapshot orders-a; its window is 3d",
        ]

    def test_waiting_ends_when_the_operator_refuses(self, api: ApiServer) -> None:
        api.holds_snapshots(snapshot(copies=[copy(0)]))
        refusal = restored("?")
        refusal["restore"]["refused"] = ["orders-a: the output topic was created again"]
        follow(api, refusal)
        done = run(api, *self.ARGUMENTS, "--yes", "--wait")
        assert done.exit_code == 3
        assert done.stderr == (
            "Error: refused, and the volume orders-0-1 stays in use: orders-a: the output topic was "
            "created again\n"
        )


def requested_all(api: ApiServer) -> list[dict[str, Any]]:
    """The requests that were written into the stream."""
    found = requested(api, RESTORE)
    return found if isinstance(found, list) else [found]


FAR = "0/3 nodes are available: 3 node(s) had volume node affinity conflict."
NEWER_FAR = "0/3 nodes are available: 3 node(s) didn't match PersistentVolume's node affinity."


def unscheduled(number: int, message: str) -> dict[str, Any]:
    told = {"type": "PodScheduled", "status": "False", "message": message}
    return pod(number, phase="Pending", conditions=[told])


class TestAllUnschedulable:
    """Partitions 0 to 3, of which 1 and 2 lost their zone; 3 lacks CPU."""

    ARGUMENTS = ("restore", "orders", "--all-unschedulable", "--yes")

    @pytest.fixture(name="api")
    def _api(self, tmp_path: Path) -> Iterator[ApiServer]:
        with api_server(tmp_path / "config") as api:
            self.holds(api)
            yield api

    def holds(self, api: ApiServer, **metadata: object) -> None:
        api.holds(
            stream(partitions=[partition(number) for number in range(4)], metadata=metadata),
            pods=(
                pod(0),
                unscheduled(1, FAR),
                unscheduled(2, NEWER_FAR),
                unscheduled(3, "0/3 nodes are available: 3 Insufficient cpu."),
            ),
        )

    def test_each_whose_volume_no_node_can_reach_is_requested(self, api: ApiServer) -> None:
        done = run(api, *self.ARGUMENTS)
        assert done.exit_code == 0, done.stderr
        requests = requested_all(api)
        assert [(each["partition"], each["source"]) for each in requests] == [
            (1, "BestAvailable"),
            (2, "BestAvailable"),
        ]
        assert done.stdout == (
            "shop/orders: restore of partitions 1-2 from the best available source requested\n"
        )

    def test_one_that_waits_already_is_not_requested_twice(self, api: ApiServer) -> None:
        waits = {"request": "r0", "partition": 1, "source": "BestAvailable"}
        self.holds(api, annotations={RESTORE: json.dumps(waits)})
        done = run(api, *self.ARGUMENTS)
        assert "shop/orders: requested before, and waiting: 1\n" in done.stdout
        assert [each["partition"] for each in requested_all(api)] == [1, 2]
        assert requested_all(api)[0] == waits

    def test_without_any_nothing_is_done(self, api: ApiServer) -> None:
        api.holds(stream(partitions=[partition(0)]), pods=(pod(0),))
        done = run(api, *self.ARGUMENTS)
        assert (done.exit_code, api.patches) == (0, [])
        assert "no partition has a volume out of reach" in done.stdout

    def test_a_person_reads_what_the_scheduler_says(self, api: ApiServer) -> None:
        shown = at_a_terminal(api, *self.ARGUMENTS[:-1], answer="n")
        assert "No node can reach the volumes of these partitions:" in shown
        assert FAR in shown
        assert NEWER_FAR in shown
        assert (
            "2 partitions, 1-2 of shop/orders get new volumes, each filled from the newest" in shown
        )
        assert "Their volumes orders-1-1, orders-2-1 are retained" in shown

    def test_waiting_shows_how_many_are_done_and_ends_with_what_was_refused(
        self, api: ApiServer
    ) -> None:
        def states(patch: dict[str, Any]) -> list[Answer]:
            text = patch["metadata"]["annotations"][RESTORE]
            request = json.loads(text)[0]["request"]
            new = {"persistentVolumeClaim": "orders-1-2", "ready": False}
            begun = {**restored(request), "partition": 1, **new, "phase": "Reconciling"}
            ready = {**begun, "ready": True, "phase": "Running", "window": "3d"}
            no = {**restored(request), "partition": 2, "persistentVolumeClaim": "orders-2-1"}
            no["restore"]["refused"] = ["it is older than the stream"]
            both = ([begun, partition(2)], [ready, partition(2)], [ready, no])
            return [(200, stream(partitions=[partition(0), *two, partition(3)])) for two in both]

        api.after_patch[ORDERS] = states
        done = run(api, *self.ARGUMENTS, "--wait")
        assert done.stdout.splitlines()[1:] == [
            "[--------------------] 0 of 2 done; partition 1 is Reconciling; waiting: 2",
            "[##########----------] 1 of 2 done; waiting: 2",
            "partition 1 is ready on orders-1-2, restored from Snapshot orders-a; its window is 3d",
        ]
        assert done.exit_code == 3
        assert done.stderr == "Error: partition 2 was refused: it is older than the stream\n"

    @pytest.mark.parametrize("also", [("--partition", "0"), ()])
    def test_partitions_are_named_or_all_not_both_or_none(
        self, api: ApiServer, also: tuple[str, ...]
    ) -> None:
        chosen = ("--all-unschedulable",) if also else ()
        done = run(api, "restore", "orders", *chosen, *also, "--from", "OutputTopic", "--yes")
        assert done.exit_code == 2
        assert "give either --partition or --all-unschedulable" in done.stderr


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
        while b"Continue?" not in shown:
            shown += os.read(ours, 4096)
        os.write(ours, f"{answer}\n".encode())
        while part := _read(ours):
            shown += part
        assert running.wait(timeout=HANG_SECONDS) == 0, shown
    finally:
        running.kill()
        running.wait()
        os.close(ours)
    return shown.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    """Return the available bytes; none once the other side is closed, which Linux reports as an error."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""
