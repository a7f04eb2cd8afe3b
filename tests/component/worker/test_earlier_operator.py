"""A worker in the pod of an operator of another release is ready: a new one in an old pod, and the reverse."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml

from dedupe_crds.manifest import parse_manifest
from dedupe_crds.status.worker import WorkerStatus
from dedupe_local.servers.kafka import free_ports
from dedupe_operator.resources import config_map, pod_parts, pod_template
from tests.support.earlier_release import (
    WITHOUT_FURTHER_FIELDS,
    run_earlier,
    unpack_earlier,
    with_earlier,
)
from tests.support.patience import wait_for
from tests.support.processes.loopback import HTTP
from tests.support.traffic.streams import TestStream

CreateStream = Callable[..., TestStream]
Object = dict[str, Any]

_EARLIER_OPERATOR: Final = """
import json, sys
from dedupe_crds.manifest import parse_manifest
from dedupe_operator.resources import config_map, pod_template

stream = parse_manifest(json.loads(sys.argv[1]), "test")
release = pod_template.WorkerRelease(image="worker:1", pull_policy="Never")
template = pod_template.build(stream, 0, claim="orders-0", release=release, secrets_hash="a")
print(json.dumps([template["spec"]["containers"][0], config_map.build(stream)["data"]]))
"""
_EARLIER_READER: Final = """
import sys
from dedupe_crds.status.worker import WorkerStatus

print(WorkerStatus.model_validate_json(sys.argv[1]).ready)
"""
_PROBES: Final = ("startupProbe", "livenessProbe", "readinessProbe")


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = unpack_earlier(WITHOUT_FURTHER_FIELDS, tmp_path_factory.mktemp("earlier") / "tree")
    if tree is None:
        pytest.skip("the history of the repository is not here")
    return tree


def applied(stream: TestStream, changes: Object | None = None) -> Object:
    """Return the stream as the API server has it."""
    document: Object = yaml.safe_load(stream.manifest.read_text())
    document["metadata"] |= {"namespace": "shop", "uid": "1"}
    document["spec"] |= changes or {}
    return document


@contextmanager
def in_pod(
    container: Object, data: Object, directory: Path, environment: dict[str, str] | None
) -> Iterator[dict[str, str]]:
    """Run the worker of a container here until it is ready; yield the address behind each of its ports."""
    ports = dict(
        zip(
            [each["name"] for each in container["ports"]],
            free_ports(len(container["ports"])),
            strict=True,
        )
    )
    (directory / "token").write_text("secret")
    for name, text in data.items():
        (directory / name).write_text(text)
    here = {
        f"{pod_parts.CONFIG_MOUNT}/": f"{directory}/",
        f"{pod_template.ADMIN_MOUNT}/": f"{directory}/",
        f"{pod_template.STATE_MOUNT}/": f"{directory}/",
        "/tmp/fenced": f"{directory}/fenced",  # noqa: S108 (of the container)
        **{
            f"0.0.0.0:{each['containerPort']}": f"127.0.0.1:{ports[each['name']]}"
            for each in container["ports"]
        },
    }

    def mounted(text: str) -> str:
        found = next((each for each in here if each in text), None)
        return text.replace(found, here[found]) if found else text

    variables = {each["name"]: mounted(each["value"]) for each in container.get("env", [])}
    process = subprocess.Popen(
        [sys.executable, "-m", "dedupe_worker", *map(mounted, container["args"])],
        env={**(environment or with_earlier(Path(__file__).parents[3])), **variables},
        cwd=directory,
        stderr=(directory / "log").open("wb"),
    )
    try:
        addresses = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
        assert_ready(process, container, addresses)
        yield addresses
    finally:
        process.terminate()
        process.wait(30)


def assert_ready(
    process: subprocess.Popen[bytes], container: Object, addresses: dict[str, str]
) -> None:
    """Ask each probe of a container as the kubelet does, until it succeeds."""

    def succeeds(probe: Object) -> bool:
        assert process.poll() is None, "it has ended"
        where = addresses[probe["port"]]
        try:
            return HTTP.get(f"http://{where}{probe['path']}", timeout=30).is_success
        except httpx.TransportError:
            return False

    for name in _PROBES:
        wait_for(
            partial(succeeds, container[name]["httpGet"]), f"{name} succeeds", deadline_seconds=90
        )


def test_a_worker_in_a_pod_of_an_operator_of_the_release_before_is_ready(
    streams: CreateStream, earlier: Path, tmp_path: Path
) -> None:
    stream = streams()
    container, data = json.loads(
        run_earlier(earlier, _EARLIER_OPERATOR, json.dumps(applied(stream)))
    )
    with in_pod(container, data, tmp_path, None) as addresses:
        status = HTTP.get(f"http://{addresses['http']}/status", timeout=30).text
    assert "degraded" in json.loads(status), "it has what the operator does not know"
    assert run_earlier(earlier, _EARLIER_READER, status) == "True\n"


def test_a_worker_of_the_release_before_in_a_pod_of_this_operator_is_ready(
    streams: CreateStream, earlier: Path, tmp_path: Path
) -> None:
    """The stream's own image; the operator's release has its probes at a port of their own."""
    stream = parse_manifest(applied(streams(), {"worker": {"image": "worker:0"}}), "test")
    release = pod_template.WorkerRelease(image="worker:1", pull_policy="Never", probe_port=8081)
    template = pod_template.build(stream, 0, claim="a", release=release, secrets_hash="a")
    [container] = template["spec"]["containers"]
    data = config_map.build(stream)["data"]
    with in_pod(container, data, tmp_path, with_earlier(earlier)) as addresses:
        answer = HTTP.get(f"http://{addresses['http']}/status", timeout=30).content
    assert WorkerStatus.model_validate_json(answer).ready
