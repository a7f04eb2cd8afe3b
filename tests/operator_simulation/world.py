"""One history: a stream's life in a simulated cluster, with the faults of a schedule, and its verdict."""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache, partial
from hashlib import sha256
from random import Random
from typing import Any, Final
from unittest.mock import patch

from dedupe_crds.annotations import (
    RESTORE,
    RestoreRequest,
    restore_requests,
    restores_text,
)
from dedupe_crds.spec.stream import API_VERSION
from dedupe_crds.status import partitions as groups
from dedupe_operator.controller.reconciler import Reconciler
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.errors import KubernetesError, LostLeadership
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import (
    CLAIMS,
    NODES,
    PARTITIONS,
    PODS,
    SNAPSHOTS,
    STATEFUL_SETS,
    STREAMS,
)
from dedupe_operator.snapshots.ebs.provider import EbsProvider
from tests.operator_simulation.bystanders import add_bystanders
from tests.operator_simulation.cluster import Lease, SimCluster, recorded_partitions
from tests.operator_simulation.controllers import Controllers
from tests.operator_simulation.ec2 import SimEc2
from tests.operator_simulation.end_state import end_state
from tests.operator_simulation.judge import Judge, is_ours
from tests.operator_simulation.schedule import Schedule, Step
from tests.operator_simulation.stores import Matter, SimKafka, SimWorkers, no_answer
from tests.unit.operator.fake_cluster import Killed
from tests.unit.operator.inline import FakeClock, kafka_parts
from tests.unit.operator.objects import NAMESPACE, RELEASE, STREAM, UID, raw_stream

GROUP_SIZES: Final = (1, 1, 2, 100)
"""Partitions of a group by release; with the last one no stream has groups."""
BAD_IMAGE: Final = "registry.example/worker:bad"
_KEY: Final = Key(NAMESPACE, STREAM)
_MOST_ROUNDS: Final = 60
_PATIENT_PASSES: Final = 8
_QUIET_SECONDS: Final = 130  # longer than any wait of the operator
_LEFT_SECONDS: Final = 660  # as rarely the operator looks for volumes that are left behind
_PROVIDERS: Final[dict[str, Any]] = {
    "EBS": {"provider": "EBS", "keep": 1, "schedule": "*/5 * * * *", "deadline": "120s"},
    "CSI": {"provider": "CSI", "keep": 1, "schedule": "*/5 * * * *", "deadline": "120s"},
    "S3": {
        "provider": "S3",
        "keep": 1,
        "schedule": "*/5 * * * *",
        "deadline": "120s",
        "s3": {"bucket": "b-1"},
    },
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a history. `defects` is empty if all is right; `struck` are the faults that happened."""

    seed: int
    defects: tuple[str, ...]
    digest: str
    passes: int
    struck: tuple[str, ...]

    @property
    def kinds(self) -> frozenset[str]:
        """Return the kinds of the defects."""
        return frozenset(each.partition(":")[0] for each in self.defects)


class World:
    """A cluster, its stream, its users, and the operator that looks after the stream."""

    def __init__(self, schedule: Schedule, listen: Callable[[str], None] | None = None) -> None:
        self.schedule = schedule
        self._listen = listen
        self._random = Random(f"world {schedule.seed}")
        self._releases = Random(f"releases {schedule.seed}")
        self.clock = FakeClock()
        self.kafka = SimKafka(partitions=schedule.partitions)
        self.matter = Matter(self.kafka)
        self.judge = Judge(self.matter)
        self.cluster = SimCluster(schedule.seed, self.clock, self.judge)
        self.judge.cluster = self.cluster
        self.ec2 = SimEc2(self.cluster, self.matter, self.judge.tell)
        ec2 = self.ec2 if schedule.provider == "EBS" else None
        self.controllers = Controllers(self.cluster, self.matter, ec2)
        self.judge.ec2 = ec2
        self.controllers.bad_images.add(BAD_IMAGE)
        cut_off = self.controllers.cut_off
        self.workers = SimWorkers(self.matter, cut_off)
        self.cluster.take_over = self._take_over
        self.changes: dict[str, Any] = {"spec.storage.size": "20Gi"}
        if schedule.provider:
            self.changes["spec.snapshots"] = _PROVIDERS[schedule.provider]
        self.annotations: dict[str, str] = {}
        self.lives = 1
        self.kept: dict[str, str] = {}
        self._slow = schedule.slow
        self._stale_passes = 0
        self._requests = 0
        self._blind = self._idle = self._held = self._vain = 0
        self.log: list[str] = []

    def run(self) -> Outcome:
        """Run the whole history."""
        with self.entered(self._releases.choice(GROUP_SIZES)):
            bystanders = add_bystanders(self.cluster)
            self.start_operator()
            self.apply_stream()
            self.kafka.ends = dict.fromkeys(range(self.schedule.partitions), 0)
            for step in self.schedule.steps:
                for _ in range(step.rounds):
                    self.round()
                self.say(f"** {step}")
                self._take(step)
            self._come_to_rest()
            if self.judge.ec2:
                self._advance(_LEFT_SECONDS)
                for _ in range(3):
                    self.round()
            self.judge.judge_rest(bystanders)
            self.forget_metrics()
        text = "\n".join(self.log)
        return Outcome(
            seed=self.schedule.seed,
            defects=tuple(self.judge.defects),
            digest=sha256(text.encode()).hexdigest()[:12],
            passes=self.cluster.pass_number,
            struck=tuple(self.cluster.struck),
        )

    @contextmanager
    def entered(self, group_size: int) -> Iterator[None]:
        """Let the operator meet this world's Kafka and EC2 within the block, and have groups of this size."""
        token = "dedupe_operator.resources.admin_secret.secrets.token_urlsafe"  # noqa: S105 (its name)
        provider = partial(EbsProvider, now=self.ec2.now)
        with (
            patch("dedupe_operator.kafka_asks.Cluster", self.kafka),
            patch("dedupe_operator.snapshots.ebs.provider.Ec2", lambda **_: self.ec2),
            patch("dedupe_operator.snapshots.providers.EbsProvider", provider),
            patch.object(groups, "GROUP_SIZE", group_size),
            patch(token, _token),
        ):
            yield

    def say(self, line: str) -> None:
        """Add a line to the history."""
        self.log.append(line)
        if self._listen:
            self._listen(line)

    # The operator

    def start_operator(self) -> None:
        """Start a process, which has the Lease."""
        self._blind = self._idle = self._held = self._vain = 0
        self.cluster.lease = Lease(self.clock)
        self.reconciler = Reconciler(
            *(self.cluster, RELEASE, self.workers, *kafka_parts(self.clock)),
            clock=self.clock,
            now=lambda: self.cluster.now,
        )

    def round(self) -> None:
        """Let time pass, the controllers work, and the operator look."""
        self.cluster.remember()
        self._advance(self._random.choice((2, 10, 25)))
        self.controllers.act(self._random, self._slow)
        self._pass()
        self._judge_pass()

    def _judge_pass(self) -> None:
        """Judge that a status says when the operator is blind, and that what can be repaired is."""
        cluster, status = self.cluster, self._status()
        unread = cluster.forbidden != PARTITIONS.kind or status.get("partitionCount")
        blind = cluster.forbidden and status.get("conditions") and unread
        self._blind = self._blind + 1 if blind else 0
        if self._blind > _PATIENT_PASSES:
            ready = next(each for each in status["conditions"] if each["type"] == "Ready")
            if ready["status"] == "True":
                self.judge.add("lies", f"Ready although {cluster.forbidden} can't be read")
        gone = [
            each["persistentVolumeClaim"]
            for each in self._recorded()
            if (CLAIMS.kind, each.get("persistentVolumeClaim")) not in cluster.objects
        ]
        unmade = cluster.refused in {CLAIMS.kind, PARTITIONS.kind}
        hindered = bool(cluster.forbidden or unmade or self.kafka.fails)
        self._idle = self._idle + 1 if gone and not hindered else 0
        dying = [
            each["metadata"]["name"]
            for each in cluster.of_kind(SNAPSHOTS.kind)
            if each["metadata"].get("deletionTimestamp") and not self.is_deleted
        ]
        absent = self.controllers.dark or self.controllers.cut_off or self.matter.silent
        at_work = {each.partition for each in self.matter.processes.values() if each.ready}
        idle = len(at_work) < len(self._recorded())
        hindered = bool(hindered or absent or idle or self.changes.get("spec.suspend"))
        vain = [] if hindered or self.is_deleted else self.judge.vain_copies(status)
        self._vain = self._vain + 1 if vain else 0
        if self._vain > _PATIENT_PASSES:
            self.judge.add("vain", f"copies {vain} count as usable")
        hindered = bool(hindered or self.matter.denied)
        self._held = self._held + 1 if dying and not hindered else 0
        if self._held > _PATIENT_PASSES:
            self.judge.add("held", f"snapshots {dying}, though only {cluster.refused} is refused")
        if self._idle > _PATIENT_PASSES:
            self.judge.add(
                "unrepaired", f"claims {gone}, though {cluster.refused or 'none'} is refused"
            )

    def _pass(self) -> None:
        cluster, reconciler = self.cluster, self.reconciler
        cluster.pass_number += 1
        cluster.staleness = 0.4 if self._stale_passes > 0 else 0.0
        self._stale_passes -= 1
        self.judge.begin_pass(excused=cluster.staleness > 0)
        cluster.lease.renew()
        cluster.writes.clear()
        how = "ok"
        try:
            reconciler.reconcile(_KEY)
        except Killed:
            how = "killed"
            # By one that may be of another release; two that write at the same time are of one.
            groups.GROUP_SIZE = self._releases.choice(GROUP_SIZES)  # type: ignore[misc] # patched
            self.start_operator()
        except LostLeadership:
            how = "no longer the leader"
        except KubernetesError as error:
            how = f"{error.reason}: {error}"
        finally:
            cluster.staleness = 0.0
        for write in cluster.writes:
            self.say(f"   {' '.join(write)}")
        self.say(f"pass {cluster.pass_number} at {cluster.now:%H:%M:%S}: {how}")

    def _take_over(self) -> None:
        """Let another process lead while the writing one stands still."""
        written = list(self.cluster.writes)
        self.say("   the leader stands still; another one takes over")
        self._advance(20)
        self.start_operator()
        for _ in range(2):
            self.round()
        self.judge.begin_pass(excused=True)
        self.cluster.writes[:] = written

    def _advance(self, seconds: int) -> None:
        self.clock.now += seconds
        self.cluster.now += timedelta(seconds=seconds)
        self.workers.now = self.cluster.now

    # Steps

    def apply_stream(self) -> None:
        """Apply the stream as its user wants it now."""
        live = self.cluster.objects.get((STREAMS.kind, STREAM))
        wanted = raw_stream(self.changes)
        wanted["kind"] = STREAMS.kind
        wanted["metadata"] |= {
            "annotations": dict(self.annotations),
            "uid": UID if self.lives == 1 else f"{UID}-{self.lives}",
        }
        if live is not None:
            changed = live["spec"] != wanted["spec"]
            wanted["status"] = live.get("status", {})
            wanted["metadata"]["generation"] = live["metadata"]["generation"] + changed
            wanted["metadata"]["creationTimestamp"] = live["metadata"]["creationTimestamp"]
        self.cluster.put(wanted)

    @property
    def is_deleted(self) -> bool:
        """Return whether the stream is deleted."""
        return (STREAMS.kind, STREAM) not in self.cluster.objects

    def _take(self, step: Step) -> None:
        """Take a step: a fault of the API server, one of the surroundings, or what a user does."""
        if not (self._take_fault(step) or self._take_outage(step) or self._take_change(step)):
            self._take_user_step(step.what, step.to, step.number)

    def _take_fault(self, step: Step) -> bool:
        cluster = self.cluster
        if step.what == "fault":
            cluster.fault, cluster.writes_left = step.to, step.number
        elif step.what == "unreadable":
            cluster.unreadable_in = step.number
        elif step.what == "stale":
            self._stale_passes = step.number
        elif step.what == "refuse":
            cluster.refused = step.to
            cluster.struck.append("no creates")
        elif step.what == "forbid":
            cluster.forbidden = step.to
            cluster.struck.append("no reads")
        elif step.what == "permit":
            cluster.refused = cluster.forbidden = ""
        elif step.what == "settle":
            for _ in range(8):
                self.round()
        else:
            return False
        return True

    def _take_outage(self, step: Step) -> bool:
        what, to, number = step.what, step.to, step.number
        if what in {"dark", "gone"}:
            self.controllers.dark.setdefault(to, self.cluster.now)
            if what == "gone":
                self.cluster.objects.pop((NODES.kind, to), None)
        elif what == "cut":
            self.controllers.cut_off.setdefault(to, self.cluster.now)
        elif what == "back":
            self._bring_back(to)
        elif what == "silent":
            self.matter.silent.add(number)
        elif what in {"kafka-out", "kafka-back"}:
            self.kafka.fails = no_answer() if what == "kafka-out" else None
        elif what == "deny":
            self.matter.denied.setdefault(to, self.cluster.now)
        elif what == "allow":
            self.matter.denied.pop(to, None)
        elif what == "expire":
            self.kafka.lows[number] = self.kafka.ends.get(number, 0)
        else:
            return False
        return True

    def _take_change(self, step: Step) -> bool:
        size = int(self.changes["spec.storage.size"].removesuffix("Gi")) + 10
        image = f"registry.example/worker:{step.number}"
        changes: dict[str, tuple[str, object]] = {
            "image": ("spec.worker.image", image),
            "bad-image": ("spec.worker.image", BAD_IMAGE),
            "grow": ("spec.storage.size", f"{size}Gi"),
            "suspend": ("spec.suspend", True),
            "resume": ("spec.suspend", False),
            "policy": ("spec.storage.reclaimPolicy", step.to),
            "tune": ("spec.store.window.maxAge", f"{step.number}d"),
        }
        snapshots = self.changes.get("spec.snapshots") or {}
        if step.what == "bucket" and "s3" in snapshots:
            changes["bucket"] = ("spec.snapshots", {**snapshots, "s3": {"bucket": step.to}})
        if step.what not in changes:
            return step.what == "bucket"
        path, value = changes[step.what]
        self.changes[path] = value
        if not self.is_deleted:
            self.apply_stream()
        return True

    def _take_user_step(self, what: str, to: str, number: int) -> None:
        cluster = self.cluster
        names = {
            "evict": (PODS.kind, f"{STREAM}-{number}-0"),
            "delete-set": (STATEFUL_SETS.kind, f"{STREAM}-{number}"),
            "delete-snapshot": (SNAPSHOTS.kind, f"s-{number}"),
        }
        if what in names:
            self._delete(*names[what])
        elif what == "snapshot" and (SNAPSHOTS.kind, f"s-{number}") not in cluster.objects:
            metadata = {"name": f"s-{number}", "namespace": NAMESPACE}
            spec = {"streamRef": {"name": STREAM}}
            snapshot = {"apiVersion": API_VERSION, "kind": SNAPSHOTS.kind}
            cluster.put({**snapshot, "metadata": metadata, "spec": spec})
            self.judge.abandoned.discard(f"s-{number}")
        elif what == "delete-claim":
            for each in self._recorded():
                if each["partition"] == number and each.get("persistentVolumeClaim"):
                    self._delete(CLAIMS.kind, each["persistentVolumeClaim"])
        elif what == "restore" and number < self.schedule.partitions and not self.is_deleted:
            self._requests += 1
            copies = [
                each["metadata"]["name"]
                for each in cluster.of_kind(SNAPSHOTS.kind)
                if each["spec"]["streamRef"]["name"] == STREAM
            ]
            source = copies[-1] if to == "copy" and copies else "OutputTopic"
            request = RestoreRequest(request=f"r{self._requests}", partition=number, source=source)
            # A queue: those before it may be answered or not.
            before = restore_requests(self.annotations)
            self.annotations[RESTORE] = restores_text([*before, request])
            self.judge.asked_for.add(number)
            self.apply_stream()
        elif what == "delete-stream" and not self.is_deleted:
            self._delete_stream()

    def _delete(self, kind: str, name: str) -> None:
        if (kind, name) not in self.cluster.objects:
            return
        if kind == SNAPSHOTS.kind and self.is_deleted:
            self.judge.abandoned.add(name)
        self.cluster.delete_as_user(kind, name)

    def _delete_stream(self) -> None:
        cluster = self.cluster
        for snapshot in cluster.of_kind(SNAPSHOTS.kind):
            if snapshot["metadata"].get("deletionTimestamp"):
                self.judge.abandoned.add(snapshot["metadata"]["name"])
        retain = self.changes.get("spec.storage.reclaimPolicy", "Retain") == "Retain"
        self.kept = {}
        if retain:
            for claim in cluster.of_kind(CLAIMS.kind):
                dying = claim["metadata"].get("deletionTimestamp")
                # A change of the policy takes a pass to come to the claims.
                changed = "spec.storage.reclaimPolicy" in self.changes
                owned = changed and claim["metadata"].get("ownerReferences")
                if is_ours(claim) and not dying and not owned:
                    self.kept[claim["metadata"]["name"]] = claim["metadata"]["uid"]
        cluster.delete_as_user(STREAMS.kind, STREAM)

    def _bring_back(self, name: str) -> None:
        self.controllers.dark.pop(name, None)
        self.controllers.cut_off.pop(name, None)
        if (NODES.kind, name) not in self.cluster.objects:
            self.controllers.add_node(name)

    def _status(self) -> Object:
        found: Object = self.cluster.objects.get((STREAMS.kind, STREAM), {}).get("status", {})
        return found

    def _recorded(self) -> list[Object]:
        return recorded_partitions(self.cluster.objects, STREAM)

    # The end

    def _come_to_rest(self) -> None:
        """End all faults; look until nothing changes any more, then judge where that is."""
        self.say("** quiet")
        cluster = self.cluster
        cluster.fault, cluster.unreadable_in, self._stale_passes = None, -1, 0
        cluster.refused = cluster.forbidden = ""
        for name in {*self.controllers.dark, *self.controllers.cut_off} | {"node-1", "node-2"}:
            self._bring_back(name)
        self.kafka.fails = None
        self.matter.silent.clear()
        self.matter.denied.clear()
        self._slow = 0.0
        if self.is_deleted:
            for _ in range(12):
                self.round()
            self.judge.judge_deletion(self.kept)
            self.lives += 1
            self.annotations.clear()
        if self.changes.get("spec.worker.image") == BAD_IMAGE:
            self.changes["spec.worker.image"] = "registry.example/worker:5"
        # So that no scheduled snapshot begins for ever.
        if snapshots := self.changes.get("spec.snapshots"):
            self.changes["spec.snapshots"] = {**snapshots, "schedule": None}
        self.apply_stream()
        changed = self.clock.now
        for _ in range(_MOST_ROUNDS):
            before = cluster.revision
            self.round()
            if cluster.revision != before:
                changed = self.clock.now
            if self.clock.now - changed > _QUIET_SECONDS:
                break
            self._advance(15)
        else:
            self.judge.add("stuck", f"no rest after {_MOST_ROUNDS} rounds: {cluster.writes}")
        self._compare()

    def _compare(self) -> None:
        """Compare the end with that of a stream that was created so."""
        wanted = undisturbed(self.schedule.partitions, json.dumps(self.changes, sort_keys=True))
        found = end_state(self.cluster)
        for name in sorted(wanted.keys() | found.keys()):
            if wanted.get(name) != found.get(name):
                self.judge.add(
                    "another end", f"{name} is {found.get(name)}, not {wanted.get(name)}"
                )

    def forget_metrics(self) -> None:
        """Delete the stream, so that its metrics go too."""
        self.cluster.objects.pop((STREAMS.kind, STREAM), None)
        self.reconciler.reconcile(_KEY)


@lru_cache(maxsize=256)
def undisturbed(partitions: int, changes: str) -> dict[str, object]:
    """Return the end state of a stream that is created by these changes and left alone."""
    provider = json.loads(changes).get("spec.snapshots", {}).get("provider", "")
    calm = Schedule(seed=0, partitions=partitions, provider=provider, slow=0.0, steps=())
    world = World(calm)
    world.changes = json.loads(changes)
    with world.entered(1):
        world.kafka.ends = dict.fromkeys(range(partitions), 0)
        world.start_operator()
        world.apply_stream()
        for _ in range(15):
            world.round()
        assert not world.judge.defects, world.judge.defects
        assert not world.cluster.writes
        found = end_state(world.cluster)
        world.forget_metrics()
    return found


def _token(_: int) -> str:
    """Stand in for a random token, so that a seed is one history."""
    return "t" * 43


def silence_logs() -> None:
    """Keep the operator's log lines out of the output."""
    logging.disable(logging.CRITICAL)
