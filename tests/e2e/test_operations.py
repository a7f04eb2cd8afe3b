"""What docs/operations.md tells people to do when a cluster is lost, done as it stands there."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dedupe_crds.status.stream import RestoreSource
from tests.cluster.environment import Environment
from tests.cluster.paths import REPOSITORY
from tests.e2e.support.copied import bucket_server, copied_stream
from tests.e2e.support.plugin import Plugin
from tests.e2e.support.restores import restore_of
from tests.e2e.support.s3_server import S3Server
from tests.e2e.support.scene import Scene, scene
from tests.e2e.support.snapshots import SNAPSHOTS
from tests.faults.seed import SEED
from tests.support.patience import HANG_SECONDS
from tests.support.traffic.traffic import retries

MESSAGES = 400
_SECTION = "## A region or a cluster is lost"


@pytest.fixture
def bucket(release: Environment) -> Iterator[S3Server]:
    with bucket_server(release) as server:
        yield server


@pytest.fixture
def place(release: Environment, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Scene]:
    with scene(release, "lost-cluster", tmp_path, request) as made:
        yield made


def blocks(section: str) -> list[str]:
    """The shell blocks of a section of docs/operations.md."""
    text = (REPOSITORY / "docs/operations.md").read_text()
    part = text.partition(f"{section}\n")[2].partition("\n## ")[0]
    return re.findall(r"^```sh\n(.*?)^```$", part, flags=re.MULTILINE | re.DOTALL)


def run(place: Scene, commands: str) -> str:
    """Run a block in the scene's namespace and directory; returns what it printed. Fails if it fails."""
    assert "-n shop" in commands or "shop.json" in commands
    environment = {
        **os.environ,
        "KUBECONFIG": place.cluster.kubeconfig,
        "PATH": f"{place.cluster.path()}:{REPOSITORY / '.venv' / 'bin'}",
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands.replace("-n shop", f"-n {place.namespace}")],  # noqa: S607 # any bash
        check=False,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        cwd=place.directory,
        env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.matrix  # the bucket of test_restore.py
def test_the_snapshots_in_a_bucket_serve_a_new_cluster_of_the_same_topics(
    release: Environment, place: Scene, bucket: S3Server
) -> None:
    save, bring_back = blocks(_SECTION)
    stream = copied_stream(place, "orders", bucket=bucket)
    stream.apply()
    stream.wait_until_ready()
    messages = list(retries(SEED, MESSAGES))
    stream.send(messages)
    stream.wait_until_passed()
    name = f"{stream.name}-last"
    Plugin(release, place.namespace)("snapshot", stream.name, "--name", name, "--wait")
    run(place, save)

    # The cluster is gone with all its objects and volumes; topics and bucket are not.
    stream.delete()
    of_it = "statefulsets,pods,persistentvolumeclaims"
    stream.wait_until(lambda: not stream.children(of_it), "all of it is gone")
    kept = bucket.objects()
    place.kubectl.patch(SNAPSHOTS, name, {"metadata": {"finalizers": None}})
    place.kubectl("delete", SNAPSHOTS, name)
    assert bucket.objects() == kept

    shown = run(place, bring_back)

    assert re.search(rf"^{name} +{stream.name} +Completed +S3 +1/1 ", shown, re.MULTILINE), shown
    stream.wait_until_ready()
    restore = restore_of(stream, 0)
    assert (restore.source, restore.name, restore.refused) == (RestoreSource.CHECKPOINT, name, [])
    stream.send(messages)
    stream.judged()
    assert stream.duplicates() == len(messages)
