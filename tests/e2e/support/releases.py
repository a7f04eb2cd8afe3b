"""Releases of the chart: installed, upgraded and removed with helm."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from dedupe_crds.openapi import PLURAL
from dedupe_crds.spec.stream import GROUP
from tests.cluster.chart import NAMESPACE, RELEASE
from tests.cluster.environment import Environment
from tests.cluster.errors import run
from tests.cluster.paths import CHART
from tests.support.patience import HANG_SECONDS

_HANGS: Final = f"--timeout={HANG_SECONDS:.0f}s"
_OLD_VERSION: Final = "0.0.9"
_OLD_OPERATOR_LACKS: Final = "--worker-image-pull-policy"

Values = Mapping[str, Any]


class Release:
    """One release; that of the cluster's own operator if none is named."""

    def __init__(
        self, cluster: Environment, name: str = RELEASE, namespace: str = NAMESPACE
    ) -> None:
        self.name = name
        self._namespace = namespace
        self._environment = {
            **os.environ,
            "KUBECONFIG": cluster.kubeconfig,
            "PATH": cluster.path(),
        }

    def upgrade(self, chart: Path = CHART, values: Values | None = None, *options: str) -> None:
        """Install or upgrade it, and wait until its operator is there.

        `values` are set beside those it has; those it has stay as they are.
        """
        self._helm(
            *("upgrade", "--install", self.name, chart, "--wait", _HANGS),
            *("--reset-then-reuse-values", "--values", "-"),
            *options,
            given=json.dumps(values or {}),
        )

    def roll_back(self) -> None:
        """Return to the revision before the last one, and wait until its operator is there."""
        self._helm("rollback", self.name, "--wait", _HANGS)

    def uninstall(self) -> None:
        """Remove it, and wait until its operator is gone."""
        self._helm("uninstall", self.name, "--wait", _HANGS)

    def values(self) -> Values:
        """The values it was given."""
        found: Values = json.loads(self._helm("get", "values", self.name, "--output", "json"))
        return found

    @contextmanager
    def restored(self) -> Iterator[Values]:
        """Its values; at the end it is again what it was, whatever was done to it."""
        before = self.values()
        try:
            yield before
        finally:
            self._helm(
                *("upgrade", "--install", self.name, CHART, "--wait", _HANGS),
                *("--reset-values", "--values", "-"),
                given=json.dumps(before),
            )

    def package(self, chart: Path, directory: Path) -> Path:
        """Pack a chart as it is published, and return the file."""
        self._helm("package", chart, "--destination", directory)
        [packed] = directory.glob("*.tgz")
        return packed

    def _helm(self, *arguments: str | Path, given: str | None = None) -> str:
        return run(
            [
                "helm",
                *arguments,
                *([] if "package" in arguments else ["--namespace", self._namespace]),
            ],
            what=f"helm {arguments[0]}",
            timeout_seconds=HANG_SECONDS,
            env=self._environment,
            given=given,
        )


def previous_chart(directory: Path) -> Path:
    """Write the chart as it may have been before: its streams know no `spec.failover`, its operator less flags."""
    chart = directory / "previous" / CHART.name
    shutil.copytree(CHART, chart)
    about = chart / "Chart.yaml"
    described = yaml.safe_load(about.read_text())
    about.write_text(yaml.safe_dump({**described, "version": _OLD_VERSION}))
    crd = chart / "files" / "crds" / f"{PLURAL}.{GROUP}.yaml"
    definition = yaml.safe_load(crd.read_text())
    [version] = definition["spec"]["versions"]
    del version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["failover"]
    crd.write_text(yaml.safe_dump(definition))
    deployment = chart / "templates" / "deployment.yaml"
    lines = deployment.read_text().splitlines(keepends=True)
    kept = [line for line in lines if _OLD_OPERATOR_LACKS not in line]
    assert len(kept) == len(lines) - 1
    deployment.write_text("".join(kept))
    return chart
