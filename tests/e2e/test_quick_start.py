"""What the README tells people to do on Kubernetes, done as it stands there."""

import os
import re
import subprocess

from tests.cluster.environment import Environment
from tests.cluster.paths import REPOSITORY
from tests.e2e.support.kubectl import Kubectl
from tests.support.patience import HANG_SECONDS

_SECTION = "## On Kubernetes"
# The cluster is there, and other tests use it.
_DONE_ALREADY = ("make cluster-", "eval ", "helm ", "  --set ")


def _commands() -> str:
    """The section's shell blocks, one after another."""
    text = (REPOSITORY / "README.md").read_text()
    section = text.partition(f"{_SECTION}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```sh\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return "\n".join(line for line in lines if not line.startswith(_DONE_ALREADY))


def test_the_readmes_quick_start_works_as_written(release: Environment, kubectl: Kubectl) -> None:
    commands = _commands()
    assert commands.count("kubectl") > 5
    path = f"{REPOSITORY / '.venv' / 'bin'}:{release.path()}"
    env = {**os.environ, **release.variables(), "PATH": path, "COLUMNS": "160"}
    try:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],  # noqa: S607 # any bash
            check=False,
            capture_output=True,
            text=True,
            env=env,
            cwd=REPOSITORY,
            timeout=HANG_SECONDS,
        )
    finally:
        kubectl.remove("namespace", "shop")
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "condition met" in done.stdout
    assert re.search(r"^flights +True +2/2", done.stdout, flags=re.MULTILINE), done.stdout
    assert "shop/flights: each message exactly once, in order" in done.stdout, done.stdout
