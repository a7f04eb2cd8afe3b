"""The test cluster does not start where its pods would be evicted for want of disk."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from tests.cluster import __main__ as command
from tests.cluster.errors import ClusterError

GIB = 1 << 30


class Started(Exception):
    """The cluster would have started."""


class Provider:
    """Starts nothing."""

    def start(self, _nodes: int) -> None:
        raise Started


@pytest.mark.parametrize(("free", "outcome"), [(5 * GIB, Started), (5 * GIB - 1, ClusterError)])
def test_a_disk_that_is_nearly_full_is_named_before_anything_starts(
    free: int, outcome: type[Exception], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CLUSTER_DIR", str(tmp_path / "absent" / "cluster"))
    monkeypatch.setattr(command, "choose", Provider)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))

    ended = CliRunner().invoke(command.main, ["up"]).exception

    assert isinstance(ended, outcome), ended
    if outcome is ClusterError:
        assert f"5119 MiB are free for {tmp_path}, and" in str(ended)
        assert "need 5120: remove" in str(ended)
