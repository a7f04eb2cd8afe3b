"""A state directory is one partition's of one stream, and of one process at a time."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from dedupe_crds.status.exit_code import ExitCode
from dedupe_kafka.errors import InvalidConfig
from dedupe_worker.errors import DiskFull, IdentityRefused, StateLocked
from dedupe_worker.store.state_dir import Identity, StateDirectory, write_atomically
from tests.unit.worker.stores import open_store

IDENTITY = Identity(stream="shop/orders", partition=3, input_topic_id="in", output_topic_id="out")


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    directory = StateDirectory(tmp_path / "state")
    directory.root.mkdir()
    return directory


def test_a_new_directory_is_nobodys(state: StateDirectory) -> None:
    assert state.recorded("shop/orders", 3) is None


def test_what_is_recorded_is_known_again(state: StateDirectory) -> None:
    state.record(IDENTITY)
    assert state.recorded("shop/orders", 3) == IDENTITY


@pytest.mark.parametrize(("stream", "partition"), [("shop/orders", 2), ("other/orders", 3)])
def test_another_ones_directory_is_refused_and_says_whose_it_is(
    state: StateDirectory, stream: str, partition: int
) -> None:
    state.record(IDENTITY)
    with pytest.raises(IdentityRefused, match=r"belongs to shop/orders partition 3") as refusal:
        state.recorded(stream, partition)
    assert f"not to {stream} partition {partition}" in str(refusal.value)
    assert refusal.value.exit_code is ExitCode.IDENTITY_REFUSED
    assert refusal.value.exit_code.is_final


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[: len(text) // 2],
        lambda _: "",
        lambda _: "[]",
        lambda text: json.dumps(json.loads(text) | {"format": 2}),
        lambda text: json.dumps(json.loads(text) | {"unknown": 1}),
    ],
    ids=["cut off", "empty", "no object", "another format", "a field more"],
)
def test_an_identity_that_can_not_be_read_is_refused_and_left_as_it_is(
    state: StateDirectory, change: Callable[[str], str]
) -> None:
    state.record(IDENTITY)
    path = state.root / "identity.json"
    path.write_text(change(path.read_text()))
    before = path.read_bytes()
    with pytest.raises(IdentityRefused, match=r"identity\.json"):
        state.recorded("shop/orders", 3)
    assert path.read_bytes() == before


def test_ids_of_another_kind_are_refused_unless_the_output_topic_is_another(
    state: StateDirectory,
) -> None:
    by_key = IDENTITY.model_copy(update={"id_source": '{"from":"Key"}'})
    by_content = IDENTITY.model_copy(update={"id_source": '{"from":"Content"}'})
    state.record(by_key)
    recorded = state.recorded("shop/orders", 3)
    with pytest.raises(InvalidConfig, match="dedupe bootstrap"):
        state.check_id_source(recorded, by_content)
    for allowed in (by_key, by_content.model_copy(update={"output_topic_id": "other"})):
        state.check_id_source(recorded, allowed)
    for unknown in (None, IDENTITY):  # a new directory, and one of before ids were recorded
        state.check_id_source(unknown, by_content)


def test_a_directory_is_of_one_process_at_a_time(state: StateDirectory) -> None:
    with state.lock(), pytest.raises(StateLocked, match="in use by another worker"):
        state.lock()
    state.lock().close()


def test_a_file_system_without_locks_is_refused(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", no_locks)
    with pytest.raises(InvalidConfig, match=r"can't be locked \(No locks available\)"):
        state.lock()


@pytest.mark.parametrize(
    ("kind", "options", "named"),
    [
        ("nfs", "rw,nolock,local_lock=all", "nfs: local_lock=all, nolock"),
        ("nfs4", "rw,local_lock=flock", "nfs4: local_lock=flock"),
        ("nfs4", "rw,local_lock=none", None),
        ("nfs4", "rw,local_lock=posix", None),
        ("ext4", "rw,nolock", None),
    ],
)
def test_locks_that_reach_no_other_machine_are_named(
    tmp_path: Path, kind: str, options: str, named: str | None
) -> None:
    mount = tmp_path / "with space"
    escaped = str(mount).replace(" ", r"\040")
    mounts = tmp_path / "mounts"
    mounts.write_text(
        f"rootfs / nfs rw,nolock 0 0\nserver:/x {escaped} {kind} {options} 0 0\n"
        f"other {escaped}/state-2 nfs rw,nolock 0 0\n"
    )
    found = StateDirectory(mount / "state").foreign_locks(mounts)
    assert found == (f"{mount} ({named})" if named else None)
    assert StateDirectory(tmp_path).foreign_locks(tmp_path / "absent") is None


def test_a_directory_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidConfig, match="state directory"):
        StateDirectory(tmp_path / "file" / "state").lock()


def test_a_write_that_fails_leaves_the_old_file(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    state.record(IDENTITY)

    def full(_: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFull, match="free or add space"):
        write_atomically(state.root / "identity.json", "{}")
    assert state.recorded("shop/orders", 3) == IDENTITY


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_only_this_user_can_look_into_a_new_directory(tmp_path: Path, umask: int) -> None:
    """It has the ids, also where no `dedupe run` has made it."""
    root, before = tmp_path / "new" / "state", os.umask(umask)
    try:
        with StateDirectory(root).lock():
            assert root.stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)


# A volume is of a group on Kubernetes (fsGroup).
@pytest.mark.parametrize(("mode", "told"), [(0o700, False), (0o770, False), (0o755, True)])
def test_an_existing_directory_that_all_users_can_read_keeps_its_mode_and_is_told(
    tmp_path: Path, mode: int, told: bool
) -> None:
    root = tmp_path / "its own"
    root.mkdir()
    root.chmod(mode)

    with capture_logs() as logs, StateDirectory(root).lock():
        pass

    assert root.stat().st_mode & 0o777 == mode
    assert [line["remedy"] for line in logs] == ([f"chmod o= '{root}'"] if told else [])


def test_a_path_with_bytes_that_are_not_utf_8_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="not UTF-8; choose another with --state-dir"):
        StateDirectory(tmp_path / "a\udcff").lock()

    assert list(tmp_path.iterdir()) == []


def test_a_store_can_be_in_a_directory_of_any_characters(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "köln 東京: a,b;c'd\"e\n%41#*?[]{}\\")
    with state.lock():
        state.record(IDENTITY)
        for _ in range(2):
            open_store(state.database).close()
        assert state.recorded("shop/orders", 3) == IDENTITY
