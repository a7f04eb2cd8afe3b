"""The packages of each image exist as wheels for each architecture that a release is built for."""

import subprocess
import sys
from pathlib import Path

import pytest

from images.locked import requirements
from images.release import PLATFORMS
from tests.cluster.paths import REPOSITORY

UV = Path(sys.executable).parent / "uv"
# Of Debian bookworm: its glibc is 2.36.
WHEELS = {"linux/amd64": "x86_64-manylinux_2_36", "linux/arm64": "aarch64-manylinux_2_36"}


@pytest.mark.parametrize("part", ["worker", "operator", "pipeline"])
@pytest.mark.parametrize("platform", PLATFORMS)
def test_no_package_is_compiled(part: str, platform: str, tmp_path: Path) -> None:
    locked = tmp_path / "requirements.txt"
    locked.write_text(requirements(REPOSITORY, part))

    done = subprocess.run(
        [
            *(UV, "pip", "install", "--dry-run", "--target", tmp_path / "none", "--no-deps"),
            *("--require-hashes", "--only-binary", ":all:", "--no-binary", "pyspark"),
            *("--python-platform", WHEELS[platform], "--python-version", "3.11", "-r", locked),
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
