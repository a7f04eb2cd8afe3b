"""The part of docs/scale.md with the requests of many partitions."""

import pytest

from benchmarks.scale.figures import SCALE_PAGE
from benchmarks.scale.requests_page import Case, Load, with_requests
from tests.unit.benchmarks.runs import MACHINE

REST = {"Fetch": 20.0, "Metadata": 0.3, "ListOffsets": 2.0, "bytes": 10_000.0, "cpu": 0.1}
BUSY = {"Fetch": 25.0, "EndTxn": 100.0, "commits": 100.0, "bytes": 30_000.0, "cpu": 0.3}
LOAD = Load(
    partitions=1000,
    workers=10,
    seconds=30,
    cases=[
        Case(rate=0, bound="", counted={**REST, "commits": 0.0}),
        Case(rate=10, bound="25ms", counted=BUSY),
    ],
)


def test_the_figures_are_of_all_partitions() -> None:
    page = with_requests(SCALE_PAGE.read_text(), LOAD, MACHINE)
    for line in (
        "| messages a second in each of 1,000 partitions | `maxCommitInterval` | commits "
        "| transactions' requests | Fetch | ListOffsets | Metadata | all requests | received, MB "
        "| broker's CPU for a commit, ms |",
        "| 0 | default | 0 | 0 | 2,000 | 200 | 30 | 2,230 | 1.0 |  |",
        "| 10 | 25ms | 10,000 | 10,000 | 2,500 | 0 | 0 | 12,500 | 3.0 | 3.0 |",
    ):
        assert f"\n{line}\n" in page
    assert with_requests(page, LOAD, MACHINE) == page, "the next run replaces them"
    assert page.count("requests`: 10 workers of 1,000 partitions") == 1
    rest = page.partition("| 10 | 25ms |")[2].partition("\n")[2]
    assert "\n## Snapshots\n" in rest
    assert SCALE_PAGE.read_text().endswith(rest)


def test_a_page_without_a_place_is_refused() -> None:
    with pytest.raises(ValueError, match="no place"):
        with_requests("# Scale\n", LOAD, MACHINE)
