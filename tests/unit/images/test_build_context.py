"""The Docker build context has all that the wheel is built from."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_build_context_has_every_package_of_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    lines = (ROOT / ".dockerignore").read_text().splitlines()

    folders = {package.partition("/")[0] for package in packages}
    assert folders <= {line.removeprefix("!") for line in lines if line.startswith("!")}
