"""A manifest that changes while its stream runs."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from dedupe_crds.manifest import load_manifest
from dedupe_crds.spec.input import AddedPartitions
from dedupe_local.run.fleet import Fleet
from dedupe_local.run.manifest_changes import ManifestChanges
from dedupe_local.state_dir import StateDir
from tests.unit.crds.manifests import MINIMAL, changed


class Changing:
    """A manifest on disk, and the fleet of its stream, which is not started."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "stream.yaml"
        self.write({})
        stream = load_manifest(self.path)
        self.fleet = Fleet(stream, StateDir(directory / "state"))
        self._changes = ManifestChanges(self.path, stream)

    def write(self, changes: dict[str, Any]) -> None:
        self.path.write_text(yaml.safe_dump(changed(changes) if changes else MINIMAL))

    def apply(self, changes: dict[str, Any]) -> list[str]:
        self.write(changes)
        return self.look()

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


def test_servers_that_an_option_has_replaced_are_no_change(manifest: Changing) -> None:
    assert manifest.apply({"spec.kafka.bootstrapServers": "elsewhere:9092"}) == []


@pytest.mark.parametrize("text", ["kind: {", ""])
def test_a_manifest_that_is_wrong_or_half_written_is_named(manifest: Changing, text: str) -> None:
    manifest.path.write_text(text)
    [line] = manifest.look()
    assert "is not used" in line
    manifest.path.unlink()
    assert manifest.look() == []
