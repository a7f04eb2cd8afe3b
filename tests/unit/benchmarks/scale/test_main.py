"""`python -m benchmarks.scale` keeps what it has, and says what is in its way."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from benchmarks.reporting.render import SCALE, load
from benchmarks.scale import __main__ as command
from benchmarks.scale.limit import NoLimit
from benchmarks.scale.result import Scale
from tests.unit.benchmarks.runs import MACHINE
from tests.unit.benchmarks.scale.results import rung, scale


def call(*arguments: object) -> Result:
    return CliRunner().invoke(command.main, [*map(str, arguments)])


@pytest.fixture
def without_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "scratch_testbed", lambda _: nullcontext())
    monkeypatch.setattr("benchmarks.reporting.command.describe_machine", lambda: MACHINE)


@pytest.mark.usefixtures("without_a_broker")
def test_rungs_are_kept_when_it_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = scale(rung(1_000_000), ageing=None, rebuild=None)

    def climb(*_: object, keep: Callable[[Scale], None], **_others: object) -> None:
        keep(begun)
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "climb", climb)
    done = call("--no-limit", "--keys", 2_000_000, "--output", tmp_path)
    assert done.exit_code == 1
    assert "1 M ids: 170,000 msgs/CPU s" in done.output
    assert load(SCALE, tmp_path)["scale"].result == begun


@pytest.mark.usefixtures("without_a_broker")
def test_the_rungs_end_with_what_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(command, "climb", lambda *_, **told: asked.append(told["rungs"]))
    assert call("--no-limit", "--keys", 7_000_000, "--output", tmp_path).exit_code == 0
    assert asked == [[1_000_000, 2_000_000, 5_000_000, 7_000_000]]


@pytest.mark.usefixtures("without_a_broker")
def test_where_no_limit_can_be_made_it_ends_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: int) -> None:
        raise NoLimit("no group: --no-limit")

    monkeypatch.setattr(command, "MemoryLimit", refused)
    done = call("--output", tmp_path)
    assert done.exit_code == 1
    assert "no group: --no-limit" in done.output


def test_without_results_there_is_nothing_to_write(tmp_path: Path) -> None:
    done = call("--write-only", "--output", tmp_path)
    assert done.exit_code == 1
    assert "no results" in done.output
