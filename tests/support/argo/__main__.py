"""`python -m tests.support.argo`: write the schema of a CronWorkflow again.

It is that of the CustomResourceDefinition in the Go module of Argo Workflows. Needs Go.
"""

import gzip
import json
import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import yaml

from tests.support.argo import PATH
from tests.support.kubernetes_schemas.__main__ import strict

_MODULE: Final = "github.com/argoproj/argo-workflows/v4@v4.0.5"
_DEFINITION: Final = "manifests/base/crds/full/argoproj.io_cronworkflows.yaml"


def main() -> None:
    """Write the schema, without descriptions."""
    with TemporaryDirectory(prefix="argo-") as cache:
        definition = _fetch(Path(cache))
    [version] = definition["spec"]["versions"]
    content = {"module": _MODULE, "schema": strict(version["schema"]["openAPIV3Schema"])}
    # Without the time, so that equal content is an equal file.
    PATH.write_bytes(gzip.compress(json.dumps(content, sort_keys=True).encode(), mtime=0))


def _fetch(cache: Path) -> dict[str, Any]:
    done = subprocess.run(
        ["go", "mod", "download", "-json", _MODULE],  # noqa: S607 # any go
        cwd=cache,
        env=os.environ | {"GOMODCACHE": str(cache), "GOFLAGS": "-modcacherw"},
        check=True,
        stdout=subprocess.PIPE,
    )
    text = (Path(json.loads(done.stdout)["Dir"]) / _DEFINITION).read_text()
    definition: dict[str, Any] = yaml.load(text, Loader=yaml.CSafeLoader)
    return definition


if __name__ == "__main__":
    main()
