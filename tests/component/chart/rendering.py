"""Rendering the chart as its users do, with helm."""

import json
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.paths import CHART, CLUSTER_SH, cluster_cache
from tests.support.kubernetes_schemas.schemas import MINORS
from tests.support.patience import HANG_SECONDS

NAMESPACE = "dedupestream-system"

Object = dict[str, Any]


@cache
def helm_program() -> str:
    """The installed helm, else that of the test cluster, which is built if it is not there yet."""
    in_cache = cluster_cache() / "bin"
    if program := shutil.which("helm") or shutil.which("helm", path=in_cache):
        return program
    done = subprocess.run([CLUSTER_SH, "build-helm"], check=False, capture_output=True, text=True)
    if program := shutil.which("helm", path=in_cache):
        return program
    raise AssertionError(
        f"helm is neither on the PATH nor in {in_cache}, and could not be built: {done.stderr} "
        "Install helm (https://helm.sh/docs/intro/install)"
    )


def helm(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run helm. Fails if there is none."""
    command = [helm_program(), *arguments]
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, check=False, timeout=HANG_SECONDS
    )


def template(
    values: Mapping[str, object], chart: Path = CHART, *, kubernetes: str = MINORS[-1]
) -> subprocess.CompletedProcess[str]:
    """Render the chart with these values for a version of Kubernetes, whatever comes of it."""
    return helm(
        "template", "dedupestream", str(chart), "--namespace", NAMESPACE,
        "--kube-version", f"{kubernetes}.0", "--values", "-", stdin=json.dumps(values),
    )  # fmt: skip


def render(
    values: Mapping[str, object], chart: Path = CHART, *, kubernetes: str = MINORS[-1]
) -> list[Object]:
    """All objects of the chart with these values."""
    done = template(values, chart, kubernetes=kubernetes)
    assert done.returncode == 0, done.stderr
    documents = yaml.load_all(done.stdout, Loader=_Loader)
    return [document for document in documents if document]


def of_kind(objects: list[Object], kind: str) -> dict[str, Object]:
    """The objects of one kind by their names."""
    return {each["metadata"]["name"]: each for each in objects if each["kind"] == kind}


class _Loader(yaml.SafeLoader):
    """Refuses a key that is written twice: helm takes the last one, other tools refuse the file."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        assert len(set(keys)) == len(keys), f"{node.start_mark}: {keys}"
        return super().construct_mapping(node, deep)


def variables(objects: list[Object]) -> dict[str, str]:
    """The variables of the operator's container that have a value in the manifest."""
    (deployment,) = of_kind(objects, "Deployment").values()
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each["value"] for each in container.get("env", []) if "value" in each}
