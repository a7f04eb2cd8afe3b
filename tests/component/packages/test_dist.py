"""`make dist`: the wheel works in an empty environment, and the archive holds the chart."""

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZipFile

import pytest

from charts.package import chart_files
from images.locked import requirements
from tests.support.patience import HANG_SECONDS

REPOSITORY = Path(__file__).parents[3]
CHART = REPOSITORY / "charts/dedupestream"
BIN = Path(sys.executable).parent
# Each extra, its command, and the packages that must import with this extra alone.
EXTRAS = {
    "kubectl": ("kubectl-dedupe", ["dedupe_crds", "dedupe_kubectl"]),
    "worker": (
        "dedupe-worker",
        [
            "dedupe_crds",
            "dedupe_kafka",
            "dedupe_ids",
            "dedupe_filters",
            "dedupe_httpd",
            "dedupe_router",
            "dedupe_worker",
        ],
    ),
    "operator": ("dedupe-operator", ["dedupe_crds", "dedupe_httpd", "dedupe_operator"]),
}
IMPORT_ALL = """
import importlib, json, pkgutil, sys
found = {}
for name in sys.argv[1:]:
    package = importlib.import_module(name)
    for each in pkgutil.walk_packages(package.__path__, f"{name}."):
        if not each.name.endswith("__main__"):
            found[each.name] = importlib.import_module(each.name).__file__
print(json.dumps({"path": sys.path, "modules": found}))
"""


def run(*command: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    """Return a program's output; its environment has no setting of this process's Python."""
    outside = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "VIRTUAL_ENV", "UV_PROJECT"))
    }
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**outside, **(env or {})},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def make_dist(directory: Path, **env: str) -> Path:
    """Run `make dist` with the virtual environment of this test."""
    run("make", "-o", "setup", "dist", f"BIN={BIN}", f"DIST={directory}", cwd=REPOSITORY, env=env)
    return directory


def the_only(directory: Path, pattern: str) -> Path:
    (found,) = directory.glob(pattern)
    return found


@pytest.fixture(scope="module", name="dist")
def _dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_dist(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module", params=EXTRAS, name="extra")
def _extra(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", name="environment")
def _environment(dist: Path, extra: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install an extra's locked packages, then the wheel, into an environment outside the checkout."""
    directory = tmp_path_factory.mktemp(extra)
    python = directory / "bin/python"
    locked = directory / "requirements.txt"
    run(BIN / "uv", "venv", "--quiet", "--clear", "--python", sys.executable, directory, cwd=dist)
    locked.write_text(requirements(REPOSITORY, extra))
    install = (BIN / "uv", "pip", "install", "--quiet", "--python", python)
    run(*install, "--no-deps", "--require-hashes", "-r", locked, cwd=dist)
    # Without an index this succeeds only if the locked packages are all that the extra requires.
    run(*install, "--no-index", f"{the_only(dist, '*.whl')}[{extra}]", cwd=dist)
    return directory


def test_the_command_of_an_extra_runs_outside_of_the_checkout(
    environment: Path, extra: str, tmp_path: Path
) -> None:
    command, _ = EXTRAS[extra]

    assert "Usage: " in run(environment / "bin" / command, "--help", cwd=tmp_path)


def test_every_module_of_a_part_needs_no_more_than_its_extra(
    environment: Path, extra: str, tmp_path: Path
) -> None:
    _, packages = EXTRAS[extra]
    script = tmp_path / "import_all.py"
    script.write_text(IMPORT_ALL)

    found = json.loads(run(environment / "bin/python", script, *packages, cwd=tmp_path))

    assert len(found["modules"]) > 10
    assert all(Path(file).is_relative_to(environment) for file in found["modules"].values())
    assert not any(Path(path).is_relative_to(REPOSITORY) for path in found["path"])


EXPERIMENT = "native/dedupe_native"
"""It is built by itself, and no wheel of the product has it."""


def test_the_wheel_holds_every_file_of_every_package(dist: Path) -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    on_disk = {
        path.parent.relative_to(REPOSITORY).as_posix()
        for path in REPOSITORY.glob("*/*dedupe*/__init__.py")
    }
    files = {
        path.relative_to((REPOSITORY / package).parent).as_posix()
        for package in packages
        for path in (REPOSITORY / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    with ZipFile(the_only(dist, "*.whl")) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}

    assert {*packages, EXPERIMENT} == on_disk
    assert names == files
    assert {
        "dedupe_pipeline/runtime/jars.json",
        "dedupe_pipeline/jobs/audit/audit.html.j2",
    } <= names


def test_the_archive_unpacks_to_the_chart(dist: Path, tmp_path: Path) -> None:
    archive = the_only(dist, "*.tgz")
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path, filter="data")
    unpacked = tmp_path / "dedupestream"

    (version,) = re.findall(r"^version: (.+)$", (CHART / "Chart.yaml").read_text(), re.MULTILINE)
    assert archive.name == f"dedupestream-{version}.tgz"
    assert [path.name for path in tmp_path.iterdir()] == ["dedupestream"]
    assert contents(unpacked) == contents(CHART)


def contents(chart: Path) -> dict[str, bytes]:
    return {str(path.relative_to(chart)): path.read_bytes() for path in chart_files(chart)}


def test_the_same_files_give_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    again = make_dist(tmp_path / "again")
    dated = make_dist(tmp_path / "dated", SOURCE_DATE_EPOCH="1700000000")

    for pattern in ("*.whl", "*.tgz"):
        assert the_only(again, pattern).read_bytes() == the_only(dist, pattern).read_bytes()
        assert the_only(dated, pattern).read_bytes() != the_only(dist, pattern).read_bytes()
