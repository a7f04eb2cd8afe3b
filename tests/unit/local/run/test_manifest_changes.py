"""A manifest that changes while its stream runs."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from dedupe_crds.manifest import load_manifest
from dedupe_crds.spec.input import AddedPartitions
from dedupe_crds.spec.stream import DedupeStream
from dedupe_local.run.fleet import Fleet
from dedupe_local.run.manifest_changes import ManifestChanges
from dedupe_local.state_dir import StateDir
from tests.unit.crds.manifests import MINIMAL, changed


class Changing:
    """A manifest on disk, and the fleet of its stream, which is not started."""

    def __init__(self, directory: Path, servers: str | None = None) -> None:
        self.path = directory / "stream.yaml"
        self.write({})
        stream = load_manifest(self.path)
        self.fleet = Fleet(stream, StateDir(directory / "state"))
        self._changes = ManifestChanges(self.path, stream, servers=servers)

    def write(self, changes: dict[str, Any]) -> None:
        self.path.write_text(yaml.safe_dump(changed(changes) if changes else MINIMAL))

    def apply(self, changes: dict[str, Any]) -> list[str]:
        self.write(changes)
        return self.look()

    @property
    def routed(self) -> DedupeStream | None:
        return self._changes.routed

    def look(self) -> list[str]:
        return self._changes.apply(self.fleet)


@pytest.fixture
def manifest(tmp_path: Path) -> Changing:
    return Changing(tmp_path)


ACCEPTS = {"spec.input.addedPartitions": "Accept"}


def test_accepted_partitions_need_no_restart_and_to_wait_again_needs_one(
    manifest: Changing,
) -> None:
    assert manifest.look() == []
    [line] = manifest.apply(ACCEPTS)
    assert "get workers from now on" in line
    assert manifest.fleet.stream.spec.input.added_partitions is AddedPartitions.ACCEPT
    assert manifest.look() == []
    [line] = manifest.apply({})
    assert line.startswith("Stop and start")


def test_any_other_change_is_named_and_not_applied(manifest: Changing) -> None:
    lines = manifest.apply({"spec.mode": "Observe", **ACCEPTS})
    assert len(lines) == 2
    assert "stop and start" in lines[1]
    assert manifest.fleet.stream.spec.mode == "Enforce"


ELSEWHERE = {"spec.kafka.bootstrapServers": "elsewhere:9092"}


def test_servers_that_an_option_has_replaced_are_no_change(tmp_path: Path) -> None:
    assert Changing(tmp_path, servers="kafka:9092").apply(ELSEWHERE) == []


def test_other_servers_in_the_manifest_need_a_restart(manifest: Changing) -> None:
    [line] = manifest.apply(ELSEWHERE)
    assert "stop and start" in line


@pytest.mark.parametrize("text", ["kind: {", ""])
def test_a_manifest_that_is_wrong_or_half_written_is_named(manifest: Changing, text: str) -> None:
    manifest.path.write_text(text)
    [line] = manifest.look()
    assert "is not used" in line
    manifest.path.unlink()
    assert manifest.look() == []


ROUTERS = {"spec.repartition": {"partitions": 4}}


def test_routers_that_are_added_are_noticed(manifest: Changing) -> None:
    [line] = manifest.apply(ROUTERS)
    assert "start again behind them" in line
    assert manifest.routed is not None
    assert manifest.routed.spec.repartition is not None
    assert manifest.routed.spec.repartition.partitions == 4
    assert manifest.routed.spec.input == manifest.fleet.stream.spec.input


def test_routers_are_not_added_together_with_another_change(manifest: Changing) -> None:
    [line] = manifest.apply({**ROUTERS, "spec.mode": "Observe"})
    assert "stop and start the run" in line
    assert manifest.routed is None


def test_routers_for_fewer_partitions_than_there_are_are_refused(
    manifest: Changing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest.fleet, "views", lambda: [None] * 5)
    [line] = manifest.apply(ROUTERS)
    assert "make it at least 5" in line
    assert manifest.routed is None
