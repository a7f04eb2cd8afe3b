"""The pods of examples/kubernetes/aggregate run a command there is, as the worker's user, with what they mount."""

import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from dedupe_crds.manifest import load_manifest
from dedupe_operator.kubernetes.names import claim_name
from dedupe_operator.resources import config_map, pod_template
from dedupe_pipeline.cli import main
from dedupe_pipeline.jobs.aggregate import AggregateJob, load_job

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples/kubernetes"
FILES = ("cronjob.yaml", "executors.yaml")


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((EXAMPLES / "aggregate" / name).read_text()))


def named(name: str, kind: str) -> dict[str, Any]:
    [found] = (each for each in documents(name) if each["kind"] == kind)
    return found


def pod(name: str) -> dict[str, Any]:
    if name == "cronjob.yaml":
        spec = named(name, "CronJob")["spec"]["jobTemplate"]["spec"]
    else:
        spec = named(name, "Deployment")["spec"]
    found: dict[str, Any] = spec["template"]["spec"]
    return found


def command(name: str) -> list[str]:
    """What follows `dedupe-pipeline` or spark-submit's primary resource."""
    arguments: list[str] = pod(name)["containers"][0]["args"]
    if name == "cronjob.yaml":
        return arguments
    words = shlex.split(arguments[0].replace("\\\n", " "))
    place = next(i for i, word in enumerate(words) if word.endswith("dedupe_pipeline/__main__.py"))
    return words[place + 1 :]


@pytest.mark.parametrize("name", FILES)
def test_the_command_is_the_pipelines(name: str, tmp_path: Path) -> None:
    subcommand, *arguments = command(name)
    there = [re.sub(r"/etc/\S+", str(tmp_path / "file"), each) for each in arguments]

    parsed = main.commands[subcommand].make_context(subcommand, there)

    assert isinstance(parsed, click.Context)
    assert parsed.params["manifest"] == parsed.params["job_file"] == tmp_path / "file"


@pytest.mark.parametrize("name", FILES)
def test_each_file_that_the_command_reads_is_mounted(name: str) -> None:
    found = pod(name)
    [container] = found["containers"]
    volumes = {each["name"]: each for each in found["volumes"]}
    mounted = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
    files = {Path(path) for path in re.findall(r"/etc/[^\s'\"]+", " ".join(container["args"]))}

    assert {str(path.parent) for path in files} <= mounted.keys()
    assert Path("/etc/dedupestream/config") / config_map.MANIFEST_KEY in files
    assert mounted["/etc/dedupestream/config"]["configMap"]["name"] == "flights-worker"
    assert "secret" in mounted["/etc/dedupestream/postgres"]
    assert mounted["/etc/dedupestream/job"]["configMap"]["name"] == "flights-hourly"


@pytest.mark.parametrize("name", FILES)
def test_it_is_the_workers_user_with_a_file_system_that_is_read_only(name: str) -> None:
    stream = load_manifest(EXAMPLES / "flights.yaml")
    release = pod_template.WorkerRelease(image="dedupestream/worker:0.1.0", pull_policy="Always")
    worker = pod_template.build(
        stream, 0, claim=claim_name("flights", 0, 1), release=release, secrets_hash=""
    )["spec"]
    found = pod(name)

    assert found["securityContext"] == worker["securityContext"]
    [container], [of_worker] = found["containers"], worker["containers"]
    assert container["securityContext"] == of_worker["securityContext"]
    assert container["securityContext"]["readOnlyRootFilesystem"]


def test_its_job_file_is_a_job(tmp_path: Path) -> None:
    path = tmp_path / "aggregate.yaml"
    path.write_text(named("cronjob.yaml", "ConfigMap")["data"]["aggregate.yaml"])

    assert load_job(path).table == "flights_hourly"


def test_executors_are_pods_that_the_driver_may_make() -> None:
    template = yaml.safe_load(named("executors.yaml", "ConfigMap")["data"]["pod.yaml"])
    assert template["kind"] == "Pod"
    assert template["spec"]["securityContext"]["runAsNonRoot"]
    [rule] = named("executors.yaml", "Role")["rules"]
    assert {"create", "get", "list", "watch", "delete"} <= set(rule["verbs"])
    assert "pods" in rule["resources"]


def test_the_image_has_what_the_pods_run() -> None:
    image = (ROOT / "Dockerfile").read_text().partition("FROM java AS pipeline\n")[2]

    assert "DEDUPESTREAM_CACHE=/opt/dedupestream/cache" in image
    assert "USER 65532:65532" in image
    assert (
        "/opt/dedupestream/cache/jars/spark-kafka-"
        in pod("executors.yaml")["containers"][0]["args"][0]
    )


def test_every_field_of_a_job_file_is_in_its_page() -> None:
    page = (ROOT / "docs/aggregate.md").read_text()
    fields = [field.alias or name for name, field in AggregateJob.model_fields.items()]

    assert [name for name in fields if f"| `{name}` |" not in page] == []
