"""The Dockerfile and its context agree with pyproject.toml."""

import re
import tomllib
from pathlib import Path

from tests.cluster.images import context_digest

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


def test_an_image_is_built_again_after_a_change_of_its_context_only(tmp_path: Path) -> None:
    (tmp_path / ".dockerignore").write_text("*\n!worker\n**/__pycache__\n")
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    for file in ("worker/loop.py", "worker/__pycache__/loop.pyc", "tests/test_loop.py"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("1\n")
    before = context_digest(tmp_path)

    for file in ("worker/__pycache__/loop.pyc", "tests/test_loop.py"):
        (tmp_path / file).write_text("2\n")
    assert context_digest(tmp_path) == before

    for file in ("worker/loop.py", "Dockerfile", ".dockerignore"):
        last = context_digest(tmp_path)
        with (tmp_path / file).open("a") as changed:
            changed.write("# 2\n")
        assert context_digest(tmp_path) != last
