"""Where the cluster's things are."""

import os
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
CLUSTER_SH = Path(__file__).parent / "cluster.sh"
IMAGE_STEP_SH = Path(__file__).parent / "image-step.sh"
CHART = REPOSITORY / "charts" / "dedupestream"

STATE = REPOSITORY / "build" / "cluster"
"""What exists while a cluster is up, beside cluster.sh's own directory."""


def cluster_cache() -> Path:
    """The cache of cluster.sh, whose `bin` has kubectl and helm."""
    return Path(os.environ.get("CLUSTER_CACHE") or Path.home() / ".cache" / "testcluster")


def cluster_dir() -> Path:
    """The directory of cluster.sh for a cluster that is up."""
    temporary = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 # the default of cluster.sh
    return Path(os.environ.get("CLUSTER_DIR") or Path(temporary) / "testcluster")
