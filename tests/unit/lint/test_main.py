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


def test_findings_are_grouped_by_package(tmp_path: Path) -> None:
    files = {**worker(loop=LONG, store=LONG), "kafka/dedupe_kafka/topic.py": LONG}
    checkout(tmp_path, files)
    result = run("structure", "--root", tmp_path, "--by-package")
    assert result.exit_code == 1
    assert result.output.splitlines() == [
        "dedupe_kafka: 1",
        "  kafka/dedupe_kafka/topic.py:1: module has 301 lines, more than 300",
        "",
        "dedupe_worker: 2",
        "  worker/dedupe_worker/loop.py:1: module has 301 lines, more than 300",
        "  worker/dedupe_worker/store.py:1: module has 301 lines, more than 300",
        "",
        "3 findings",
    ]


def test_the_figures_count_what_the_checks_are_about(tmp_path: Path) -> None:
    files = {
        **worker(
            loop='"""What it does, as one of many."""\nfrom dedupe_worker import store\n',
            store='"""Store ones."""\n\ndef put(someone):\n    pass\n',
        ),
        "tests/test_store.py": "x = 1\n" * 3,
        "docs/concepts.md": "# Title\n",
        "docs/plot.svg": "<svg>\n</svg>\n",
    }
    checkout(tmp_path, files)
    result = run("--figures", "--root", tmp_path)
    assert result.exit_code == 0
    rows = {line[:24].strip(): line[24:].split() for line in result.output.splitlines() if line}
    assert rows["package"] == ["entries", "edges", "modules", "lines", "longest", "function"]
    assert rows["dedupe_worker"] == ["2", "1", "3", "6", "4", "2"]
    totals = {line[:44].strip(): line[44:].strip() for line in result.output.splitlines() if line}
    assert totals["lines of product"] == "6"
    assert totals["lines of tests"] == "3"
    assert totals["lines of docs and README, *.md"] == "1"
    assert totals["lines of docs, *.svg"] == "2"
    assert totals["docstrings of product"] == "2"
    assert totals["… that open with a relative clause"] == "1"
    assert totals['"one" and "ones" in product'] == "2"


def test_a_checkout_without_the_worker_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.hatch.build.targets.wheel]\npackages = ["src/other"]\n'
    )
    (tmp_path / "src/other").mkdir(parents=True)
    (tmp_path / "src/other/__init__.py").touch()
    assert run("structure", "--root", tmp_path).exit_code == 0
    assert "other" in run("--figures", "--root", tmp_path).output
