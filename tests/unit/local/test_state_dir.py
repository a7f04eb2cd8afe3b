"""The state directory: one run at a time, and a secret token."""

import fcntl
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dedupe_crds.manifest import load_manifest
from dedupe_local.errors import Refused, StateInUse
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


@pytest.mark.parametrize("locked", ["partition-3/lock", "broker/data/.lock"])
def test_a_run_waits_for_the_processes_of_a_killed_one(tmp_path: Path, locked: str) -> None:
    """They live on for a moment after the lock of their run is free."""
    path = tmp_path / locked
    path.parent.mkdir(parents=True)
    held = path.open("w")
    release = hold(held.fileno(), locked)
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        release()

    with StateDir(tmp_path, say=say):
        pass

    assert len(said) == 1
    assert f"{path} is in use" in said[0]


def hold(descriptor: int, locked: str) -> Callable[[], None]:
    """Lock a file as a worker does, or from another process as Java does; return what releases it."""
    if locked.startswith("partition"):
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return lambda: fcntl.flock(descriptor, fcntl.LOCK_UN)
    script = "import fcntl, sys; fcntl.lockf(int(sys.argv[1]), fcntl.LOCK_EX); print(flush=True); input()"
    other = subprocess.Popen(
        [sys.executable, "-c", script, str(descriptor)],
        pass_fds=[descriptor],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert other.stdout
    other.stdout.readline()
    return lambda: (other.communicate(b"\n"), None)[1]


def test_a_run_does_not_wait_for_ever_and_names_what_is_used(tmp_path: Path) -> None:
    path = tmp_path / "partition-12" / "lock"
    path.parent.mkdir()
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with (
            pytest.raises(StateInUse, match=rf"{path} is in use after 0 s.*stop"),
            StateDir(tmp_path, patience_seconds=0),
        ):
            pytest.fail("two runs have one directory")
    with StateDir(tmp_path):
        pass


def test_an_empty_admin_token_is_replaced(tmp_path: Path) -> None:
    """A full disk may have left it: workers take an empty token for none, and refuse all commands."""
    with StateDir(tmp_path) as state:
        state.admin_token.touch(0o600)
        state.ensure_admin_token()

        assert len(state.admin_token.read_text()) >= 32
        assert state.admin_token.stat().st_mode & 0o777 == 0o600


def test_a_manifest_that_cannot_be_written_leaves_the_one_before(tmp_path: Path) -> None:
    with StateDir(tmp_path) as state:
        state.write_manifest(stream())
        before = state.manifest.read_bytes()
        with largest_file(1), pytest.raises(OSError, match="File too large"):
            state.write_manifest(stream(mode="Observe"))
        assert state.manifest.read_bytes() == before

        state.write_manifest(stream(mode="Observe"))
        assert load_manifest(state.manifest) == stream(mode="Observe")


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Let this process write no larger file, as a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_only_this_user_can_look_into_a_new_directory(tmp_path: Path, umask: int) -> None:
    """It has topics and stores."""
    before = os.umask(umask)
    try:
        with StateDir(tmp_path / "new" / "state") as state:
            assert state.root.stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)


@pytest.mark.parametrize("home", ["", None])
def test_without_a_home_a_directory_must_be_named(
    monkeypatch: pytest.MonkeyPatch, home: str | None
) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    if home is not None:
        monkeypatch.setenv("HOME", home)
    monkeypatch.setattr("pwd.getpwuid", no_such_user)

    with pytest.raises(Refused, match="--state-dir"):
        StateDir.default_path(stream())


def no_such_user(_: int) -> None:
    raise KeyError


@pytest.mark.parametrize(("mode", "readable"), [(0o700, False), (0o750, True), (0o755, True)])
def test_an_existing_directory_that_others_can_read_keeps_its_mode_and_is_told(
    tmp_path: Path, mode: int, readable: bool
) -> None:
    root, said = tmp_path / "its own", list[str]()
    root.mkdir()
    root.chmod(mode)

    with StateDir(root, say=said.append):
        pass

    assert root.stat().st_mode & 0o777 == mode
    assert [f"mode {mode:o}" in line and f"chmod 700 '{root}'" in line for line in said] == (
        [True] if readable else []
    )


def test_a_path_with_bytes_that_are_not_utf_8_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="not UTF-8; choose another with --state-dir"):
        StateDir(tmp_path / "a\udcff").__enter__()

    assert list(tmp_path.iterdir()) == []
