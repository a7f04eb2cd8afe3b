"""The commands that users are given can be run today: from a checkout, with no release and no package index."""

import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest

from dedupe_kubectl.cli import main as kubectl_dedupe
from dedupe_local.cli import main as dedupe
from dedupe_pipeline.cli import main as dedupe_pipeline
from dedupe_pipeline.package import EXECUTOR_PACKAGES

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
FOLDERS = [
    *("benchmarks", "charts", "crds", "docs", "examples", "filters", "ids", "images", "kafka"),
    *("kubectl", "local", "operator", "pipeline", "tests/cluster", "worker"),
]
KINDS = {".j2", ".md", ".py", ".sh", ".tpl", ".txt", ".yaml"}
TEXTS = {
    path.relative_to(ROOT).as_posix(): path.read_text().replace(
        "{{ .Chart.AppVersion }}", PROJECT["version"]
    )
    for path in [
        *(ROOT / name for name in ("README.md", "CHANGELOG.md", "Dockerfile")),
        *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*")),
    ]
    if path.suffix in KINDS or path.name == "Dockerfile"
}
COMMANDS: dict[str, click.Command] = {
    "kubectl dedupe": kubectl_dedupe,
    "dedupe": dedupe,
    "dedupe-pipeline": dedupe_pipeline,
}


def found(pattern: str) -> list[tuple[str, str]]:
    """Return the texts' paths with what the group of a pattern matches in them."""
    return [
        (path, each)
        for path, text in TEXTS.items()
        for each in re.findall(pattern, text, re.MULTILINE)
    ]


def test_pip_installs_a_wheel_of_make_dist_or_the_checkout() -> None:
    installed = [
        (path, each)
        for path, line in found(r"pip install ([^`\n]*)")
        for each in shlex.split(line, comments=True)
        if not each.startswith("-")
    ]
    wheel = f"build/dist/dedupestream-{PROJECT['version']}-py3-none-any.whl"
    assert {path for path, _ in installed} >= {
        "charts/dedupestream/templates/NOTES.txt",
        "docs/readers.md",
        "examples/flights/data.py",
    }
    for path, each in installed:
        if re.split(r"[\[=]", each)[0] in {*EXECUTOR_PACKAGES, "pyspark"}:
            continue
        source, extra = re.fullmatch(r"([^[]+)(?:\[(.+)\])?", each).groups()  # type: ignore[union-attr]
        assert source in {".", wheel}, (path, each)
        assert extra is None or extra in PROJECT["optional-dependencies"], (path, each)


def test_no_text_names_a_package_of_an_index() -> None:
    assert found(r"(\bdedupestream\[.*)") == []


def test_helm_installs_the_chart_of_the_checkout() -> None:
    installed = found(r"helm (?:install|upgrade)(?: --install)? ([a-z]+ [^ \n]+)")
    assert {path for path, _ in installed} >= {"README.md", "docs/aws.md"}
    assert {each for _, each in installed} == {"dedupestream charts/dedupestream"}
    assert found(r"(helm (?:repo|pull) .*|oci://.*)") == []


def test_every_target_of_make_that_is_named_exists() -> None:
    named = found(r"(?:^|`|&& )make (?:-s )?([a-z][a-z0-9-]*)")
    assert len(named) > 20
    assert [(path, target) for path, target in named if target not in TARGETS] == []


def test_helm_takes_the_defaults_of_the_new_chart_in_an_upgrade() -> None:
    kept = found(r"helm upgrade [^`]*?(--reset-then-reuse-values|--reuse-values)")
    assert {path for path, _ in kept} >= {"docs/aws.md", "docs/upgrades.md"}
    assert {each for _, each in kept} == {"--reset-then-reuse-values"}


@pytest.mark.parametrize("program", COMMANDS)
def test_every_subcommand_that_is_named_exists(program: str) -> None:
    named = found(rf"(?:^ *|`|bin/|&& ){program} ([a-z][a-z-]+)\b")
    command = COMMANDS[program]
    assert isinstance(command, click.Group)
    assert len(named) > 4
    assert [(path, each) for path, each in named if each not in command.commands] == []
