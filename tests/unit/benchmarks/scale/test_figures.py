"""The constants that follow from results, and the page that shows what follows from those."""

from pathlib import Path

import pytest

from benchmarks.scale.figures import (
    SCALE_PAGE,
    commands_of,
    figures_of,
    with_outputs,
    write_figures,
)
from dedupe_local.sizing.constants import MEASURED, Measured, measured
from tests.unit.benchmarks.runs import MACHINE
from tests.unit.benchmarks.scale.results import MIB, scale


def test_the_constants_are_those_of_the_largest_rung() -> None:
    found = figures_of(scale(), MACHINE)
    assert (found.ids, found.messages_per_cpu_second) == (100_000_000, 170_000)
    assert (found.bytes_per_id, found.start_seconds) == (28.0, 2.5)
    assert found.memory_base_bytes == pytest.approx(200 * MIB, abs=2)
    assert found.rebuild_per_second == 250_000


def test_a_run_without_its_rebuild_gives_no_constants() -> None:
    with pytest.raises(ValueError, match="rebuild"):
        figures_of(scale(rebuild=None), MACHINE)


def test_the_page_says_what_its_commands_say() -> None:
    page = SCALE_PAGE.read_text()
    assert page.count("```console") >= 2
    assert len(commands_of(page)) >= 9
    assert with_outputs(page) == page


def test_every_block_with_a_command_is_run() -> None:
    page = SCALE_PAGE.read_text()
    stale = page.replace("the average over", "some average over")
    assert stale != page
    assert with_outputs(stale) == page


def test_every_figure_of_the_table_is_run() -> None:
    page = SCALE_PAGE.read_text()
    stale = page.replace("| partitions | 104 | 16 |", "| partitions | 103 | 15 |")
    assert stale != page
    assert with_outputs(stale) == page


def test_a_command_that_fails_is_not_hidden() -> None:
    with pytest.raises(RuntimeError, match="nonsense"):
        with_outputs("```console\n$ dedupe size --nonsense\n```\n")


def test_new_constants_change_the_page(tmp_path: Path) -> None:
    page, constants = tmp_path / "scale.md", tmp_path / "measured.json"
    page.write_text(SCALE_PAGE.read_text())
    write_figures(Measured.model_validate_json(MEASURED.read_text()), constants, page)
    assert page.read_text() == SCALE_PAGE.read_text()
    assert Measured.model_validate_json(constants.read_text()) == measured()
