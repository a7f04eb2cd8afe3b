"""The `dedupe size` command as a user calls it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from dedupe_crds.manifest import parse_manifest
from dedupe_local.cli import main
from dedupe_local.sizing.constants import measured
from dedupe_local.sizing.inverse_bloom import Routes
from dedupe_local.sizing.prices import PRICES
from dedupe_worker.store.inverse_bloom import capacity as room
from dedupe_worker.store.inverse_bloom.capacity import check_capacity
from dedupe_worker.store.inverse_bloom.sizing import slots_wanted
from tests.unit.crds.manifests import CONFLICTS, DUPLICATES, MINIMAL, changed


def size(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["size", *arguments])


def table(*arguments: str) -> dict[str, str]:
    """Return the table's rows: the quantity, and the rest of the line."""
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
    assert "such as 4w" in done.output or "write a shorter one" in done.output


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


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "0", "-1", "1e30", "many"])
@pytest.mark.parametrize("option", ["--messages-per-second", "--messages-per-day", "--ids"])
def test_a_rate_that_is_none_is_refused(option: str, number: str) -> None:
    done = size(option, number)
    assert done.exit_code == 2
    assert f"Invalid value for '{option}'" in done.output


@pytest.mark.parametrize(
    "option",
    [
        *(("--headroom", number) for number in ("nan", "inf", "0", "0.5", "1001")),
        *(("--duplicates", number) for number in ("nan", "inf", "-0.1", "1")),
        *(("--value-bytes", number) for number in ("nan", "-1", "1e3")),
        *(("--rebuild-within", time) for time in ("0s", "600w", "-1h")),
        ("--window", "522w"),
        ("--inverse-bloom", "--retain", "nan"),
    ],
    ids=" ".join,
)
def test_an_option_that_makes_no_sense_is_refused(option: tuple[str, ...]) -> None:
    done = size("--messages-per-second", "5", *option)
    assert done.exit_code == 2
    assert f"Invalid value for '{option[-2]}'" in done.output


def test_larger_values_need_more_cores_and_a_longer_rebuild() -> None:
    small, large = (
        as_json("--messages-per-second", "1000", "--window", "1d", "--value-bytes", text)["size"]
        for text in ("512", "102400")
    )
    assert large["cores"] > 40 * small["cores"]
    assert large["partitions_for_rebuild"] > small["partitions_for_rebuild"]
    assert large["store_bytes"] * large["partitions"] == pytest.approx(
        small["store_bytes"] * small["partitions"], rel=1e-3
    )


@pytest.mark.parametrize(
    ("arguments", "warned"),
    [
        (
            ("--messages-per-second", "5", "--value-bytes", "102400"),
            "larger than any measured (4,096",
        ),
        (("--messages-per-second", "1e6", "--partitions", "1"), "1 partitions are too few"),
        (("--ids", "1e15"), "more than a stream may have (10,000)"),
        (("--ids", "1e15", "--partitions", "4"), "is more than a manifest allows (1Pi)"),
    ],
)
def test_each_form_warns_of_what_a_worker_cannot_do(
    arguments: tuple[str, ...], warned: str
) -> None:
    assert warned in " ".join(size(*arguments).output.split())
    assert any(warned in text for text in as_json(*arguments)["warnings"])
    fragment = size(*arguments, "--output", "yaml-fragment").output
    assert warned in " ".join(fragment.replace("# warning: ", "").split())
    assert yaml.safe_load(fragment)["spec"]


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


# -- a table of fixed size -------------------------------------------------------------------------


def test_a_target_gives_slots_and_bytes_with_their_formulas() -> None:
    rows = table("--inverse-bloom", "--messages", "3600000", "--retain", "0.9")
    assert rows["slots N"].startswith("34,168,399 ")
    assert rows["table"].startswith("782.1 MiB")
    assert rows["retained after 3.6 million messages"].startswith("90.00%")
    assert rows["messages until 90% are left"].startswith("3.6 million")


@pytest.mark.parametrize(
    ("slots", "messages", "left"), [("1560000", "3600000", "9.95%"), ("10000", "46050", "1.00%")]
)
def test_slots_tell_what_they_retain(slots: str, messages: str, left: str) -> None:
    rows = table("--inverse-bloom", "--slots", slots, "--messages", messages)
    [retained] = [row for what, row in rows.items() if what.startswith("retained after")]
    assert retained.startswith(left)


def test_the_formula_of_a_table_is_explained() -> None:
    done = size("--inverse-bloom", "--memory", "1Gi")
    assert "P(lost after x) = 1 - (1 - 1/N)^x" in " ".join(done.output.split())
    assert "44,739,242" in done.output


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ((), "by one of --slots, --memory, or --messages with --retain"),
        (("--slots", "5000", "--memory", "1Gi"), "by one of"),
        (("--messages", "5000"), "by one of"),
        (("--slots", "5000", "--retain", "0.5"), "--retain needs --messages"),
        (("--slots", "1000"), "from 1,024 to 4,294,967,296"),
        (("--messages", "1000000000000", "--retain", "0.9"), "use more partitions"),
    ],
)
def test_a_table_that_is_none_is_refused(arguments: tuple[str, ...], hint: str) -> None:
    done = size("--inverse-bloom", *arguments)
    assert done.exit_code == 2
    assert hint in " ".join(done.output.split())


@pytest.mark.parametrize("option", [("--slots", "5000"), ("--routes", "conflicts")])
def test_the_size_of_a_table_is_no_size_of_a_stream(option: tuple[str, str]) -> None:
    done = size("--messages-per-second", "5", *option)
    assert done.exit_code == 2
    assert "are for --inverse-bloom" in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("routes", "slot", "memory"),
    [("none", 24, 44_739_242), ("duplicates", 30, 35_791_394), ("conflicts", 34, 31_580_641)],
)
def test_routes_make_a_slot_wider(routes: str, slot: int, memory: int) -> None:
    wide = ("--inverse-bloom", "--routes", routes)
    found = as_json(*wide, "--slots", "50000000")["size"]
    assert found["slot_bytes"] == slot
    assert found["table_bytes"] == 50_000_000 * slot
    assert found["memory_bytes"] > found["table_bytes"] + (200 << 20)
    assert found["volume_bytes"] >= found["table_bytes"] * 1.25
    assert as_json(*wide, "--memory", "1Gi")["size"]["slots"] == memory
    assert f"N * {slot} B: an id of 16 B" in size(*wide, "--slots", "50000000").output


def test_both_tables_of_a_change_are_told_of() -> None:
    notes = " ".join(size("--inverse-bloom", "--slots", "5000").output.split())
    assert "memory and volume must hold both" in notes


@pytest.mark.parametrize("taken", [0.05, 0.08], ids=["5 %", "8 %"])
@pytest.mark.parametrize("routes", list(Routes))
@pytest.mark.parametrize(
    "slots", ["1024", "524288", "900000", "2000000", "4200000", "34168399", "4294967296"]
)
def test_a_worker_takes_what_is_left_of_the_advised_volume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slots: str, routes: Routes, taken: float
) -> None:
    found = as_json("--inverse-bloom", "--slots", slots, "--routes", routes.value)["size"]
    usage = shutil.disk_usage(tmp_path)._replace(total=int(found["volume_bytes"] * (1 - taken)))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    monkeypatch.setattr(room, "memory_limit", lambda: found["memory_bytes"])
    check_capacity(tmp_path, slots=int(slots), value_bytes=routes.value_bytes)


@pytest.mark.parametrize(
    ("routes", "changes"),
    [("none", {}), ("duplicates", DUPLICATES), ("conflicts", CONFLICTS | DUPLICATES)],
)
@pytest.mark.parametrize(
    "arguments",
    [
        ("--messages", "3600000", "--retain", "0.9"),
        ("--messages", "10", "--retain", "0.01", "--snapshots"),
        ("--memory", "96Gi"),
        ("--memory", "1.5G", "--messages", "5", "--snapshots"),
        ("--slots", "1024"),
        ("--slots", "4294967296", "--snapshots"),
    ],
)
def test_the_fragment_of_a_table_is_part_of_a_good_manifest(
    arguments: tuple[str, ...], routes: str, changes: dict[str, Any]
) -> None:
    arguments = ("--inverse-bloom", *arguments, "--routes", routes)
    done = size(*arguments, "--output", "yaml-fragment")
    assert done.exit_code == 0, done.output
    spec = yaml.safe_load(done.output)["spec"]
    if "--snapshots" in arguments:
        spec["snapshots"] = {"provider": "CSI"}
    document = changed(changes)
    stream = parse_manifest(document | {"spec": document["spec"] | spec}, "the fragment")
    wanted = stream.spec.store.inverse_bloom
    assert wanted is not None
    found = as_json(*arguments)["size"]
    assert slots_wanted(wanted, found["slot_bytes"] - 16) == found["slots"]
