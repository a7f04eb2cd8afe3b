"""A real Prometheus scrapes a real fleet: the rules load, and each expression returns data."""

import json
import random
import re
from collections.abc import Iterator
from typing import Any

from tests.cluster.chart import NAMESPACE
from tests.component.chart.rendering import of_kind, render
from tests.e2e.support.copied import copied_stream
from tests.e2e.support.kubectl import Object
from tests.e2e.support.restores import restored
from tests.e2e.support.routed_stream import routed_stream
from tests.e2e.support.s3_server import S3Server
from tests.e2e.support.scene import Scene
from tests.e2e.support.snapshots import Snapshots
from tests.e2e.support.volumes import lose_volume
from tests.faults.seed import SEED
from tests.support.checker.record import Message
from tests.support.patience import wait_for
from tests.support.prometheus.server import PrometheusServer, running_prometheus
from tests.support.traffic.topic_changes import delete_records
from tests.support.traffic.traffic import ID_HEADER, produce, retries

MONITORED: dict[str, Any] = {
    "metrics": {
        "podMonitor": {"enabled": True, "interval": "1s"},
        "prometheusRule": {"enabled": True},
        "grafanaDashboard": {"enabled": True},
    }
}
DASHBOARD_VARIABLES = {"$stream": ".*", "$__rate_interval": "1m"}
# A part of an expression that has data only when something is wrong, or was.
COMPARISON = re.compile(r"\s*(?:==|!=|<=?|>=?)\s*(?:bool\s+)?[\d.]+")
SELECTOR = re.compile(r"\b(?:dedupe_|process_)\w+(?:\{[^}]*\})?|\bup\{[^}]*\}")
COUNT = 2_000


def expressions(dashboard: dict[str, Any]) -> Iterator[str]:
    """The expressions of the dashboard's panels, with its variables set, whatever they compare."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"]
            for name, value in DASHBOARD_VARIABLES.items():
                expression = expression.replace(name, value)
            yield COMPARISON.sub("", expression)


def pods(place: Scene) -> list[Object]:
    """The pods of the operator and of the scene; those of other tests come and go."""
    return [
        pod
        for namespace in (NAMESPACE, place.namespace)
        for pod in place.kubectl.within(namespace).items("pods")
    ]


def without_data(prometheus: PrometheusServer, wanted: set[str]) -> list[str]:
    return sorted(each for each in wanted if not prometheus.query(each))


def test_prometheus_has_data_for_each_alert_and_each_panel(place: Scene, bucket: S3Server) -> None:
    objects = render(MONITORED)
    (rule,) = of_kind(objects, "PrometheusRule").values()
    (dashboard,) = of_kind(objects, "ConfigMap").values()
    monitors = of_kind(objects, "PodMonitor").values()
    alerts = {each["alert"]: each for group in rule["spec"]["groups"] for each in group["rules"]}

    copied = copied_stream(
        place, "copied", bucket=bucket, partitions=2, id={"from": "Header", "name": ID_HEADER}
    )
    routed = routed_stream(place, "routed", inputs=(2,), partitions=2, routers=1)
    stuck = place.stream("stuck", clean=False)
    place.topics.create(stuck.output_topic, 1, **{"max.message.bytes": "1000"})
    for stream in (copied, routed, stuck):
        stream.apply()
    for stream in (copied, routed, stuck):
        stream.wait_until_ready()
    routed.wait_for_routers(1)

    with running_prometheus(monitors, rule["spec"]) as prometheus:
        prometheus.discover(pods(place))
        produce(copied.bootstrap_servers, copied.input_topic, retries(SEED, COUNT, partitions=2))
        routed.send_to(routed.inputs[0], retries(SEED, COUNT, partitions=2))
        Snapshots(copied).make(f"{copied.name}-first")
        with restored(copied, 0):
            lose_volume(copied, 0)
        # A record without an id, one that the output refuses, and one that was deleted unread: there are two reasons
        # and an error to see.
        produce(copied.bootstrap_servers, copied.input_topic, [Message(0, b"key", b"value")])
        large = Message(0, b"key", random.Random(SEED).randbytes(5_000))
        produce(stuck.bootstrap_servers, stuck.input_topic, [large])
        delete_records(stuck, stuck.input_topic, 1)
        produce(stuck.bootstrap_servers, stuck.input_topic, [large])
        prometheus.discover(pods(place))

        # What has data only if something is wrong is looked for without its comparison.
        selectors = {each for rule in alerts.values() for each in SELECTOR.findall(rule["expr"])}
        panels = set(expressions(json.loads(next(iter(dashboard["data"].values())))))
        wait_for(
            lambda: not without_data(prometheus, selectors | panels),
            "each selector and panel has data",
            explain=lambda: "\n".join(without_data(prometheus, selectors | panels)),
        )

        jobs = prometheus.targets()
        assert jobs.keys() == {
            f"{NAMESPACE}/dedupestream-operator",
            f"{NAMESPACE}/dedupestream-workers",
        }
        assert {each["health"] for targets in jobs.values() for each in targets} == {"up"}
        rules = prometheus.rules()
        assert rules.keys() == alerts.keys()
        wait_for(
            lambda: {each["health"] for each in prometheus.rules().values()} == {"ok"},
            "each alert was evaluated",
        )
        # The whole way of one alert: from what happened to the text that a person reads.
        fires = [
            each
            for each in prometheus.rules()["DedupeStoreRestored"]["alerts"]
            if each["labels"]["namespace"] == place.namespace
        ]
        assert [(each["labels"]["stream"], each["labels"]["source"]) for each in fires] == [
            (copied.name, "Checkpoint")
        ]
        assert "Checkpoint" in fires[0]["annotations"]["description"]
