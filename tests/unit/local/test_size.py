"""`dedupe size`, as it is called."""

import json
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from dedupe_crds.manifest import parse_manifest
from dedupe_local.cli import main
from dedupe_local.measured import measured
from dedupe_local.size_table import PRICES
from tests.unit.crds.manifests import MINIMAL


def size(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["size", *arguments])


def table(*arguments: str) -> dict[str, str]:
    """The rows of the table: what, and the rest of the line."""
    done = size(*arguments)
    assert done.exit_code == 0, done.output
    lines = done.output.partition("\n\n")[0].splitlines()
    return {line.split("  ")[0]: line.split("  ", 1)[1].strip() for line in lines}


def as_json(*arguments: str) -> dict[str, Any]:
    done = size(*arguments, "--output", "json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.output)
    return found


def test_each_figure_stands_beside_its_formula() -> None:
    rows = table("--messages-per-second", "1000", "--window", "1d", "--duplicates", "0")
    assert rows["ids in the window"].startswith("86.4 million")
    assert rows["ids in the window"].endswith("1,000/s * (1 - 0) * 24 h")
    assert "a partition: window.maxBytes" in rows
    assert not any(row.startswith(("cost", "snapshot")) for row in rows)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--messages-per-day", "86400000"),
        ("--ids", "2419200000", "--duplicates", "0"),
        ("--ids", "2.4192e9", "--duplicates", "0", "--window", "28d"),
    ],
)
def test_traffic_can_be_told_in_several_ways(arguments: tuple[str, ...]) -> None:
    assert as_json(*arguments)["traffic"]["messages_per_second"] == pytest.approx(1000)


def test_what_is_stored_tells_the_traffic() -> None:
    found = as_json("--stored", "1.5T")["size"]
    assert found["store_bytes"] * found["partitions"] == pytest.approx(1.5e12, rel=1e-6)


@pytest.mark.parametrize(
    "arguments",
    [(), ("--ids", "5", "--messages-per-day", "5"), ("--stored", "0")],
    ids=["nothing", "twice", "empty"],
)
def test_traffic_must_be_told_once(arguments: tuple[str, ...]) -> None:
    done = size(*arguments)
    assert done.exit_code == 2
    assert "--messages-per-second, --messages-per-day, --ids, --stored" in done.output


@pytest.mark.parametrize("window", ["28", "0d", "4 weeks", "-1w", "4wd", "999999999999w"])
def test_a_window_that_is_none_is_refused_with_an_example(window: str) -> None:
    done = size("--messages-per-second", "5", "--window", window)
    assert done.exit_code == 2
    assert "4w" in done.output


@pytest.mark.parametrize("price", ["core", "core=", "core=cheap", "gold=5", "core=-1", "core=nan"])
def test_a_price_that_is_none_is_refused_with_the_names(price: str) -> None:
    done = size("--messages-per-second", "5", "--price", price)
    assert done.exit_code == 2
    assert all(name in done.output for name in PRICES)


def test_prices_are_added_up() -> None:
    few = ("--messages-per-second", "500000", "--window", "1d")
    rows = table(*few, "--price", "core=100", "--price", "memory=10")
    cost = {
        what: float(row.split()[0].replace(",", "")) for what, row in rows.items() if "cost" in what
    }
    assert cost.keys() == {"cost a month: core", "cost a month: memory", "cost a month"}
    parts = cost["cost a month: core"] + cost["cost a month: memory"]
    assert cost["cost a month"] == pytest.approx(parts, abs=1)
    assert cost["cost a month: core"] == pytest.approx(as_json(*few)["size"]["cores"] * 100, abs=1)


def test_snapshots_have_their_rows() -> None:
    rows = table("--messages-per-second", "1000", "--snapshots", "--price", "bucket=1")
    assert {"snapshot, all partitions", "uploaded a day, at most"} <= rows.keys()


def test_what_goes_beyond_the_measured_is_said() -> None:
    many = f"{measured().ids * 10}"
    alone = ("--partitions", "1", "--rebuild-within", "52w")
    assert "larger than any measured" in size("--ids", many, *alone).output
    assert "larger than any measured" not in size("--ids", f"{measured().ids // 10}", *alone).output


def test_too_few_partitions_are_said() -> None:
    assert "1 partitions are too few" in size("--ids", "60e9", "--partitions", "1").output


@pytest.mark.parametrize(
    "arguments",
    [
        ("--messages-per-second", "1"),
        ("--messages-per-second", "1e6", "--window", "12h"),
        ("--ids", "60e9", "--snapshots"),
        ("--stored", "1.5T", "--window", "90d"),
    ],
)
def test_the_fragment_is_part_of_a_good_manifest(arguments: tuple[str, ...]) -> None:
    done = size(*arguments, "--output", "yaml-fragment")
    assert done.exit_code == 0, done.output
    spec = yaml.safe_load(done.output)["spec"]
    if "--snapshots" in arguments:
        spec["snapshots"] = {"provider": "CSI"}
    document = MINIMAL | {"spec": MINIMAL["spec"] | spec}
    stream = parse_manifest(document, "the fragment")
    assert stream.spec.store.window.max_bytes == as_json(*arguments)["size"]["max_bytes"]
