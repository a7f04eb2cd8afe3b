"""How tests and people reach the cluster: a handful of environment variables."""

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
_SETTINGS = ("CLUSTER_DIR", "CLUSTER_NET", "CLUSTER_CACHE")  # NODE_CONTROL must see the same
_PLUGINS = REPOSITORY / ".venv" / "bin"  # where kubectl finds ours


@dataclass(frozen=True, kw_only=True)
class Environment:
    """A cluster that is up, with a Kafka broker.

    `kafka_bootstrap` is for this machine, `kafka_bootstrap_in_cluster` for pods. `node_control` is a
    program with kill-node, start-node, partition-node and heal-node, if nodes may be treated so.
    `tools` is a directory with kubectl and helm, if they are not on the PATH anyway. `settings` are
    variables that `node_control` must see.
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
        """The variables by name, without the PATH."""
        named = {name: getattr(self, attribute) for name, attribute in _VARIABLES.items()}
        named |= self.settings
        return {name: value for name, value in named.items() if value is not None}

    def path(self) -> str:
        """The PATH of processes that use the cluster."""
        found = os.environ["PATH"]
        if self.tools is None or self.tools in found.split(":"):
            return found
        return f"{self.tools}:{found}"

    def exports(self) -> str:
        """The variables as a shell reads them."""
        lines = [f"export {name}={shlex.quote(value)}" for name, value in self.variables().items()]
        plugins = _PLUGINS if _PLUGINS.is_dir() else None
        before = f"{shlex.quote(self.tools)}:" if self.tools else ""
        after = f":{shlex.quote(str(plugins))}" if plugins else ""
        return "\n".join([*lines, f'export PATH={before}"$PATH"{after}'])

    def save(self) -> None:
        """Keep it for `load`, in another process."""
        _SAVED.parent.mkdir(parents=True, exist_ok=True)
        _SAVED.write_text(json.dumps(asdict(self), indent=2))


def load() -> Environment | None:
    """The cluster that `make cluster-up` has started; None if there is none."""
    return Environment(**json.loads(_SAVED.read_text())) if _SAVED.exists() else None


def given(variables: Mapping[str, str]) -> Environment:
    """The cluster that environment variables describe.

    Raises:
        ClusterError: some are missing.
    """
    missing = [name for name in _VARIABLES if not variables.get(name) and name not in _OPTIONAL]
    if missing:
        raise ClusterError(
            f"KUBECONFIG names a cluster of your own, and {', '.join(missing)} must be set as well: "
            "KAFKA_BOOTSTRAP is a Kafka broker as this machine reaches it, "
            "KAFKA_BOOTSTRAP_IN_CLUSTER the same broker as pods reach it, OPERATOR_IMAGE and "
            "WORKER_IMAGE are images (make images) that its nodes have or can pull. Without "
            "KUBECONFIG a cluster is made for you."
        )
    found = {attribute: variables.get(name) for name, attribute in _VARIABLES.items()}
    return Environment(
        **{name: value for name, value in found.items() if value},
        settings=settings_in(variables),
    )


def settings_in(variables: Mapping[str, str]) -> dict[str, str]:
    """What was set to have a cluster elsewhere than usual, beside another one."""
    return {name: variables[name] for name in _SETTINGS if variables.get(name)}


def current() -> Environment:
    """The cluster to test on: that of KUBECONFIG if it is set, else that of `make cluster-up`.

    Raises:
        ClusterError: there is none, or KUBECONFIG is set without the rest.
    """
    if os.environ.get("KUBECONFIG"):
        return given(os.environ)
    started = load()
    if started is None or not Path(started.kubeconfig).exists():
        raise ClusterError(
            "There is no cluster: start one with `make cluster-up`, have `make test-e2e` start and "
            "stop one, or set KUBECONFIG to your own."
        )
    return started
