"""A stream whose further partitions are in objects of their own, as the commands show it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dedupe_crds.exit_status import ExitStatus
from dedupe_kubectl.objects import Object, with_groups
from tests.unit.kubectl.api_server import ApiServer, api_server, refused
from tests.unit.kubectl.commands.scene import run
from tests.unit.kubectl.documents import READY, condition, partition, stream

GROUPS = "/apis/dedupestream.io/v1alpha1/namespaces/shop/dedupestreampartitions"
LARGE = stream(
    partitions=[partition(0), partition(1)],
    metadata={"uid": "u-1"},
    status={"partitionCount": 5, "partitionsReady": "4/5"},
    conditions=[*READY[:1], condition("Degraded", reason="DiskFull", message="It is full.")],
)


def group(*partitions: Object, owner: str = "u-1") -> Object:
    return {
        "metadata": {"name": "orders-2", "namespace": "shop", "ownerReferences": [{"uid": owner}]},
        "status": {"partitions": list(partitions)},
    }


@pytest.fixture(name="api")
def _api(tmp_path: Path) -> Iterator[ApiServer]:
    with api_server(tmp_path / "config") as api:
        api.holds(LARGE)
        full = partition(4, "Failed", message="its volume is full")
        groups = [group(full), group(partition(2), partition(3)), group(partition(9), owner="u-0")]
        api.answers[GROUPS] = (200, {"items": groups})
        yield api


def asked(api: ApiServer) -> list[dict[str, list[str]]]:
    return [query for path, query in api.queries if path == GROUPS]


def test_status_shows_all_partitions_in_order(api: ApiServer) -> None:
    shown = json.loads(run(api, "status", "orders", "-o", "json").stdout)
    assert [each["partition"] for each in shown["partitions"]] == [0, 1, 2, 3, 4]
    assert shown["partitions"][4]["note"] == "its volume is full"
    assert asked(api)[0] == {"labelSelector": ["dedupestream.io/stream=orders"]}


def test_the_list_of_streams_needs_no_groups_and_top_does(api: ApiServer) -> None:
    run(api, "status")
    assert not asked(api)
    shown = json.loads(run(api, "top", "-o", "json").stdout)
    assert shown["items"][0]["workers"] == 5
    assert asked(api) == [{}]


def test_a_problem_of_a_partition_in_a_group_is_found(api: ApiServer) -> None:
    done = run(api, "describe-problem", "orders")
    assert "Partition 4: it is not ready (Failed)" in done.stdout
    assert "its volume is full" in done.stdout


def test_a_restore_knows_the_partitions_of_all_groups(api: ApiServer) -> None:
    done = run(api, "restore", "orders", "-p", "3", "--from", "OutputTopic", "--yes")
    assert done.exit_code == 0, done.output
    done = run(api, "restore", "orders", "-p", "9", "--from", "OutputTopic", "--yes")
    assert "has no partition 9: it has 0-4" in done.output


def test_who_may_not_read_groups_is_told_so(api: ApiServer) -> None:
    api.answers[GROUPS] = refused(403, "forbidden")
    done = run(api, "status", "orders")
    assert done.exit_code == ExitStatus.FAILED
    assert "list dedupestreampartitions in namespace shop" in done.output


def test_a_stream_of_one_group_asks_for_none(api: ApiServer) -> None:
    api.holds(stream(partitions=[partition(0)]))
    run(api, "status", "orders")
    assert not asked(api)


def test_what_the_stream_lists_counts_before_its_groups() -> None:
    """As after a rollback to a release without groups, while the operator may not write one."""
    both = {**LARGE, "status": {**LARGE["status"], "partitions": [partition(2, "Starting")]}}
    shown = with_groups(both, [group(partition(2), partition(3))])
    phases = {each["partition"]: each["phase"] for each in shown["status"]["partitions"]}
    assert phases == {2: "Starting", 3: "Running"}
    assert both["status"]["partitions"] == [partition(2, "Starting")]
