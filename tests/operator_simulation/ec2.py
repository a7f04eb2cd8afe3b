"""Amazon EC2 of the simulated world, as far as the EBS provider calls it. No answer of it is late or lost."""

# ruff: noqa: N803, ANN401 (Amazon's names, and any values)

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from types import SimpleNamespace
from typing import Any, Final

from botocore.exceptions import ClientError

from dedupe_operator.kubernetes.names import ZONE, Object
from dedupe_operator.kubernetes.resources import CLAIMS, PERSISTENT_VOLUMES
from dedupe_operator.snapshots.ebs.tags import CLAIM_UID
from tests.operator_simulation.cluster import SimCluster
from tests.operator_simulation.stores import Copy, Matter, Store, Volume

REGION: Final = "eu-central-1"
IN_ZONE: Final = {ZONE: f"{REGION}a"}
_Ec2Object = dict[str, Any]


@dataclass
class SimEc2:
    """The snapshots and the volumes of restores; `tell` gets the defects.

    It takes the place of the operator's clients, and is the only client.
    """

    cluster: SimCluster
    matter: Matter
    tell: Callable[[str, str], None]
    snapshots: dict[str, _Ec2Object] = field(default_factory=dict)
    volumes: dict[str, _Ec2Object] = field(default_factory=dict)
    stores: dict[str, Store | None] = field(default_factory=dict)
    meta: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(region_name=REGION))
    _tokens: dict[str, _Ec2Object] = field(default_factory=dict)

    def client(self, region: str | None) -> "SimEc2":
        assert region in {None, REGION}
        return self

    client_for_one_attempt = client

    def get_paginator(self, operation: str) -> SimpleNamespace:
        return SimpleNamespace(paginate=lambda **given: [getattr(self, operation)(**given)])

    def describe_snapshots(
        self, SnapshotIds: Iterable[str] = (), Filters: list[Any] | None = None, **_: Any
    ) -> Object:
        for wanted in SnapshotIds:
            if wanted not in self.snapshots:
                raise _error("InvalidSnapshot.NotFound")
        found = [self.snapshots[each] for each in SnapshotIds] or list(self.snapshots.values())
        return {"Snapshots": list(_matching(found, Filters or []))}

    def describe_volumes(self, Filters: list[Any]) -> Object:
        return {"Volumes": list(_matching(self.volumes.values(), Filters))}

    def create_snapshot(self, VolumeId: str, TagSpecifications: list[Any], **_: Any) -> Object:
        name = f"snap-{len(self.stores)}"
        volume = self.matter.volumes.get(self.volume_name(VolumeId))
        if volume is None:
            raise _error("InvalidVolume.NotFound")
        self.stores[name] = volume.store
        made = {"SnapshotId": name, "State": "completed", "VolumeSize": 20}
        made |= {"StartTime": self.now(), "Tags": TagSpecifications[0]["Tags"]}
        self.snapshots[name] = made
        return made

    def delete_snapshot(self, SnapshotId: str) -> None:
        if self.snapshots.pop(SnapshotId, None) is None:
            raise _error("InvalidSnapshot.NotFound")

    def create_volume(
        self,
        ClientToken: str,
        SnapshotId: str,
        Size: int,
        TagSpecifications: list[Any],
        **given: Any,
    ) -> Object:
        if made := self._tokens.get(ClientToken):
            # Also of a volume that is gone.
            return made if made["VolumeId"] in self.volumes else {**made, "State": "creating"}
        name = f"vol-{len(self.stores)}"
        tags = TagSpecifications[0]["Tags"]
        claims = {each["metadata"]["uid"] for each in self.cluster.of_kind(CLAIMS.kind)}
        if _tags(tags).get(CLAIM_UID) not in claims:
            self.tell("bypassed", f"volume {name} is made without a claim")
        self.stores[name] = self.stores[SnapshotId]
        made = {"VolumeId": name, "SnapshotId": SnapshotId, "Size": Size, "State": "available"}
        made |= {
            "AvailabilityZone": given["AvailabilityZone"],
            "CreateTime": self.now(),
            "Tags": tags,
        }
        self.volumes[name] = self._tokens[ClientToken] = made
        return made

    def delete_volume(self, VolumeId: str) -> None:
        if self.volumes.pop(VolumeId, None) is None:
            raise _error("InvalidVolume.NotFound")
        if self._named(VolumeId):
            self.tell("deleted", f"volume {VolumeId} of a PersistentVolume")

    # Of the cluster

    def volume_name(self, volume_id: str) -> str:
        """Return the name of the PersistentVolume that has a volume."""
        return next((each["metadata"]["name"] for each in self._named(volume_id)), "")

    def _named(self, volume_id: str) -> list[Object]:
        volumes = self.cluster.of_kind(PERSISTENT_VOLUMES.kind)
        return [each for each in volumes if each["spec"]["csi"]["volumeHandle"] == volume_id]

    def bind(self, claim: Object) -> bool:
        """Bind a claim to the PersistentVolume that it names, as its controller does."""
        name, uid = claim["spec"]["volumeName"], claim["metadata"]["uid"]
        volume = self.cluster.objects.get((PERSISTENT_VOLUMES.kind, name))
        if volume is None or volume["spec"]["claimRef"]["uid"] != uid:
            return False
        size = volume["spec"]["capacity"]["storage"]
        self.matter.volumes[name] = Volume(uid, size, self.stores[_handle(volume)])
        return True

    def provision(self, claim: Object, name: str) -> None:
        """Add the PersistentVolume of an empty volume, as the driver does."""
        metadata = claim["metadata"]
        volume = {
            "apiVersion": "v1",
            "kind": PERSISTENT_VOLUMES.kind,
            "metadata": {"name": name, "labels": IN_ZONE},
            "spec": {
                "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": f"vol-of-{name}"},
                "claimRef": {key: metadata[key] for key in ("namespace", "name", "uid")},
                "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
                "storageClassName": "default",
            },
        }
        self.cluster.put(volume)

    def collect(self) -> None:
        """Remove PersistentVolumes whose claims are gone, with their volumes."""
        claims = {each["metadata"]["uid"] for each in self.cluster.of_kind(CLAIMS.kind)}
        for volume in self.cluster.of_kind(PERSISTENT_VOLUMES.kind):
            if volume["spec"]["claimRef"]["uid"] not in claims:
                self.volumes.pop(_handle(volume), None)
                self.cluster.remove(PERSISTENT_VOLUMES.kind, volume["metadata"]["name"])

    def left(self) -> list[str]:
        """Return the volumes that no PersistentVolume names."""
        return [each for each in self.volumes if not self._named(each)]

    def copy_of(self, handle: str) -> Copy | None:
        """Return the content of a snapshot."""
        store = self.stores.get(handle) if handle in self.snapshots else None
        return Copy(store, self.snapshots[handle]["StartTime"], ready=True) if store else None

    def now(self) -> datetime:
        return self.cluster.now


def _handle(volume: Object) -> str:
    return str(volume["spec"]["csi"]["volumeHandle"])


def _tags(tags: list[Any]) -> dict[str, str]:
    return {each["Key"]: each["Value"] for each in tags}


def _matching(found: Iterable[_Ec2Object], filters: list[Any]) -> Iterator[_Ec2Object]:
    for each in found:
        tags = _tags(each["Tags"])
        values = {f"tag:{name}": value for name, value in tags.items()}
        values["snapshot-id"] = each.get("SnapshotId", "")
        by_key = [set(one["Values"]) & tags.keys() for one in filters if one["Name"] == "tag-key"]
        by_value = [
            values.get(one["Name"]) in one["Values"] for one in filters if one["Name"] != "tag-key"
        ]
        if all(by_key) and all(by_value):
            yield each


def _error(code: str) -> ClientError:
    metadata = {"HTTPStatusCode": 400}
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": metadata}, "simulated")  # type: ignore[typeddict-item]
