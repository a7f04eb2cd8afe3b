"""Where a control group can be made, and what is written to it. The kernel's files are a directory's here."""

import os
from pathlib import Path

import pytest

from benchmarks.scale import limit
from benchmarks.scale.limit import MemoryLimit, NoLimit

V1 = "4:memory:/jobs/7\n3:cpuset:/\n0::/\n"
V2 = "0::/user.slice/session.scope\n"


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit, "_REMOVE_SECONDS", 0.0)  # files keep a directory, as groups don't


def made(root: Path) -> Path:
    (found,) = root.rglob("dedupestream-scale-*")
    return found


def test_version_1_is_limited_below_the_own_group(tmp_path: Path) -> None:
    (tmp_path / "memory/jobs/7").mkdir(parents=True)
    with MemoryLimit(1000, root=tmp_path, own=V1):
        group = made(tmp_path)
        assert group.parent == tmp_path / "memory/jobs/7"
        assert (group / "memory.limit_in_bytes").read_text() == "1000"
        assert (group / "memory.swappiness").read_text() == "0"


def test_version_2_is_limited_below_the_nearest_group_that_hands_memory_on(tmp_path: Path) -> None:
    (tmp_path / "user.slice/session.scope").mkdir(parents=True)
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory")
    (tmp_path / "user.slice/cgroup.subtree_control").write_text("cpu memory pids\n")
    (tmp_path / "user.slice/session.scope/cgroup.subtree_control").write_text("\n")
    with MemoryLimit(1000, root=tmp_path, own=V2):
        group = made(tmp_path)
        assert group.parent == tmp_path / "user.slice"
        assert (group / "memory.max").read_text() == "1000"
        assert (group / "memory.swap.max").read_text() == "0"


def test_version_2_is_found_beside_a_version_1_without_memory(tmp_path: Path) -> None:
    (tmp_path / "cgroup.subtree_control").write_text("memory")
    with MemoryLimit(1000, root=tmp_path, own="3:cpuset:/\n0::/\n"):
        assert made(tmp_path).parent == tmp_path


def test_children_begin_in_the_group_and_this_process_leaves_it(tmp_path: Path) -> None:
    home = tmp_path / "memory/jobs/7"
    home.mkdir(parents=True)
    with MemoryLimit(1000, root=tmp_path, own=V1) as made_limit:
        with made_limit.entered():
            assert (made(tmp_path) / "cgroup.procs").read_text() == str(os.getpid())
            assert not (home / "cgroup.procs").exists()
        assert (home / "cgroup.procs").read_text() == str(os.getpid())


def test_the_peak_is_that_of_the_group(tmp_path: Path) -> None:
    (tmp_path / "memory/jobs/7").mkdir(parents=True)
    with MemoryLimit(1000, root=tmp_path, own=V1) as made_limit:
        assert made_limit.peak_bytes() == 0
        (made(tmp_path) / "memory.max_usage_in_bytes").write_text("812\n")
        assert made_limit.peak_bytes() == 812


def test_a_group_left_by_a_run_that_was_killed_is_removed(tmp_path: Path) -> None:
    left = tmp_path / "memory/jobs/7/dedupestream-scale-1"
    left.mkdir(parents=True)
    with MemoryLimit(1000, root=tmp_path, own=V1):
        assert not left.exists()


def test_without_a_controller_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NoLimit, match="--no-limit"):
        MemoryLimit(1000, root=tmp_path, own=V2)


def test_without_the_right_to_it_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "cgroup.subtree_control").write_text("memory")
    unusable = MemoryLimit(1000, root=tmp_path, own="0::/")
    (tmp_path / f"dedupestream-scale-{os.getpid()}").write_text("not a directory")
    with pytest.raises(NoLimit, match="as root"):
        unusable.__enter__()
