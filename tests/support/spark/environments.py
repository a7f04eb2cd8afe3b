"""Virtual environments with another pyspark than the default, as users make them.

All packages but pyspark have the versions of requirements.lock. An environment is made once, and kept outside the tree.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dedupe_pipeline.runtime.jars import cache_dir
from images.locked import Locked, packages, parse
from tests.support.patience import HANG_SECONDS

REPOSITORY: Final = Path(__file__).parents[3]
_UV: Final = Path(sys.executable).parent / "uv"
_PINS: Final = Path(__file__).with_name("versions.txt")
_CONNECT: Final = Path(__file__).with_name("connect.txt")


@dataclass(frozen=True, kw_only=True)
class SparkEnvironment:
    """An environment, and this project's packages as its wheel installs them."""

    pyspark: str
    python: Path
    installed: Path

    def variables(self) -> dict[str, str]:
        """Return the variables of a process in this environment."""
        own = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SPARK", "PYSPARK", "PYTHON", "VIRTUAL_ENV"))
        }
        path = f"{self.python.parent}:{own['PATH']}"
        return {**own, "PYTHONPATH": str(self.installed), "PATH": path}

    def run(
        self, arguments: Sequence[str | Path], **settings: str
    ) -> subprocess.CompletedProcess[str]:
        """Run Python with arguments; no setting of this process's Python or Spark applies."""
        return subprocess.run(
            [str(part) for part in (self.python, *arguments)],
            env={**self.variables(), **settings},
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
        )


def pinned() -> dict[str, Locked]:
    """Return the pin of each pyspark by its version: "4.2.1"."""
    blocks = re.split(r"^(?=pyspark==)", _PINS.read_text(), flags=re.MULTILINE)[1:]
    return {block.split()[0].removeprefix("pyspark=="): parse(block)["pyspark"] for block in blocks}


def environment(pyspark: str, wheel: Path, directory: Path) -> SparkEnvironment:
    """Return the environment of a pinned pyspark, with a wheel installed into a directory."""
    locked = packages(REPOSITORY, "pipeline") | {"pyspark": pinned()[pyspark]}
    return _with_wheel(pyspark, locked, wheel, directory)


def connect_environment(wheel: Path, directory: Path) -> SparkEnvironment:
    """Return the environment of the default pyspark with what Spark Connect needs."""
    locked = packages(REPOSITORY, "pipeline") | parse(_CONNECT.read_text())
    return _with_wheel("connect", locked, wheel, directory)


def build_wheel(directory: Path) -> Path:
    """Build this project's wheel."""
    build = ("build", "--wheel", "--no-build-isolation", "--no-create-gitignore")
    _uv(*build, "--python", sys.executable, "--out-dir", directory, REPOSITORY)
    (wheel,) = directory.glob("*.whl")
    return wheel


def _with_wheel(
    name: str, locked: Mapping[str, Locked], wheel: Path, directory: Path
) -> SparkEnvironment:
    python = _environment(name, "".join(locked[each].text for each in sorted(locked)))
    _uv("pip", "install", "--no-deps", "--python", python, "--target", directory, wheel)
    return SparkEnvironment(pyspark=name, python=python, installed=directory)


def _environment(name: str, requirements: str) -> Path:
    """Return the Python of the environment with exactly these packages."""
    digest = hashlib.sha256(f"{sys.version}\n{requirements}".encode()).hexdigest()[:12]
    target = cache_dir() / "spark-environments" / f"{name}-{digest}"
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
        try:
            _fill(fresh, requirements)
            fresh.rename(target)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return target / "bin/python"


def _fill(directory: Path, requirements: str) -> None:
    wanted = directory / "requirements.txt"
    _uv("venv", "--clear", "--python", sys.executable, directory)
    wanted.write_text(requirements)
    _uv(
        *("pip", "install", "--no-deps", "--require-hashes", "--python", directory, "-r", wanted),
        *("--build-constraints", REPOSITORY / "requirements.lock", "--require-build-hashes"),
    )


def _uv(*arguments: str | Path) -> None:
    # In this project's directory uv would apply the constraint of its default pyspark.
    subprocess.run(
        [_UV, "--quiet", "--no-config", *arguments], check=True, cwd=tempfile.gettempdir()
    )
