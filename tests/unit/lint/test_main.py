from pathlib import Path

from click.testing import CliRunner, Result

from tests.lint.__main__ import main
from tests.unit.lint.tree import checkout, worker

LONG = "x = 1\n" * 301


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_a_clean_checkout_exits_with_0(tmp_path: Path) -> None:
    # The repository's exemptions are about its own files, so this one has only its structure checked.
    checkout(tmp_path, worker(loop='"""Run."""'))
    result = run("structure", "--root", tmp_path)
    assert (result.exit_code, result.output) == (0, "0 findings\n")


def test_findings_are_listed_and_the_exit_code_is_1(tmp_path: Path) -> None:
    checkout(tmp_path, worker(loop=LONG, store='"""What is stored."""'))
    result = run("--root", tmp_path)
    assert result.exit_code == 1
    assert "loop.py:1: module has 301 lines" in result.output
    assert "store.py:1: docstring opens" in result.output


def test_one_check_can_be_chosen(tmp_path: Path) -> None:
    checkout(tmp_path, worker(loop=LONG, store='"""What is stored."""'))
    assert "docstring" not in run("structure", "--root", tmp_path).output
    assert "module has" not in run("words", "--root", tmp_path).output


def test_a_checkout_without_the_worker_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.hatch.build.targets.wheel]\npackages = ["src/other"]\n'
    )
    (tmp_path / "src/other").mkdir(parents=True)
    (tmp_path / "src/other/__init__.py").touch()
    assert run("structure", "--root", tmp_path).exit_code == 0
