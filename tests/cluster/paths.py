"""The paths of the cluster's files."""

import os
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
CLUSTER_SH = Path(__file__).parent / "cluster.sh"
CHART = REPOSITORY / "charts" / "dedupestream"

STATE = REPOSITORY / "build" / "cluster"
"""The state of a running cluster, apart from cluster.sh's own directory."""


def cluster_cache() -> Path:
    """Return the cache of cluster.sh; its `bin` has kubectl and helm."""
    return Path(os.environ.get("CLUSTER_CACHE") or Path.home() / ".cache" / "testcluster")


def cluster_dir() -> Path:
    """Return the directory of cluster.sh for a running cluster."""
    temporary = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 # the default of cluster.sh
    return Path(os.environ.get("CLUSTER_DIR") or Path(temporary) / "testcluster")
