"""The Job of examples/kubernetes fills the worker's volume, as the worker's user, with an existing command."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from dedupe_crds.manifest import load_manifest
from dedupe_operator.kubernetes.names import claim_name
from dedupe_operator.resources import config_map, pod_template
from dedupe_operator.resources.config_map import Config
from dedupe_worker.cli import main

EXAMPLES = Path(__file__).parents[3] / "examples/kubernetes"


@pytest.fixture
def pod() -> dict[str, Any]:
    job = yaml.safe_load((EXAMPLES / "bootstrap-job.yaml").read_text())
    spec: dict[str, Any] = job["spec"]["template"]["spec"]
    return spec


@pytest.fixture
def worker() -> dict[str, Any]:
    stream = load_manifest(EXAMPLES / "flights.yaml")
    release = pod_template.WorkerRelease(image="dedupestream/worker:0.1.0", pull_policy="Always")
    claim = claim_name(stream.metadata.name, 0, 1)
    newest = Config(config_map.newest_name(stream.metadata.name), "")
    spec: dict[str, Any] = pod_template.build(
        stream, 0, claim=claim, release=release, secrets_hash="", config=newest
    )["spec"]
    return spec


def test_it_has_the_workers_volume_and_manifest_where_the_worker_has_them(
    pod: dict[str, Any], worker: dict[str, Any]
) -> None:
    for name in ("state", "config"):
        [in_job], [in_worker] = (
            [volume for volume in each["volumes"] if volume["name"] == name]
            for each in (pod, worker)
        )
        assert in_job == in_worker
        [in_job], [in_worker] = (
            [mount for mount in each["containers"][0]["volumeMounts"] if mount["name"] == name]
            for each in (pod, worker)
        )
        assert in_job == in_worker


def test_it_is_the_workers_user_without_more_rights(
    pod: dict[str, Any], worker: dict[str, Any]
) -> None:
    assert pod["securityContext"] == worker["securityContext"]
    [container], [of_worker] = pod["containers"], worker["containers"]
    assert container["securityContext"] == of_worker["securityContext"]
    assert container["image"] == of_worker["image"]


def test_its_command_is_one_of_the_workers(
    pod: dict[str, Any], worker: dict[str, Any], tmp_path: Path
) -> None:
    name, *arguments = pod["containers"][0]["args"]
    of_worker = dict(one.split("=", 1) for one in worker["containers"][0]["args"])
    given = dict(one.split("=", 1) for one in arguments)
    for shared in ("--config", "--state-dir", "--partition"):
        assert given[shared] == of_worker[shared]
    assert given["--config"].endswith(config_map.MANIFEST_KEY)

    (tmp_path / "stream.yaml").touch()
    given["--config"] = str(tmp_path / "stream.yaml")
    parsed = main.commands[name].make_context(name, [f"{k}={v}" for k, v in given.items()])

    assert parsed.params["source"] == "topic:flights-delivered"
    assert parsed.params["work_dir"] == Path("/work")
