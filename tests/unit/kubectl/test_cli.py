"""The commands, against a small API server over HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dedupe_crds.status.worker import Phase, WorkerStatus
from dedupe_kubectl.cli import main
from tests.unit.kubectl.api_server import (
    PODS,
    STREAMS,
    ApiServer,
    api_server,
    refused,
    write_kubeconfig,
)
from tests.unit.kubectl.clock import FakeClock
from tests.unit.kubectl.documents import condition, event, partition, pod, stream, worker


@pytest.fixture(name="api")
def _api(tmp_path: Path) -> Iterator[ApiServer]:
    with api_server(tmp_path / "config") as api:
        yield api


def run(api: ApiServer, *arguments: str) -> Result:
    done = CliRunner(env={"NO_COLOR": "1"}).invoke(
        main, [*arguments, "--kubeconfig", str(api.kubeconfig)], obj=FakeClock()
    )
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def said(told: WorkerStatus) -> object:
    return told.model_dump(mode="json", by_alias=True)


def test_all_streams_of_the_contexts_namespace(api: ApiServer) -> None:
    api.holds(stream("orders", status={"partitionsReady": "3/4", "lagMessages": 1200}), stream("a"))
    done = run(api, "status")
    assert done.exit_code == 0
    head, first, second = done.stdout.splitlines()
    assert head.split()[:3] == ["NAME", "READY", "STATE"]
    assert first.split()[:3] == ["a", "True", "Running"]
    assert second.split()[:5] == ["orders", "True", "Running", "3/4", "-"]
    assert "1,200" in second


def test_all_namespaces_have_a_column_of_their_own(api: ApiServer) -> None:
    api.holds(stream())
    assert run(api, "status", "-A").stdout.splitlines()[1].split()[:2] == ["shop", "orders"]


def test_no_streams_is_said_and_no_empty_table(api: ApiServer) -> None:
    api.holds()
    assert "No DedupeStreams in namespace shop" in run(api, "status").stdout


def test_a_stream_shows_the_live_figures_of_its_workers(api: ApiServer) -> None:
    api.holds(stream(partitions=[partition(lagMessages=99)]), pods=(pod(),))
    api.worker_says("orders-0-0", 200, said(worker(consumed=100, duplicates=5)))
    done = run(api, "status", "orders")
    (row,) = (line for line in done.stdout.splitlines() if "orders-0-0" in line)
    assert "5 (5.0 %)" in row
    assert " 7 " in row
    selectors = [query for path, query in api.queries if path == PODS]
    assert selectors[0] == {
        "labelSelector": ["dedupestream.io/stream=orders,app.kubernetes.io/component=worker"]
    }


def test_without_the_right_to_reach_pods_the_operators_figures_are_shown_and_it_is_said(
    api: ApiServer,
) -> None:
    api.holds(stream(partitions=[partition(lagMessages=99)]), pods=(pod(),))
    api.worker_says("orders-0-0", *refused(403, "forbidden"))
    done = run(api, "status", "orders")
    assert done.exit_code == 0
    assert "not live, because you may not get pods/proxy" in done.stdout
    assert " 99 " in done.stdout


def test_without_the_right_to_list_pods_too(api: ApiServer) -> None:
    api.holds(stream(partitions=[partition(lagMessages=99)]))
    api.answers[PODS] = refused(403, "forbidden")
    done = run(api, "status", "orders")
    assert done.exit_code == 0
    assert "Without pods and live figures: you may not list pods" in done.stdout


@pytest.mark.parametrize("body", ["oops", {"not": "a status"}])
def test_a_worker_that_answers_nonsense_or_nothing_is_as_silent(
    api: ApiServer, body: object
) -> None:
    api.holds(stream(partitions=[partition(lagMessages=99)]), pods=(pod(),))
    api.worker_says("orders-0-0", 200, body)
    assert " 99 " in run(api, "status", "orders").stdout
    api.worker_says("orders-0-0", 503, "no endpoints")
    assert " 99 " in run(api, "status", "orders").stdout


@pytest.mark.parametrize("command", ["status", "describe-problem"])
def test_no_text_of_the_cluster_controls_the_terminal(api: ApiServer, command: str) -> None:
    evil = "title \x1b]0;gone\x07 erase \x9b2J\x7f line \r\b but \\u001b stays"
    failed = worker(phase=Phase.FAILED, reason="Lost", message=evil)
    api.holds(
        stream(
            conditions=[condition("Ready", "False", "Failed", evil)],
            partitions=[partition(0, "Failed", message=evil)],
        ),
        pods=(pod(ready=False),),
    )
    api.worker_says("orders-0-0", 200, said(failed))
    api.answers["/api/v1/namespaces/shop/events"] = (200, {"items": [event("orders-0-0", evil)]})
    shown = run(api, command, "orders").output
    assert "title" in shown
    assert "\\u001b" in shown
    assert not set("\x1b\x07\x9b\x7f\r\b") & set(shown)


def test_a_stream_as_deep_as_the_api_server_takes_hides_no_other(api: ApiServer) -> None:
    deep = stream("deep")
    deep["spec"]["worker"] = {"affinity": "DEEP"}
    text = json.dumps({"items": [deep, stream("orders")]})
    affinity = '{"a":' * 9_900 + "1" + "}" * 9_900
    api.answers[STREAMS] = (200, text.replace('"DEEP"', affinity))
    names = [line.split()[0] for line in run(api, "status").stdout.splitlines()]
    assert names == ["NAME", "deep", "orders"]


def test_json_of_one_and_of_all(api: ApiServer) -> None:
    api.holds(stream(partitions=[partition()]), pods=(pod(),))
    api.worker_says("orders-0-0", 200, said(worker(consumed=100)))
    one = json.loads(run(api, "status", "orders", "-o", "json").stdout)
    assert (one["partitions"][0]["pod"], one["partitions"][0]["recordsPerSecond"]) == (
        "orders-0-0",
        0.0,
    )
    assert json.loads(run(api, "status", "-o", "json").stdout)["items"][0]["name"] == "orders"


@pytest.mark.parametrize(("command", "wanted"), [("suspend", True), ("resume", False)])
def test_suspending_and_resuming_are_one_patch(api: ApiServer, command: str, wanted: bool) -> None:
    api.holds(stream(spec={"suspend": not wanted}))
    done = run(api, command, "orders")
    assert done.exit_code == 0
    assert api.patches == [
        (f"{STREAMS}/orders", "application/merge-patch+json", {"spec": {"suspend": wanted}})
    ]
    api.holds(stream(spec={"suspend": wanted}))
    assert "already" in run(api, command, "orders").stdout
    assert len(api.patches) == 1


def test_restarting_sets_the_annotation_to_the_time(api: ApiServer) -> None:
    api.holds(stream())
    assert run(api, "restart", "orders").exit_code == 0
    ((_, _, body),) = api.patches
    assert "T" in body["metadata"]["annotations"]["dedupestream.io/restart"]


def test_waiting_that_is_in_vain_fails_with_what_is_missing(api: ApiServer) -> None:
    api.holds(stream(), pods=(pod(),))
    done = run(api, "restart", "orders", "--wait", "--timeout", "1")
    assert done.exit_code == 3
    assert "0 of 1 restarted, waiting for 0" in done.stdout
    assert "still waiting after 1 s" in done.stderr


def test_waiting_ends_when_all_partitions_are_ready(api: ApiServer) -> None:
    api.holds(stream(spec={"suspend": False}))
    done = run(api, "resume", "orders", "--wait")
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (
        0,
        "shop/orders: all partitions are ready",
    )


def test_a_change_of_a_paused_stream_says_that_nothing_happens(api: ApiServer) -> None:
    pause = {"dedupestream.io/pause-reconciliation": "true"}
    api.holds(stream(metadata={"annotations": pause}))
    assert "nothing happens until that is removed" in run(api, "restart", "orders").stdout


def test_nothing_wrong_is_exit_code_0_and_something_wrong_1(api: ApiServer) -> None:
    api.holds(stream(partitions=[partition()]), pods=(pod(),))
    api.worker_says("orders-0-0", 200, said(worker()))
    fine = run(api, "describe-problem", "orders")
    assert (fine.exit_code, fine.stdout) == (0, "shop/orders: nothing is wrong\n")

    waits = worker(phase=Phase.FAILED, reason="DiskFull", message="the volume is full")
    api.worker_says("orders-0-0", 200, said(waits))
    wrong = run(api, "describe-problem", "orders")
    assert wrong.exit_code == 1
    assert wrong.stdout == (
        "shop/orders: 1 problem\n\n"
        "1. Partition 0: its worker waits\n"
        "   why: DiskFull: the volume is full\n"
        "   do:  raise spec.storage.size\n"
    )


def test_problems_are_described_with_what_the_users_rights_show(api: ApiServer) -> None:
    api.holds(stream(conditions=[condition("Degraded", "True", "TopicMissing", "no topic raw.")]))
    for path in (PODS, "/api/v1/namespaces/shop/events", "/api/v1/pods"):
        api.answers[path] = refused(403, "forbidden")
    done = run(api, "describe-problem", "orders")
    assert done.exit_code == 1
    assert "TopicMissing: no topic raw." in done.stdout
    assert "Note: you may not list events in namespace shop" in done.stdout


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (refused(404, "not found", "orders"), "it does not exist; `kubectl dedupe status -A`"),
        ((404, "404 page not found"), "helm install"),
        (refused(403, "User u cannot"), "ask for the ClusterRole view"),
        (refused(401, "Unauthorized"), "log in again"),
        (refused(500, "etcd is slow"), "cannot get dedupestream orders in namespace shop: etcd"),
    ],
)
def test_every_refusal_is_one_line_that_says_what_to_do(
    api: ApiServer, answer: tuple[int, Any], says: str
) -> None:
    api.answers[f"{STREAMS}/orders"] = answer
    for command in ("status", "suspend", "restart", "describe-problem"):
        done = run(api, command, "orders")
        assert done.exit_code == 3
        assert says in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_the_namespace_is_the_contexts_unless_it_is_given(api: ApiServer) -> None:
    api.holds(stream())
    run(api, "status", "nobody")
    assert api.queries[-1][0] == f"{STREAMS}/nobody"
    run(api, "status", "nobody", "--context", "other")
    assert "/namespaces/default/" in api.queries[-1][0]
    run(api, "status", "nobody", "--context", "other", "-n", "bank")
    assert "/namespaces/bank/" in api.queries[-1][0]


def test_an_api_server_that_is_away_is_named(api: ApiServer) -> None:
    write_kubeconfig(api.kubeconfig, "http://127.0.0.1:1")
    done = run(api, "status")
    assert done.exit_code == 3
    assert "http://127.0.0.1:1 does not answer" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("option", ["--kubeconfig", "--context"])
def test_a_kubeconfig_that_is_not_there_says_how_to_name_one(tmp_path: Path, option: str) -> None:
    write_kubeconfig(tmp_path / "config", "http://127.0.0.1:1")
    wrong = {"--kubeconfig": str(tmp_path / "config"), "--context": "test", option: "nobodys"}
    done = CliRunner().invoke(main, ["status", *(part for pair in wrong.items() for part in pair)])
    assert done.exit_code == 3
    assert "set KUBECONFIG" in done.stderr
    assert ".;" not in done.stderr
