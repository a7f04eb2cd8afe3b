"""Rendering the chart as its users do, with helm."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[2] / "charts/dedupestream"
NAMESPACE = "dedupestream-system"
_KUBERNETES = "1.36.0"  # of the API server the chart is rendered for

Object = dict[str, Any]


def helm(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run helm. Fails if there is none."""
    cache = Path(os.environ.get("CLUSTER_CACHE", Path.home() / ".cache/testcluster"))
    program = shutil.which("helm") or shutil.which("helm", path=cache / "bin")
    if program is None:
        raise AssertionError(
            f"helm is neither on the PATH nor in {cache / 'bin'}: build the test cluster's programs "
            "with `make cluster-up`, or install helm 3 (https://helm.sh/docs/intro/install)"
        )
    return subprocess.run(
        [program, *arguments], input=stdin, capture_output=True, text=True, check=False, timeout=60
    )


def template(values: Mapping[str, object], chart: Path = CHART) -> subprocess.CompletedProcess[str]:
    """Render the chart with these values, whatever comes of it."""
    return helm(
        "template", "dedupestream", str(chart), "--namespace", NAMESPACE,
        "--kube-version", _KUBERNETES, "--values", "-", stdin=json.dumps(values),
    )  # fmt: skip


def render(values: Mapping[str, object], chart: Path = CHART) -> list[Object]:
    """All objects of the chart with these values."""
    done = template(values, chart)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def of_kind(objects: list[Object], kind: str) -> dict[str, Object]:
    """The objects of one kind by their names."""
    return {each["metadata"]["name"]: each for each in objects if each["kind"] == kind}
