"""A Prometheus server for tests, on loopback, and the scrape configuration of a PodMonitor.

Debian builds Prometheus without its discovery of Kubernetes' pods. So `discover` tells it of the pods, with the labels
that discovery gives them; which of them it scrapes, and with which labels, it finds out from the PodMonitor.
"""

import json
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from dedupe_local.servers.kafka import free_ports
from tests.support.patience import wait_for
from tests.support.processes.loopback import HTTP
from tests.support.prometheus.programs import prometheus_program

_READY_SECONDS = 60.0
_STOP_SECONDS = 20.0
_POD = "__meta_kubernetes_pod"
_NAMESPACE = "__meta_kubernetes_namespace"


@dataclass(frozen=True)
class PrometheusServer:
    """A server that runs."""

    url: str
    discovered: Path

    def discover(self, pods: Iterable[Mapping[str, Any]]) -> None:
        """Tell the server of all pods of a cluster; it reads them within two seconds."""
        groups = [group for pod in pods for group in _target_groups(pod)]
        fresh = self.discovered.with_suffix(".new")
        fresh.write_text(json.dumps(groups))
        fresh.rename(self.discovered)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the series of an instant query. Fails if the server refuses the expression."""
        answer = self._get("query", query=expression)
        if answer["resultType"] == "scalar":
            return [{"metric": {}, "value": answer["result"]}]
        result: list[dict[str, Any]] = answer["result"]
        return result

    def targets(self) -> dict[str, list[dict[str, Any]]]:
        """Return the targets that it scrapes, by job."""
        jobs: dict[str, list[dict[str, Any]]] = {}
        for target in self._get("targets", state="active")["activeTargets"]:
            jobs.setdefault(target["labels"]["job"], []).append(target)
        return jobs

    def rules(self) -> dict[str, dict[str, Any]]:
        """Return the alerts by name, with their health as of the last evaluation."""
        groups = self._get("rules")["groups"]
        return {rule["name"]: rule for group in groups for rule in group["rules"]}

    def _get(self, path: str, **parameters: str) -> dict[str, Any]:
        answer = HTTP.get(f"{self.url}/api/v1/{path}", params=parameters, timeout=20)
        assert answer.status_code == 200, f"{parameters}: {answer.text}"
        data: dict[str, Any] = answer.json()["data"]
        return data


@contextmanager
def running_prometheus(
    pod_monitors: Iterable[Mapping[str, Any]], rules: Mapping[str, Any]
) -> Iterator[PrometheusServer]:
    """Run a server that scrapes by these PodMonitors, and evaluates the rules."""
    with tempfile.TemporaryDirectory(prefix="dedupe-prometheus-") as name:
        directory = Path(name)
        discovered = directory / "pods.json"
        (directory / "rules.yaml").write_text(yaml.safe_dump(dict(rules)))
        config = {
            "global": {"evaluation_interval": "2s"},
            "rule_files": [str(directory / "rules.yaml")],
            "scrape_configs": [scrape_config(each, discovered) for each in pod_monitors],
        }
        (directory / "prometheus.yaml").write_text(yaml.safe_dump(config))
        address = f"127.0.0.1:{free_ports(1)[0]}"
        log = directory / "log.txt"
        with log.open("w") as output:
            process = subprocess.Popen(
                [
                    prometheus_program("prometheus"),
                    f"--config.file={directory / 'prometheus.yaml'}",
                    f"--storage.tsdb.path={directory / 'data'}",
                    f"--web.listen-address={address}",
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            wait_for(
                lambda: _is_ready(process, address, log),
                "Prometheus is ready",
                deadline_seconds=_READY_SECONDS,
            )
            yield PrometheusServer(f"http://{address}", discovered)
        finally:
            process.terminate()
            process.wait(_STOP_SECONDS)


def _is_ready(process: "subprocess.Popen[bytes]", address: str, log: Path) -> bool:
    assert process.poll() is None, f"Prometheus ended: {log.read_text()[-2000:]}"
    try:
        return HTTP.get(f"http://{address}/-/ready", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def scrape_config(pod_monitor: Mapping[str, Any], discovered: Path) -> dict[str, Any]:
    """Return the scrape configuration that the Prometheus operator makes of a PodMonitor.

    Of its fields those are known that the chart sets; another one is an error.
    """
    metadata, spec = pod_monitor["metadata"], pod_monitor["spec"]
    assert spec.keys() <= {"selector", "namespaceSelector", "podMetricsEndpoints"}
    (endpoint,) = spec["podMetricsEndpoints"]
    assert endpoint.keys() <= {"port", "interval", "honorLabels"}
    job = f"{metadata['namespace']}/{metadata['name']}"
    return {
        "job_name": f"podMonitor/{job}/0",
        "scrape_interval": endpoint["interval"],
        "scrape_timeout": endpoint["interval"],
        "honor_labels": endpoint.get("honorLabels", False),
        "file_sd_configs": [{"files": [str(discovered)], "refresh_interval": "2s"}],
        "relabel_configs": [
            *_in_namespaces(spec.get("namespaceSelector"), metadata["namespace"]),
            # Pods that have ended have no metrics.
            {"source_labels": [f"{_POD}_phase"], "regex": "(Failed|Succeeded)", "action": "drop"},
            *_selecting(spec["selector"]),
            _keeping(f"{_POD}_container_port_name", endpoint["port"]),
            {"source_labels": [_NAMESPACE], "target_label": "namespace"},
            {"source_labels": [f"{_POD}_container_name"], "target_label": "container"},
            {"source_labels": [f"{_POD}_name"], "target_label": "pod"},
            {"target_label": "job", "replacement": job},
            {"target_label": "endpoint", "replacement": endpoint["port"]},
        ],
    }


def _in_namespaces(selector: Mapping[str, Any] | None, own: str) -> Iterator[dict[str, Any]]:
    if selector is None:
        yield _keeping(_NAMESPACE, own)
    elif not selector.get("any"):
        yield _keeping(_NAMESPACE, "|".join(selector["matchNames"]))


def _selecting(selector: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for name, value in selector.get("matchLabels", {}).items():
        yield _keeping(f"{_POD}_label_{_sanitized(name)}", value)
    for expression in selector.get("matchExpressions", []):
        assert expression["operator"] == "In"
        values = "|".join(expression["values"])
        yield _keeping(f"{_POD}_label_{_sanitized(expression['key'])}", values)


def _keeping(label: str, regex: str) -> dict[str, Any]:
    return {"source_labels": [label], "regex": f"({regex})", "action": "keep"}


def _sanitized(name: str) -> str:
    return "".join(char if char.isalnum() else "_" for char in name)


def _target_groups(pod: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Return what Prometheus' discovery knows of a pod: a target for each port."""
    metadata, status = pod["metadata"], pod["status"]
    if not status.get("podIP"):
        return
    labels = {
        f"{_POD}_label_{_sanitized(name)}": value
        for name, value in metadata.get("labels", {}).items()
    }
    labels |= {
        _NAMESPACE: metadata["namespace"],
        f"{_POD}_name": metadata["name"],
        f"{_POD}_phase": status["phase"],
    }
    for container in pod["spec"]["containers"]:
        for port in container.get("ports", []):
            yield {
                "targets": [f"{status['podIP']}:{port['containerPort']}"],
                "labels": labels
                | {
                    f"{_POD}_container_name": container["name"],
                    f"{_POD}_container_port_name": port.get("name", ""),
                },
            }
