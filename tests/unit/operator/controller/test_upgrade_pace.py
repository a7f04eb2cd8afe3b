"""Whole looks at several streams after the operator got a new worker image."""

from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import pytest

from dedupe_crds.annotations import RESTART
from dedupe_crds.spec.pod import PodShape
from dedupe_operator.controller.reconciler import Reconciler
from dedupe_operator.controller.upgrade_pace import TURN_SECONDS
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.kubernetes.names import RELEASE as RELEASE_HASH
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.resources.pod_template import WorkerRelease
from dedupe_operator.snapshots.manager import SnapshotManager
from tests.unit.operator.inline import kafka_parts
from tests.unit.operator.objects import MIRROR, NAMESPACE, RELEASE, mirrored, raw_stream
from tests.unit.operator.scene import Scene

NEW: Final = replace(RELEASE, image="registry.example/worker:2")
NAMES: Final = ("orders", "returns", "visits")


class Upgrade:
    """Three streams of two partitions, and the operator that looks after them."""

    def __init__(self, scene: Scene, changes: dict[str, Any] | None = None) -> None:
        self.cluster, self.clock, self.scene = scene.cluster, scene.clock, scene
        for name in NAMES:
            self.cluster.add(raw_stream(_named(name) | (changes or {})))
        self.start(RELEASE)
        for _ in range(6):
            self.look()

    def start(self, release: WorkerRelease = NEW) -> None:
        """A new process of the operator."""
        self.reconciler = Reconciler(
            *(self.cluster, release, self.scene.workers, *kafka_parts(self.clock)),
            clock=self.clock,
        )

    def start_with(self, name: str) -> None:
        """A new process, which gives this stream its turn."""
        self.start()
        self.look(name)
        self.look(name)

    def look(self, *names: str, seconds: float = 100.0) -> None:
        """One pass over each of the streams; then the cluster does its part."""
        self.clock.now += seconds
        for name in names or NAMES:
            self.reconciler.reconcile(Key(NAMESPACE, name))
        self.cluster.settle()

    def changed(self, *, wholly: bool = False) -> list[str]:
        """The streams with a worker, or all workers, of the new image."""
        which = all if wholly else any
        return [
            name
            for name in NAMES
            if which(self.image(f"{name}-{partition}") == NEW.image for partition in range(2))
        ]

    def has_label(self, name: str) -> bool:
        template = self.cluster.one("StatefulSet", name)["spec"]["template"]
        return bool(template["metadata"]["labels"].get("team") == "shop")

    def image(self, name: str) -> str:
        spec = self.cluster.one("StatefulSet", name)["spec"]["template"]["spec"]
        return str(spec["containers"][0]["image"])


def _named(name: str) -> Object:
    return {
        "metadata.name": name,
        "metadata.uid": f"uid-of-{name}",
        "spec.output.topic": f"{name}-clean",
    }


@pytest.fixture
def upgrade(scene: Scene) -> Upgrade:
    return Upgrade(scene)


def test_an_upgrade_changes_one_stream_after_another(upgrade: Upgrade) -> None:
    upgrade.start()
    seen = []
    for _ in range(30):
        upgrade.look()
        seen.append((len(upgrade.changed()), len(upgrade.changed(wholly=True))))
    assert all(begun - done <= 1 for begun, done in seen)
    assert all(after[0] - before[0] <= 1 for before, after in pairwise(seen))
    assert seen[-1] == (3, 3)
    assert "UpgradeWaits" in upgrade.cluster.told


def test_what_a_pass_that_is_made_again_has_noticed_is_reported(
    upgrade: Upgrade, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pass comes to a decision that memory does not suffice for."""
    cluster, act = upgrade.cluster, SnapshotManager.act

    def act_live(*given: Any) -> Any:  # noqa: ANN401 # whatever it is called with
        cluster.require_live()
        return act(*given)

    monkeypatch.setattr(SnapshotManager, "act", act_live)
    cluster.bad_images.add(NEW.image)
    upgrade.start_with("orders")
    upgrade.look(seconds=TURN_SECONDS / 2)
    assert cluster.told.count("UpgradeWaits") == 2
    upgrade.look(seconds=TURN_SECONDS)
    assert cluster.told.count("UpgradeStuck") == 1


def test_a_stream_with_annotations_of_its_account_waits_too(scene: Scene) -> None:
    account = {"spec.worker.serviceAccount.annotations": {"example.com/role": "reader"}}
    upgrade = Upgrade(scene, account)
    upgrade.start()
    begun = []
    for _ in range(4):
        upgrade.look()
        begun.append(len(upgrade.changed()))
    assert begun[:2] == [0, 1]


def test_as_many_streams_as_the_option_says_change_together(upgrade: Upgrade) -> None:
    upgrade.start(replace(NEW, streams_at_once=2))
    upgrade.look()
    assert upgrade.changed() == []
    upgrade.look()
    assert upgrade.changed() == ["orders", "returns"]


@pytest.mark.parametrize(
    "change",
    [
        {"spec.store.window.maxAge": "2d", "metadata.generation": 2},
        {"metadata.annotations": {RESTART: "now"}},
    ],
    ids=["spec", "restart"],
)
def test_a_stream_that_its_user_changes_does_not_wait(
    upgrade: Upgrade, change: dict[str, object]
) -> None:
    upgrade.start_with("orders")
    status = upgrade.cluster.one("DedupeStream", "visits")["status"]
    raw = raw_stream(_named("visits") | change)
    upgrade.cluster.add({**raw, "status": status})
    upgrade.look("returns", "visits", seconds=1.0)
    assert upgrade.changed() == ["orders", "visits"]
    for _ in range(4):
        upgrade.look("visits", seconds=1.0)
    assert upgrade.changed(wholly=True) == ["visits"]


def test_a_new_process_does_not_begin_a_second_stream(upgrade: Upgrade) -> None:
    upgrade.start_with("visits")
    assert upgrade.changed() == ["visits"]
    upgrade.cluster.bad_images.add(NEW.image)
    upgrade.start()
    upgrade.look()
    upgrade.look()
    assert upgrade.changed() == ["visits"]


def test_a_stream_that_does_not_become_ready_gives_its_turn_back(upgrade: Upgrade) -> None:
    upgrade.cluster.bad_images.add(NEW.image)
    upgrade.start()
    for _ in range(4):
        upgrade.look()
    assert upgrade.changed() == ["orders"]
    upgrade.look(seconds=TURN_SECONDS)
    assert upgrade.changed() == ["orders", "returns"]
    stuck = [
        one["message"]
        for (kind, _), one in upgrade.cluster.objects.items()
        if kind == "Event" and one["reason"] == "UpgradeStuck"
    ]
    assert len(stuck) == 1
    assert "shop/orders" in stuck[0]


def test_a_deleted_stream_gives_its_turn_back(upgrade: Upgrade) -> None:
    upgrade.cluster.bad_images.add(NEW.image)
    upgrade.start_with("orders")
    upgrade.cluster.delete_as_user("DedupeStream", "orders")
    upgrade.look("orders", "returns", seconds=1.0)
    spec = upgrade.cluster.one("StatefulSet", "returns-0")["spec"]["template"]["spec"]
    assert spec["containers"][0]["image"] == NEW.image


def test_a_waiting_stream_with_a_lost_worker_is_repaired_at_once(upgrade: Upgrade) -> None:
    upgrade.start_with("orders")
    upgrade.cluster.remove("StatefulSet", "visits-1")
    upgrade.look("visits", seconds=1.0)
    assert "visits-1" in upgrade.cluster.names("StatefulSet")


def test_a_waiting_stream_gets_its_new_secret_at_once(upgrade: Upgrade) -> None:
    upgrade.start_with("orders")
    upgrade.cluster.remove("Secret", "visits-admin")
    upgrade.look("visits", seconds=1.0)
    assert upgrade.changed() == ["orders", "visits"]


def test_a_waiting_stream_with_a_lost_volume_is_repaired_at_once(upgrade: Upgrade) -> None:
    upgrade.start_with("orders")
    upgrade.cluster.remove("PersistentVolumeClaim", "visits-0-1")
    upgrade.look("visits", seconds=1.0)
    upgrade.look("visits", seconds=1.0)
    spec = upgrade.cluster.one("StatefulSet", "visits-0")["spec"]["template"]["spec"]
    assert spec["volumes"][0]["persistentVolumeClaim"]["claimName"] == "visits-0-2"


def test_a_stream_with_its_own_image_takes_no_turn(upgrade: Upgrade) -> None:
    status = upgrade.cluster.one("DedupeStream", "orders")["status"]
    pinned = {"spec.worker": {"image": RELEASE.image}}
    upgrade.cluster.add({**raw_stream(_named("orders") | pinned), "status": status})
    upgrade.start()
    for _ in range(8):
        upgrade.look()
    assert upgrade.changed() == ["returns", "visits"]


SHAPED: Final = replace(RELEASE, shape=PodShape(labels={"team": "shop"}))


@pytest.mark.parametrize("own", [{}, {"spec.worker": {"image": "registry.example/own:1"}}])
def test_new_settings_of_all_pods_reach_one_stream_after_another(
    scene: Scene, own: dict[str, Any]
) -> None:
    """The chart's worker.pod was changed, and no image; streams with an image of their own have it too."""
    upgrade = Upgrade(scene, own)
    upgrade.start(SHAPED)
    begun = []
    for _ in range(20):
        upgrade.look()
        begun.append(len([name for name in NAMES if upgrade.has_label(f"{name}-0")]))
    assert begun == sorted(begun)
    assert set(begun) == {0, 1, 2, 3}
    assert all(upgrade.has_label(f"{name}-{n}") for name in NAMES for n in range(2))


def test_workers_of_a_version_that_wrote_no_hash_get_it_without_a_restart(upgrade: Upgrade) -> None:
    names = [f"{name}-{n}" for name in NAMES for n in range(2)]
    for name in names:
        del upgrade.cluster.one("StatefulSet", name)["metadata"]["annotations"][RELEASE_HASH]
    before = [upgrade.cluster.one("Pod", f"{name}-0")["metadata"]["uid"] for name in names]
    upgrade.start(RELEASE)
    for _ in range(10):
        upgrade.look()
    after = [upgrade.cluster.one("Pod", f"{name}-0")["metadata"]["uid"] for name in names]
    sets = [upgrade.cluster.one("StatefulSet", name) for name in names]
    assert after == before
    assert len({each["metadata"]["annotations"][RELEASE_HASH] for each in sets}) == 1
    assert "UpgradeWaits" not in upgrade.cluster.told


def test_an_image_that_a_webhook_has_changed_holds_no_turn(upgrade: Upgrade) -> None:
    upgrade.cluster.webhook = mirrored
    upgrade.start()
    for _ in range(40):
        upgrade.look()
    assert "UpgradeStuck" not in upgrade.cluster.told
    images = {upgrade.image(f"{name}-{n}") for name in NAMES for n in range(2)}
    assert images == {f"{MIRROR}worker:2"}
    upgrade.start()
    for _ in range(40):
        upgrade.look()
    assert "UpgradeStuck" not in upgrade.cluster.told
