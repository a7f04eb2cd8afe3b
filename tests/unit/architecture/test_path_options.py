"""Options that take a path take no URL of something else, in every command."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from dedupe_crds.local_path import LocalPath
from dedupe_kubectl.cli import main as kubectl
from dedupe_local.cli import main as local
from dedupe_operator.cli import main as operator
from dedupe_pipeline.cli import main as pipeline
from dedupe_router.cli import main as router
from dedupe_worker.cli import main as worker

MAINS = (kubectl, local, operator, pipeline, router, worker)


def commands(command: click.Command, *names: str) -> Iterator[tuple[click.Command, list[str]]]:
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from commands(each, *names, name)
    else:
        yield command, list(names)


PATHS = [
    (main, names, parameter)
    for main in MAINS
    for command, names in commands(main)
    for parameter in command.params
    if isinstance(parameter.type, click.Path)
]


def described(given: object) -> str:
    if isinstance(given, click.Parameter):
        return given.name or ""
    return (
        "-".join(given) if isinstance(given, list) else getattr(given, "callback", given).__module__
    )


@pytest.mark.parametrize(("main", "names", "parameter"), PATHS, ids=described)
def test_a_url_is_no_path(
    main: click.Command,
    names: list[str],
    parameter: click.Parameter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    option = [parameter.opts[0]] if isinstance(parameter, click.Option) else []
    before = ["given.yaml"] * (parameter.name == "job_file")  # after another path

    result = CliRunner().invoke(main, [*names, *before, *option, "s3a://lake/orders"])

    assert result.exit_code == 2, result.output
    assert "s3a://lake/orders is not on a file system of this machine" in result.output
    assert isinstance(parameter.type, LocalPath)
    assert not list(tmp_path.iterdir())
