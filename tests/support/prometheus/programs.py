"""The programs of Prometheus: installed ones, else those of Debian's package."""

import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from tests.cluster.paths import cluster_cache
from tests.support.patience import HANG_SECONDS

_PACKAGE = "prometheus"


@cache
def prometheus_program(name: str) -> str:
    """Return the path of `prometheus` or `promtool`. Fails if it can't be had.

    The package is unpacked into the cache instead of installed, because its installation starts a server.
    """
    unpacked = cluster_cache() / _PACKAGE
    if program := shutil.which(name) or shutil.which(name, path=unpacked / "usr/bin"):
        return program
    unpacked.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=unpacked.parent) as directory:
        fresh = Path(directory) / "files"
        try:
            _run("apt-get", "update", "--quiet", cwd=directory)
            _run("apt-get", "download", "--quiet", _PACKAGE, cwd=directory)
            (package,) = Path(directory).glob("*.deb")
            _run("dpkg-deb", "--extract", package.name, fresh.name, cwd=directory)
        except (OSError, AssertionError) as error:
            raise AssertionError(
                f"{name} is missing; install Prometheus 2.42 or newer: {error}"
            ) from error
        if not unpacked.exists():  # another process may have been faster
            fresh.rename(unpacked)
    found = shutil.which(name, path=unpacked / "usr/bin")
    assert found is not None, f"Debian's package {_PACKAGE} has no {name}"
    return found


def _run(*command: str, cwd: str) -> None:
    done = subprocess.run(
        command, cwd=cwd, check=False, capture_output=True, text=True, timeout=HANG_SECONDS
    )
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
