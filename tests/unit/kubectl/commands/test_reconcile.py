"""`kubectl dedupe reconcile`, against a small API server over HTTP."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dedupe_crds.annotations import RECONCILE
from dedupe_crds.status.worker import ReconcileStatus
from tests.unit.kubectl.api_server import ApiServer
from tests.unit.kubectl.commands.scene import follow, orders, requested, run
from tests.unit.kubectl.documents import partition, pod, stream, worker


@pytest.fixture(name="api")
def _api(tmp_path: Path) -> Iterator[ApiServer]:
    with orders(tmp_path / "config") as api:
        yield api


def compared(
    request: str = "?", *, done: bool = True, found: Mapping[str, object] | None = None
) -> dict[str, Any]:
    """Partition 0 with an answer to a request."""
    return partition(0, comparison={"request": request, "done": done, **(found or {})})


class TestReconcile:
    def test_the_request_is_one_annotation(self, api: ApiServer) -> None:
        done = run(api, "reconcile", "orders")
        assert done.stdout == "shop/orders: reconcile of all partitions requested\n"
        request = requested(api, RECONCILE)
        assert request.pop("request")
        assert request == {"partitions": [], "full": False}

    def test_some_partitions_and_their_whole_stores(self, api: ApiServer) -> None:
        done = run(api, "reconcile", "orders", "-p", "1", "--full")
        assert done.stdout == "shop/orders: full reconcile of partition 1 requested\n"
        request = requested(api, RECONCILE)
        assert (request["partitions"], request["full"]) == ([1], True)

    def test_a_partition_the_stream_does_not_have_is_refused(self, api: ApiServer) -> None:
        assert "has no partition 7" in run(api, "reconcile", "orders", "-p", "7").stderr
        assert api.patches == []

    def test_a_suspended_stream_has_no_workers_to_do_it(self, api: ApiServer) -> None:
        api.holds(stream(spec={"suspend": True}, partitions=[partition(phase="Suspended")]))
        done = run(api, "reconcile", "orders")
        assert done.exit_code == 3
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
        assert (
            remaining == "0 of 1 reconciled, waiting for 0; partition 0: 9,000 records to reconcile"
        )
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
        assert "partition 0: 77 records to reconcile" in done.stdout

    def test_an_answer_to_an_earlier_request_or_to_half_of_this_is_none(
        self, api: ApiServer
    ) -> None:
        half, whole = compared(done=False, found={"records": 1}), compared(found={"records": 5})
        follow(api, compared("r0"), half, half, whole)
        done = run(api, "reconcile", "orders", "-p", "0", "--wait")
        assert done.exit_code == 0
        _, missing, _, row = done.stdout.splitlines()
        assert missing == "0 of 1 reconciled, waiting for 0"
        assert row.split() == ["0", "5", "0", "0", "0", "0"]

    def test_one_that_failed_is_told_with_why(self, api: ApiServer) -> None:
        follow(api, compared(found={"error": "DiskFull: the volume is full"}))
        done = run(api, "reconcile", "orders", "-p", "0", "--wait")
        assert done.exit_code == 3
        assert done.stderr == (
            "Error: partition 0 was not reconciled: DiskFull: the volume is full\n"
        )
