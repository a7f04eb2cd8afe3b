"""The environment variables by which tests and developers reach the cluster."""

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.cluster.errors import ClusterError
from tests.cluster.paths import REPOSITORY, STATE

_SAVED = STATE / "environment.json"
_VARIABLES = {
    "KUBECONFIG": "kubeconfig",
    "KAFKA_BOOTSTRAP": "kafka_bootstrap",
    "KAFKA_BOOTSTRAP_IN_CLUSTER": "kafka_bootstrap_in_cluster",
    "OPERATOR_IMAGE": "operator_image",
    "WORKER_IMAGE": "worker_image",
    "NODE_CONTROL": "node_control",
}
_OPTIONAL = {"NODE_CONTROL"}
_SETTINGS = ("CLUSTER_DIR", "CLUSTER_NET", "CLUSTER_CACHE")  # NODE_CONTROL needs the same values
_PLUGINS = REPOSITORY / ".venv" / "bin"  # kubectl finds the plugin kubectl-dedupe there


@dataclass(frozen=True, kw_only=True)
class Environment:
    """A cluster that is up, with a Kafka broker.

    `kafka_bootstrap` is for this machine, `kafka_bootstrap_in_cluster` for pods. `node_control` is a
    program with kill-node, start-node, partition-node and heal-node, if tests may break nodes.
    `tools` is a directory with kubectl and helm, if they are not on the PATH. `settings` are
    variables that `node_control` needs.
    """

    kubeconfig: str
    kafka_bootstrap: str
    kafka_bootstrap_in_cluster: str
    operator_image: str
    worker_image: str
    node_control: str | None = None
    tools: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    def variables(self) -> dict[str, str]:
        """Return the variables by name, without the PATH."""
        named = {name: getattr(self, attribute) for name, attribute in _VARIABLES.items()}
        named |= self.settings
        return {name: value for name, value in named.items() if value is not None}

    def path(self) -> str:
        """Return the PATH for processes that use the cluster."""
        found = os.environ["PATH"]
        if self.tools is None or self.tools in found.split(":"):
            return found
        return f"{self.tools}:{found}"

    def exports(self) -> str:
        """Return the variables as `export` lines for a shell."""
        lines = [f"export {name}={shlex.quote(value)}" for name, value in self.variables().items()]
        plugins = _PLUGINS if _PLUGINS.is_dir() else None
        before = f"{shlex.quote(self.tools)}:" if self.tools else ""
        after = f":{shlex.quote(str(plugins))}" if plugins else ""
        return "\n".join([*lines, f'export PATH={before}"$PATH"{after}'])

    def save(self) -> None:
        """Save the environment for `load` in another process."""
        _SAVED.parent.mkdir(parents=True, exist_ok=True)
        _SAVED.write_text(json.dumps(asdict(self), indent=2))


def load() -> Environment | None:
    """Return the cluster that `make cluster-up` has started, or None."""
    return Environment(**json.loads(_SAVED.read_text())) if _SAVED.exists() else None


def given(variables: Mapping[str, str]) -> Environment:
    """Return the cluster that environment variables describe.

    Raises:
        ClusterError: variables are missing.
    """
    missing = [name for name in _VARIABLES if not variables.get(name) and name not in _OPTIONAL]
    if missing:
        raise ClusterError(
            f"KUBECONFIG names a cluster of your own, and {', '.join(missing)} must be set as well: "
            "KAFKA_BOOTSTRAP is the address of a Kafka broker for this machine, "
            "KAFKA_BOOTSTRAP_IN_CLUSTER the address of the same broker for pods. OPERATOR_IMAGE and "
            "WORKER_IMAGE are images (make images) that the nodes have or can pull. Without "
            "KUBECONFIG, a cluster is started for you."
        )
    found = {attribute: variables.get(name) for name, attribute in _VARIABLES.items()}
    return Environment(
        **{name: value for name, value in found.items() if value},
        settings=settings_in(variables),
    )


def settings_in(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that move a cluster to other directories and addresses."""
    return {name: variables[name] for name in _SETTINGS if variables.get(name)}


def current() -> Environment:
    """Return the cluster of KUBECONFIG if it is set, else of `make cluster-up`.

    Raises:
        ClusterError: there is no cluster, or KUBECONFIG is set without the other variables.
    """
    if os.environ.get("KUBECONFIG"):
        return given(os.environ)
    started = load()
    if started is None or not Path(started.kubeconfig).exists():
        raise ClusterError(
            "There is no cluster: start a cluster with `make cluster-up`, use `make test-e2e`, which "
            "starts and removes a cluster, or set KUBECONFIG to your own."
        )
    return started
