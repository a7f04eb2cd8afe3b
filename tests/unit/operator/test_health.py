"""The operator over HTTP."""

import falcon.testing
import pytest

from dedupe_operator import metrics
from dedupe_operator.health import make_app

NAMES = [
    'dedupe_operator_reconciles_total{result="ok"}',
    "dedupe_operator_reconcile_seconds_bucket",
    "dedupe_operator_last_reconcile_timestamp_seconds",
    'dedupe_operator_api_requests_total{resource="pods",verb="get"}',
    "dedupe_operator_streams",
    "dedupe_operator_leader",
    'dedupe_operator_stream_ready{namespace="shop",stream="orders"}',
]


def ask(path: str, *, idle: float = 0.0) -> falcon.testing.Result:
    return falcon.testing.TestClient(make_app(lambda: idle)).simulate_get(path)


def test_it_is_healthy_while_streams_are_looked_at() -> None:
    answer = ask("/healthz", idle=12.3456)
    assert answer.status_code == 200
    assert answer.json == {"lastReconcileAgeSeconds": 12.346}


@pytest.mark.parametrize(("idle", "status"), [(179.9, 200), (180.0, 503), (9999.0, 503)])
def test_it_is_unhealthy_when_no_look_ended_for_long(idle: float, status: int) -> None:
    assert ask("/healthz", idle=idle).status_code == status


@pytest.mark.parametrize("leads", [0, 1])
def test_leader_and_stand_by_are_both_ready(leads: int) -> None:
    before = metrics.LEADER._value.get()  # noqa: SLF001 # it has no reader of its own
    metrics.LEADER.set(leads)
    answer = ask("/readyz", idle=9999.0)
    metrics.LEADER.set(before)
    assert answer.status_code == 200
    assert answer.json == {"leader": bool(leads)}


def test_the_metrics_have_the_names_that_dashboards_use() -> None:
    metrics.RECONCILES.labels(result="ok").inc()
    metrics.API_REQUESTS.labels(verb="get", resource="pods").inc()
    metrics.STREAM_READY.labels("shop", "orders").set(1)
    answer = ask("/metrics")
    metrics.STREAM_READY.remove("shop", "orders")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    for name in NAMES:
        assert name in answer.text


def test_nothing_else_is_there() -> None:
    assert ask("/").status_code == 404
    assert (
        falcon.testing.TestClient(make_app(lambda: 0.0)).simulate_post("/healthz").status_code
        == 405
    )
