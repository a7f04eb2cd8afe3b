"""The code of an earlier commit, to open with it what the present code writes, and the reverse."""

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Final

from tests.support.patience import HANG_SECONDS

_TREE: Final = Path(__file__).parents[2]
_PACKAGES: Final = ("crds", "filters", "ids", "kafka", "operator", "worker")
_TESTS: Final = ("tests/golden", "tests/__init__.py")

WITHOUT_FURTHER_FIELDS: Final = "7d7fd766bc45a1871c21aa83219a083599597144"


def unpack_earlier(
    commit: str, directory: Path, parts: Iterable[str] = (*_PACKAGES, *_TESTS)
) -> Path | None:
    """Write parts of a commit, by default the worker, to a directory; None if the history is not here."""
    git = shutil.which("git")
    if git is None:
        return None
    archive = subprocess.run(
        [git, "archive", commit, *parts], cwd=_TREE, capture_output=True, check=False
    )
    if archive.returncode:
        return None
    directory.mkdir()
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(directory, filter="data")
    return directory


def with_earlier(tree: Path) -> dict[str, str]:
    """Return the environment of a process that runs that code."""
    path = os.pathsep.join(str(tree / each) for each in ("", *_PACKAGES))
    return {**os.environ, "PYTHONPATH": path}


def run_earlier(tree: Path, program: str, *arguments: object) -> str:
    """Run a program with that code; returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        env=with_earlier(tree),
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    assert not done.returncode, done.stderr
    return done.stdout
