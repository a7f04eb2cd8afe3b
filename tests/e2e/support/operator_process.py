"""An operator in a process that was forked from one that has imported all of it."""

import os
from collections.abc import Sequence
from pathlib import Path

from kubernetes.config import kube_config

from dedupe_operator.cli import main
from tests.e2e.support import stopping_operator
from tests.support.processes.forked import become_own


def run(
    arguments: Sequence[str], kubeconfig: str, log: Path, stop_after_writes: int | None
) -> None:
    """Be `dedupe-operator` with these arguments, until a signal or for so many writes."""
    become_own(log)
    os.environ["KUBECONFIG"] = kubeconfig
    kube_config.KUBE_CONFIG_DEFAULT_LOCATION = kubeconfig  # read when it was imported
    if stop_after_writes is not None:
        stopping_operator.stop_after(stop_after_writes)
    main(arguments, prog_name="dedupe-operator")
