"""A stream on volumes of Amazon EBS, and the provider that copies them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import boto3
import pytest
from moto.backends import get_backend

from dedupe_crds.quantity import format_size
from dedupe_crds.status.snapshot import PartitionSnapshot, SnapshotPhase
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.snapshots.ebs.provider import EbsProvider
from dedupe_operator.snapshots.provider import Job, ProviderError
from tests.support.processes.faulty_proxy import Answer, FaultyProxy, Forward, Matches, Request
from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.objects import claim, stream

if TYPE_CHECKING:
    from moto.ec2.models import EC2Backend
    from mypy_boto3_ec2.type_defs import SnapshotTypeDef, VolumeTypeDef

REGION: Final = "eu-central-1"
ZONE: Final = "eu-central-1b"
ACCOUNT: Final = "123456789012"
SNAPSHOT_UID: Final = "7b0a2f5e-5f0b-4d0e-8c55-0d8f9e1b6a11"
_EVER: Final = 1_000_000


class ClientTokens:
    """EC2's promise that moto's server does not keep: a request with a ClientToken acts but once."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._answers: dict[str, Answer] = {}

    def __call__(self, request: Request, forward: Forward) -> Answer:
        token = request.form.get("ClientToken") if request.action else None
        if token is None:
            return forward(request)
        with self._lock:
            if token not in self._answers:
                self._answers[token] = forward(request)
            return self._answers[token]


def calls(*actions: str) -> Matches:
    """Requests of these operations, of any if none is named."""
    return lambda request: bool(request.action) and (not actions or request.action in actions)


def error(code: str, message: str = "no reason") -> bytes:
    """An error as EC2 words it."""
    return (
        '<?xml version="1.0" encoding="UTF-8"?><Response><Errors><Error>'
        f"<Code>{code}</Code><Message>{message}</Message></Error></Errors>"
        "<RequestID>1</RequestID></Response>"
    ).encode()


def bound_volume(claim: Object, volume_id: str) -> Object:
    """As the EBS driver makes it for a claim, which it is bound to."""
    made, metadata = persistent_volume(claim["spec"]["volumeName"], volume_id), claim["metadata"]
    made["spec"]["claimRef"] = {key: metadata[key] for key in ("namespace", "name", "uid")}
    return made


def persistent_volume(name: str, volume_id: str, zone: str = ZONE) -> Object:
    """As the EBS driver makes it."""
    in_zone = {"key": "topology.ebs.csi.aws.com/zone", "operator": "In", "values": [zone]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "20Gi"},
            "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": volume_id, "fsType": "xfs"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [in_zone]}]}},
            "storageClassName": "gp3",
        },
    }


def node(name: str, zone: str | None, *, ready: bool = True, cordoned: bool = False) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"topology.kubernetes.io/zone": zone} if zone else {},
        },
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }


class AwsScene:
    """The cluster, the AWS account, and what a job of the provider is made from.

    `ec2` reaches the account past the proxy. Partition p is on `volumes[p]`, all in ZONE.
    """

    def __init__(self, server: str, proxy: FaultyProxy) -> None:
        for left in (_account().snapshots, _account().volumes):  # by another test
            left.clear()
        self.proxy = proxy
        self.ec2 = boto3.client("ec2", endpoint_url=server)
        self.cluster = FakeCluster()
        self.changes: dict[str, Any] = {
            "spec.snapshots": {"provider": "EBS"},
            "spec.store": {"window": {"maxBytes": "1Gi"}},
            "spec.storage": {"size": "20Gi"},
        }
        self.volumes = [self._add_partition(partition) for partition in range(2)]
        for number, zone in enumerate(("eu-central-1a", ZONE)):
            self.cluster.add(node(f"node-{number}", zone))
        self.provider = self.restarted()

    def restarted(
        self, *, answer_seconds: float = 60.0, eventual_consistency_seconds: float = 30.0
    ) -> EbsProvider:
        """The provider of an operator that was just started."""
        # An answer that a busy machine makes late is no fault.
        self.provider = EbsProvider(
            self.cluster,
            answer_seconds=answer_seconds,
            eventual_consistency_seconds=eventual_consistency_seconds,
        )
        return self.provider

    def job(self, partition: int = 0, uid: str = SNAPSHOT_UID, **known: object) -> Job:
        """The copy of a partition, with what its entry says beside the stamp."""
        given: dict[str, Any] = {
            "phase": SnapshotPhase.RUNNING,
            "started": datetime.now(UTC),
            "input_topic_id": "in-1",
            "output_topic_id": "out-1",
            "input_offset": 70,
            "output_position": 60,
            "keys": 50,
            **known,
        }
        return Job(
            stream=stream(self.changes),
            snapshot="orders-1",
            snapshot_uid=uid,
            partition=partition,
            entry=PartitionSnapshot(partition=partition, **given),
            claim=self.cluster.objects.get(("PersistentVolumeClaim", f"orders-{partition}-1")),
        )

    def taken(self, partition: int = 0, **known: object) -> Job:
        """The job of a snapshot that was made and found usable."""
        handle = self.provider.start(self.job(partition))
        assert self.provider.status(self.job(partition, handle=handle)).usable
        now = datetime.now(UTC)
        known = {"phase": SnapshotPhase.COMPLETED, "completed": now, "handle": handle, **known}
        return self.job(partition, SNAPSHOT_UID, **known)

    def claimed(self, job: Job, name: str) -> Object:
        """The claim of a restore, as the operator makes it; one that exists stays."""
        if found := self.cluster.objects.get(("PersistentVolumeClaim", name)):
            return found
        source = self.provider.source(job, name)
        size = max(source.least_size, job.stream.spec.storage.size)
        made = claim(name, partition=job.partition, phase="Pending", size=format_size(size))
        made["spec"] |= source.claim_spec
        return self.cluster.add(made)

    def restored(self, job: Job, name: str = "orders-0-2") -> Object:
        """The PersistentVolume that is made for a claim. Raises ProviderError."""
        waiting = self.claimed(job, name)
        self.provider.provision(job, waiting)
        return self.cluster.one("PersistentVolume", waiting["spec"]["volumeName"])

    def kill_from(self, number: int, *, after_the_act: bool) -> None:
        """Let nothing get through from the call of this number on, that one with or without its act."""
        passed = 0

        def fault(request: Request, forward: Forward) -> Answer | None:
            nonlocal passed
            passed += 1
            if passed < number:
                return forward(request)
            if passed == number and after_the_act:
                forward(request)
            return None

        self.proxy.inject(calls(), fault, times=_EVER)

    def snapshots(self) -> "list[SnapshotTypeDef]":
        """All that the account has."""
        found = self.ec2.describe_snapshots(OwnerIds=["self"])["Snapshots"]
        return [one for one in found if one["Description"].startswith("dedupestream")]

    def snapshot_ids(self) -> list[str]:
        return [one["SnapshotId"] for one in self.snapshots()]

    def restored_volumes(self) -> "list[VolumeTypeDef]":
        """All volumes that were made from snapshots."""
        return [one for one in self.ec2.describe_volumes()["Volumes"] if one.get("SnapshotId")]

    def alter_snapshot(self, snapshot_id: str, **attributes: object) -> None:
        """Set what moto's server says of a snapshot."""
        found = _account().snapshots[snapshot_id]
        for name, value in attributes.items():
            setattr(found, name, value)

    def _add_partition(self, partition: int) -> str:
        made = self.ec2.create_volume(AvailabilityZone=ZONE, Size=20, VolumeType="gp3")
        name = f"orders-{partition}-1"
        bound = self.cluster.add(claim(name, partition=partition))
        self.cluster.add(bound_volume(bound, made["VolumeId"]))
        return made["VolumeId"]


def _account() -> "EC2Backend":
    """What moto's server keeps of the account, in this process."""
    return get_backend("ec2")[ACCOUNT][REGION]


def tags_of(found: "SnapshotTypeDef | VolumeTypeDef") -> Mapping[str, str]:
    return {tag.get("Key", ""): tag.get("Value", "") for tag in found.get("Tags", [])}


def refusal(raised: pytest.ExceptionInfo[ProviderError]) -> tuple[str, bool]:
    """The reason of an error, and whether it is final."""
    return raised.value.reason, not raised.value.retriable
