"""The Dockerfile and its context agree with pyproject.toml."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_build_context_has_every_package_of_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    lines = (ROOT / ".dockerignore").read_text().splitlines()

    folders = {package.partition("/")[0] for package in packages}
    assert folders <= {line.removeprefix("!") for line in lines if line.startswith("!")}


def test_the_dockerfile_has_the_version_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    dockerfile = (ROOT / "Dockerfile").read_text()

    assert re.findall(r"^ARG VERSION=(.+)$", dockerfile, re.MULTILINE) == [project["version"]]


def test_no_step_sees_the_repository_by_a_mount() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()

    assert "type=secret" in dockerfile
    assert "type=bind" not in dockerfile
