"""`kubectl dedupe top`, against a small API server over HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dedupe_crds.status.worker import WorkerStatus
from tests.unit.kubectl.api_server import PODS, ApiServer, api_server, refused
from tests.unit.kubectl.commands.scene import run
from tests.unit.kubectl.documents import partition, pod, stream, worker

ROUTERS = {"replicas": 1, "inputs": [{"topic": "raw", "lagMessages": 1000}]}


@pytest.fixture(name="api")
def _api(tmp_path: Path) -> Iterator[ApiServer]:
    """Streams orders, with two workers of which one does not answer, and returns, with routers."""
    with api_server(tmp_path / "config") as api:
        two = [partition(0), partition(1, lagMessages=99, duplicates=50, window="10m")]
        api.holds(
            stream(partitions=two),
            stream("returns", partitions=[partition(0)], status={"routers": ROUTERS}),
            pods=(pod(0), pod(1), pod(0, of="returns")),
        )
        api.worker_says("orders-0-0", *said(worker(consumed=100, duplicates=5, store_bytes=2048)))
        api.then[f"{PODS}/orders-0-0:8080/proxy/status"] = [
            said(worker(consumed=350, duplicates=5, store_bytes=2048))
        ]
        api.worker_says("returns-0-0", *said(worker(consumed=10, store_bytes=1 << 20)))
        yield api


def said(told: WorkerStatus) -> tuple[int, object]:
    return 200, told.model_dump(mode="json", by_alias=True)


def test_streams_with_what_their_workers_do_and_hold_together(api: ApiServer) -> None:
    done = run(api, "top")
    assert done.exit_code == 0
    head, orders, returns, total = (line.split() for line in done.stdout.splitlines())
    columns = ["STREAM", "WORKERS", "RATE/S", "RECORDS", "DUPLICATES", "LAG", "WINDOW", "STORE"]
    assert head == columns
    # The duplicates of the worker that does not answer are not divided by the records of the other.
    assert orders == ["orders", "1/2", "250", "350", "5", "(1.4", "%)", "106", "10m", "2Ki"]
    assert returns == ["returns", "1/1", "0", "10", "0", "(0.0", "%)", "1,007", "1h", "1Mi"]
    assert total == ["total", "2/3", "250", "360", "5", "(1.4", "%)", "1,113", "10m", "1Mi"]


def test_the_partitions_of_a_stream(api: ApiServer) -> None:
    done = run(api, "top", "orders")
    head, first, second, total = (line.split() for line in done.stdout.splitlines())
    assert head[0] == "PARTITION"
    assert first == ["0", "250", "350", "5", "(1.4", "%)", "7", "1h", "2Ki"]
    assert second == ["1", "-", "-", "50", "99", "10m", "-"]
    assert total[0] == "total"


def test_the_largest_first(api: ApiServer) -> None:
    def order(figure: str) -> list[str]:
        items = json.loads(run(api, "top", "--sort-by", figure, "-o", "json").stdout)["items"]
        return [item["stream"] for item in items]

    assert order("rate") == ["orders", "returns"]
    assert order("store") == order("lag") == ["returns", "orders"]


def test_all_namespaces_have_a_column_of_their_own(api: ApiServer) -> None:
    head, first, *_ = run(api, "top", "-A").stdout.splitlines()
    assert head.split()[:2] == ["NAMESPACE", "STREAM"]
    assert first.split()[:2] == ["shop", "orders"]
    done = run(api, "top", "orders", "-A")
    assert (done.exit_code, "use -n instead of -A" in done.stderr) == (2, True)


def test_without_the_right_to_reach_pods_the_operators_figures_are_shown(api: ApiServer) -> None:
    api.worker_says("orders-0-0", *refused(403, "forbidden"))
    note, _, orders, *_ = run(api, "top").stdout.splitlines()
    assert "not live, because you may not get pods/proxy" in note
    assert orders.split() == ["orders", "0/2", "-", "-", "50", "99", "10m", "-"]


def test_no_streams_is_said_and_no_empty_table(api: ApiServer) -> None:
    api.holds()
    assert "No streams in namespace shop" in run(api, "top").stdout
