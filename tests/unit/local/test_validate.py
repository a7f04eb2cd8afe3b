"""`dedupe validate` of files with several documents."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dedupe_local.cli import main
from tests.unit.crds.manifests import ORDERS

SNAPSHOT = """\
apiVersion: dedupestream.io/v1alpha1
kind: DedupeSnapshot
metadata: {name: before-upgrade, namespace: shop, labels: {team: shop}}
spec: {streamRef: {name: orders}, partitions: [0, 2]}
status: {phase: Completed}
"""
OTHER = """\
apiVersion: v1
kind: Secret
metadata: {name: orders-kafka}
"""
UNKNOWN = SNAPSHOT.replace("DedupeSnapshot", "DedupeSnapshots")


def validate(tmp_path: Path, *documents: str) -> Result:
    path = tmp_path / "stream.yaml"
    path.write_text("---\n".join(documents))
    return CliRunner().invoke(main, ["validate", str(path)])


def test_each_object_of_a_file_is_named_as_checked_or_not(tmp_path: Path) -> None:
    done = validate(tmp_path, ORDERS, OTHER, SNAPSHOT, ORDERS.replace("orders,", "returns,"))
    assert done.exit_code == 0, done.output
    path = tmp_path / "stream.yaml"
    first, second, third, fourth = done.output.splitlines()
    assert first.startswith(f"{path}: valid. shop/orders: orders → orders-clean")
    assert second == f"{path}: valid. DedupeSnapshot shop/before-upgrade: partitions 0, 2 of orders"
    assert third.startswith(f"{path}: valid. shop/returns: ")
    assert fourth == f"{path}: not checked: Secret orders-kafka"


def test_several_topics_are_said_to_share_their_ids(tmp_path: Path) -> None:
    several = ORDERS.replace("topic: orders}", "topics: [orders, returns]}")
    several = several.replace("spec:", "spec:\n  repartition: {partitions: 4}", 1)
    done = validate(tmp_path, several)
    assert done.exit_code == 0, done.output
    _, note = done.output.splitlines()
    assert note.startswith(
        f"{tmp_path / 'stream.yaml'}: note. shop/orders: Ids must be unique over all"
    )
    assert "such as order 1 and return 1, only the first passes" in note


def test_a_snapshot_of_all_partitions_is_valid_alone(tmp_path: Path) -> None:
    done = validate(tmp_path, SNAPSHOT.replace(", partitions: [0, 2]", ""))
    assert done.exit_code == 0, done.output
    assert "DedupeSnapshot shop/before-upgrade: all partitions of orders" in done.output


@pytest.mark.parametrize(
    ("documents", "problems"),
    [
        (
            (SNAPSHOT.replace("[0, 2]", "[-1]"),),
            ["spec.partitions.0: -1 is out of bounds; allowed: at least 0"],
        ),
        ((SNAPSHOT.replace("streamRef", "stream"),), ["spec.stream: unknown field", "streamRef"]),
        ((SNAPSHOT.replace("before-upgrade", "Before_Upgrade"),), ["metadata.name: "]),
        (
            (ORDERS.replace("Enforce", "Perhaps"), OTHER, SNAPSHOT.replace("[0, 2]", "all")),
            [
                "DedupeStream orders: spec.mode: 'Perhaps' is not allowed",
                "DedupeSnapshot before-upgrade: spec.partitions: 'all' is not a list",
            ],
        ),
        ((ORDERS, UNKNOWN), ["DedupeSnapshots before-upgrade: kind: 'DedupeSnapshots' must be"]),
        ((ORDERS, "text"), ["a document that is str, not a mapping"]),
        ((ORDERS, "{spec: {}}"), ["no kind without a name: apiVersion: is missing"]),
        ((OTHER, OTHER), ["needs a DedupeStream or a DedupeSnapshot; found: Secret"]),
        ((OTHER,), ["kind: 'Secret' must be DedupeStream"]),
        (
            (ORDERS, SNAPSHOT, ORDERS.replace("Enforce", "Observe")),
            ["DedupeStream shop/orders: stands 2 times in the file"],
        ),
        ((SNAPSHOT, SNAPSHOT), ["DedupeSnapshot shop/before-upgrade: stands 2 times in the file"]),
        (
            (ORDERS.replace("from: Key", "from: JsonPath, path: $..id"),),
            ["spec.id.path: '$..id' must be a JSONPath of names and indices"],
        ),
        ((), ["needs a DedupeStream or a DedupeSnapshot; found: nothing"]),
    ],
)
def test_all_problems_of_a_file_are_named_with_their_objects(
    tmp_path: Path, documents: tuple[str, ...], problems: list[str]
) -> None:
    done = validate(tmp_path, *documents)
    assert done.exit_code == 2
    assert "valid." not in done.output
    for problem in problems:
        assert problem in done.output
