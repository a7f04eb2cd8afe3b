"""The state directory: one run at a time, and a secret token."""

from pathlib import Path

import pytest

from dedupe_crds.manifest import load_manifest
from dedupe_local.errors import StateInUse
from dedupe_local.state_dir import StateDir
from tests.unit.local.run.test_preflight import stream


def test_a_second_run_on_the_same_directory_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    with (
        StateDir(tmp_path),
        pytest.raises(StateInUse, match=r"in use by process \d+.*--state-dir"),
        StateDir(tmp_path),
    ):
        pytest.fail("two runs have one directory")


def test_a_directory_is_free_again_after_its_run(tmp_path: Path) -> None:
    with StateDir(tmp_path):
        pass
    with StateDir(tmp_path) as again:
        assert again.root == tmp_path


def test_the_admin_token_is_this_users_alone_and_stays(tmp_path: Path) -> None:
    with StateDir(tmp_path) as state:
        state.ensure_admin_token()
        token = state.admin_token.read_text()
        state.ensure_admin_token()

        assert state.admin_token.read_text() == token
        assert len(token) >= 32
        assert state.admin_token.stat().st_mode & 0o777 == 0o600


def test_the_manifest_for_the_workers_means_the_same(tmp_path: Path) -> None:
    written = stream(id={"from": "JsonPath", "path": "$.order.id"}, mode="Observe")
    with StateDir(tmp_path) as state:
        state.write_manifest(written)

        assert load_manifest(state.manifest) == written


def test_the_default_place_follows_the_users_state_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    assert StateDir.default_path(stream()) == tmp_path / "dedupestream" / "shop" / "orders"
