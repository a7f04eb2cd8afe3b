"""`kubectl dedupe`, run as a person runs it."""

import json
import os
import subprocess
from pathlib import Path

from tests.cluster.environment import Environment
from tests.cluster.paths import REPOSITORY
from tests.e2e.support.kubectl import Kubectl
from tests.support.patience import HANG_SECONDS

_INSTALLED_IN = REPOSITORY / ".venv" / "bin"


class Plugin:
    """The plugin in one namespace: `plugin("status", "orders")`."""

    def __init__(
        self, cluster: Environment, namespace: str, kubeconfig: Path | str | None = None
    ) -> None:
        self._namespace = namespace
        self._environment = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig or cluster.kubeconfig),
            "PATH": f"{cluster.path()}:{_INSTALLED_IN}",
        }

    def __call__(self, *arguments: str) -> str:
        """Return what it printed. Fails if it failed."""
        done = self.run(*arguments)
        assert done.returncode == 0, f"kubectl dedupe {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run it, whatever comes of it."""
        return subprocess.run(
            self._command(arguments),
            check=False,
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            env=self._environment,
        )

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start it; what it prints can be read while it runs.

        It hears SIGINT as in a terminal, though a job in a shell's background does not.
        """
        return subprocess.Popen(
            ["env", "--default-signal=INT", *self._command(arguments)],  # noqa: S607 # coreutils'
            stdout=subprocess.PIPE,
            text=True,
            env=self._environment,
        )

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        return ["kubectl", "dedupe", *arguments, "--namespace", self._namespace]


def kubeconfig_of(kubectl: Kubectl, service_account: str, file: Path) -> Path:
    """Write a kubeconfig of somebody with a ServiceAccount's rights, and return its path."""
    token = kubectl("create", "token", service_account).strip()
    admin = json.loads(kubectl("config", "view", "--raw", "--minify", "-o", "json"))
    user = {"name": "user", "user": {"token": token}}
    context = {**admin["contexts"][0]["context"], "user": "user"}
    written = {**admin, "users": [user], "contexts": [{"name": "user", "context": context}]}
    file.write_text(json.dumps({**written, "current-context": "user"}))
    return file
