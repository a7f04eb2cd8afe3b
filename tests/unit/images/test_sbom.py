"""The bill of materials of an image has what the lock installs there, and nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from images.sbom import sbom

ROOT = Path(__file__).parents[3]
PROJECT = """
[project]
name = "shop"
version = "2.0"
dependencies = ["base>=1"]
[project.optional-dependencies]
worker = ["engine>=2"]
other = ["oil"]
"""
LOCK = """\
base==1.1 \\
    --hash=sha256:{a}
    # via shop (pyproject.toml)
engine==2.0 ; python_full_version < '3.4' \\
    --hash=sha256:{b}
    # via shop (pyproject.toml)
engine==2.1 ; python_full_version >= '3.4' \\
    --hash=sha256:{c} \\
    --hash=sha256:{d}
    # via shop (pyproject.toml)
oil==4 \\
    --hash=sha256:{a}
    # via
    #   shop (pyproject.toml)
    #   engine
paint==5 ; sys_platform == 'none' \\
    --hash=sha256:{a}
    # via engine
""".format(**{letter: letter * 64 for letter in "abcd"})


@pytest.fixture(name="bill")
def _bill(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "requirements.lock").write_text(LOCK)
    found: dict[str, Any] = json.loads(sbom(tmp_path, "worker"))
    return found


def test_it_lists_what_is_installed_on_this_system(bill: dict[str, Any]) -> None:
    purls = [component["purl"] for component in bill["components"]]
    assert purls == ["pkg:pypi/base@1.1", "pkg:pypi/engine@2.1", "pkg:pypi/oil@4"]
    assert bill["metadata"]["component"]["name"] == "shop-worker"
    assert bill["metadata"]["component"]["version"] == "2.0"


def test_each_package_has_the_hashes_of_its_files(bill: dict[str, Any]) -> None:
    (files,) = bill["components"][1]["externalReferences"]
    assert {found["content"] for found in files["hashes"]} == {"c" * 64, "d" * 64}


def test_it_shows_which_package_requires_which(bill: dict[str, Any]) -> None:
    graph = {entry["ref"]: entry.get("dependsOn", []) for entry in bill["dependencies"]}
    assert graph["image"] == ["pkg:pypi/base@1.1", "pkg:pypi/engine@2.1"]
    assert graph["pkg:pypi/engine@2.1"] == ["pkg:pypi/oil@4"]
    assert graph["pkg:pypi/oil@4"] == []


@pytest.mark.parametrize("part", ["worker", "operator", "pipeline"])
def test_the_bill_of_each_image_is_valid_and_reproducible(part: str) -> None:
    found = sbom(ROOT, part)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(found) is None
    assert sbom(ROOT, part) == found
