"""Packing a chart without helm."""

import tarfile
from pathlib import Path

import pytest

from charts.package import package


@pytest.fixture(name="chart")
def _chart(tmp_path: Path) -> Path:
    chart = tmp_path / "folder"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("name: orders\nversion: 1.2.3\n")
    (chart / "templates/a.yaml").write_text("a: 1\n")
    (chart / "templates/a.yaml~").write_text("a: 0\n")
    (chart / ".helmignore").write_text("# Editors' files\n\n*~\n")
    return chart


def test_the_archive_has_the_charts_name_and_version_and_not_its_folders(chart: Path) -> None:
    archive = package(chart, chart.parent / "out")

    assert archive == chart.parent / "out/orders-1.2.3.tgz"
    with tarfile.open(archive) as opened:
        assert opened.getnames() == [
            "orders/.helmignore",
            "orders/Chart.yaml",
            "orders/templates/a.yaml",
        ]
        assert {member.mode for member in opened} == {0o644}


def test_two_archives_of_the_same_files_are_equal(chart: Path) -> None:
    first = package(chart, chart.parent / "first").read_bytes()
    (chart / "Chart.yaml").touch()

    assert package(chart, chart.parent / "second").read_bytes() == first


def test_the_date_of_the_files_can_be_given(chart: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")

    with tarfile.open(package(chart, chart.parent)) as opened:
        assert {member.mtime for member in opened} == {1_700_000_000}


@pytest.mark.parametrize("pattern", ["templates/*.tmp", "!kept.yaml"])
def test_a_pattern_that_is_more_than_a_files_name_is_refused(chart: Path, pattern: str) -> None:
    (chart / ".helmignore").write_text(f"{pattern}\n")

    with pytest.raises(ValueError, match=r"\.helmignore: .* is no pattern of a file's name"):
        package(chart, chart.parent)
