"""The packages of the lock that an image gets."""

import tomllib
from pathlib import Path

import pytest

from images import locked

ROOT = Path(__file__).parents[3]
PROJECT = """
[project]
dependencies = ["Base_Lib>=1"]
[project.optional-dependencies]
worker = ["engine[fast]>=2"]
other = ["stranger"]
[dependency-groups]
build = ["gear>=3"]
"""
LOCK = """\
base-lib==1.1 \\
    --hash=sha256:aa
    # via dedupestream (pyproject.toml)
engine==2.0 ; python_full_version < '3.12' \\
    --hash=sha256:bb
    # via dedupestream (pyproject.toml)
engine==2.1 ; python_full_version >= '3.12' \\
    --hash=sha256:cc
    # via dedupestream (pyproject.toml)
gear==3 \\
    --hash=sha256:dd
    # via
    #   engine
    #   stranger
oil==4 \\
    --hash=sha256:ee
    # via gear
stranger==5 \\
    --hash=sha256:ff
    # via dedupestream (pyproject.toml)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "requirements.lock").write_text(LOCK)
    return tmp_path


def test_an_extra_gets_its_packages_and_all_that_they_want(project: Path) -> None:
    lines = locked.requirements(project, "worker").splitlines()
    names = [line.split("==")[0] for line in lines if "==" in line]
    assert names == ["base-lib", "engine", "engine", "gear", "oil"]


def test_every_package_keeps_its_hashes_and_its_marker(project: Path) -> None:
    text = locked.requirements(project, "worker")
    assert "engine==2.0 ; python_full_version < '3.12' \\\n    --hash=sha256:bb\n" in text
    assert text.count("--hash=") == text.count("==")


def test_a_group_gets_its_packages_without_those_of_the_project(project: Path) -> None:
    assert list(locked.packages(project, "build")) == ["gear", "oil"]


def test_what_builds_the_wheel_is_locked() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(pyproject["build-system"]["requires"]) <= set(
        pyproject["dependency-groups"]["build"]
    )
    assert locked.requirements(ROOT, "build").count("--hash=") > 10


def test_an_unknown_extra_is_named(project: Path) -> None:
    with pytest.raises(LookupError, match="no extra operator; it has: worker, other"):
        locked.requirements(project, "operator")


def test_a_package_that_is_not_locked_is_named(project: Path) -> None:
    (project / "requirements.lock").write_text(LOCK.replace("engine==", "motor=="))
    with pytest.raises(LookupError, match="lacks engine: run make lock"):
        locked.requirements(project, "worker")
