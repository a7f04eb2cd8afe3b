"""A volume made of an EBS snapshot, where a worker can attach it, and the PersistentVolume for it."""

import json
import logging
from datetime import UTC, datetime, timedelta
from functools import cached_property
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Final

from botocore.exceptions import ClientError

from dedupe_crds.quantity import GIB, parse_size
from dedupe_crds.spec.store import ReclaimPolicy
from dedupe_operator.kubernetes.api import (
    CLAIMS,
    NODES,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    KubernetesApi,
)
from dedupe_operator.kubernetes.names import (
    FIELD_MANAGER,
    MANAGED_BY,
    STREAM,
    Object,
    partition_labels,
    partition_of,
)
from dedupe_operator.snapshots.ebs import tags as ebs_tags
from dedupe_operator.snapshots.ebs import volumes as ebs_volumes
from dedupe_operator.snapshots.ebs.client import code_of
from dedupe_operator.snapshots.provider import Job, ProviderError, Source

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import (
        CreateVolumeRequestTypeDef,
        SnapshotTypeDef,
        VolumeResponseTypeDef,
        VolumeTypeDef,
    )

# A volume is made within seconds. One whose key may not be used is announced and then never made.
_MADE_AFTER: Final = timedelta(minutes=10)
# Volumes of the stream that are asked for their zone.
_ASKED: Final = 20
_DEFAULT_TYPE: Final = "gp3"

log = logging.getLogger(__name__)


class Restoring:
    """One volume on its way from a snapshot to a claim. Each step finds what an earlier call did."""

    def __init__(self, api: KubernetesApi, client: "EC2Client", job: Job, claim_name: str) -> None:
        self._api = api
        self._client = client
        self._job = job
        self._claim_name = claim_name
        metadata, size = job.stream.metadata, job.stream.spec.storage.size
        # PersistentVolumes are in no namespace: it must be of this claim and this snapshot alone, and
        # not be the one from before spec.storage.size grew, which the claim would find too small.
        of = f"{metadata.namespace}/{claim_name}/{metadata.uid}/{job.entry.handle}/{size}"
        self._name = f"{claim_name}-{sha256(of.encode()).hexdigest()[:12]}"

    def made(self) -> Source | None:
        """What an earlier call made, if it came to an end. Raises KubernetesError."""
        volume = self._api.get(PERSISTENT_VOLUMES, None, self._name)
        return _source(volume) if volume else None

    def make(self, snapshot: "SnapshotTypeDef") -> Source:
        """Raises ProviderError, ClientError, BotoCoreError, KubernetesError."""
        return _source(self._api.apply(self._persistent_volume(self._volume(snapshot))))

    @cached_property
    def _relatives(self) -> list[Object]:
        """The PersistentVolume the partition had, if it is known, then those of the stream's others."""
        metadata = self._job.stream.metadata
        selector = f"{MANAGED_BY}={FIELD_MANAGER},{STREAM}={metadata.name}"
        claims = [self._job.claim] if self._job.claim else []
        claims += sorted(
            self._api.find(CLAIMS, metadata.namespace, labels=selector),
            key=lambda claim: partition_of(claim) != self._job.partition,
        )
        names = dict.fromkeys(claim["spec"].get("volumeName") for claim in claims)
        found = (self._api.get(PERSISTENT_VOLUMES, None, name) for name in filter(None, names))
        return [volume for volume in islice(found, _ASKED) if volume]

    def _volume(self, snapshot: "SnapshotTypeDef") -> "VolumeTypeDef | VolumeResponseTypeDef":
        """The volume, made if there is none, once it can be attached."""
        volume = self._made_before(snapshot) or self._create(snapshot)
        if volume["State"] in {"available", "in-use"}:
            return volume
        where = f"volume {volume['VolumeId']} of snapshot {snapshot['SnapshotId']}"
        if volume["State"] != "creating":
            raise ProviderError(
                "VolumeFailed", f"{where} is in state {volume['State']}", final=True
            )
        # EC2 answers a repeated request with the volume it once made, be that gone since.
        if datetime.now(UTC) - volume["CreateTime"] < _MADE_AFTER:
            raise ProviderError("VolumeNotReady", f"{where} is being made", final=False)
        message = f"{where} was not made, or is gone: may the operator use the snapshot's KMS key?"
        raise ProviderError("VolumeFailed", message, final=True)

    def _made_before(self, snapshot: "SnapshotTypeDef") -> "VolumeTypeDef | None":
        filters = ebs_tags.volume_filters(self._job, self._claim_name, snapshot["SnapshotId"])
        found = [
            one
            for one in self._client.describe_volumes(Filters=filters)["Volumes"]
            if ebs_tags.is_ours(self._job, one)
            and one["State"] not in {"deleting", "deleted"}
            and one["Size"] >= self._size(snapshot)
        ]
        return min(found, key=lambda one: (one["CreateTime"], one["VolumeId"]), default=None)

    def _create(self, snapshot: "SnapshotTypeDef") -> "VolumeResponseTypeDef":
        tags = ebs_tags.of_volume(self._job, self._claim_name)
        request: CreateVolumeRequestTypeDef = {
            "AvailabilityZone": self._zone(),
            "SnapshotId": snapshot["SnapshotId"],
            "Size": self._size(snapshot),
            "TagSpecifications": [{"ResourceType": "volume", "Tags": ebs_tags.as_list(tags)}],
        }
        self._add_class_parameters(request)
        # The same request gets the same volume; one that differs, by a zone that was lost, another.
        request["ClientToken"] = sha256(
            json.dumps([self._name, request], sort_keys=True).encode()
        ).hexdigest()
        try:
            volume = self._client.create_volume(**request)
        except ClientError as error:
            if code_of(error) == "InvalidSnapshot.NotFound":
                message = f"EBS snapshot {snapshot['SnapshotId']} is gone"
                raise ProviderError("SnapshotGone", message, final=True) from error
            raise
        log.info("EBS volume %s made for claim %s", volume["VolumeId"], self._claim_name)
        return volume

    def _size(self, snapshot: "SnapshotTypeDef") -> int:
        """In GiB: as much as the snapshot needs, the stream wants, and the old claim had asked for."""
        sizes = [self._job.stream.spec.storage.size]
        if self._job.claim:
            sizes.append(parse_size(self._job.claim["spec"]["resources"]["requests"]["storage"]))
        return max(snapshot["VolumeSize"], -(-max(sizes) // GIB))

    def _zone(self) -> str:
        """Where a ready node can attach the volume: the zone of the old one, if that has such a node,
        else that of another of the stream's, else one of those with nodes, by the partition's number."""
        nodes = self._api.find(NODES, None)
        usable = sorted({zone for zone in map(_usable_zone, nodes) if zone})
        if not usable:
            message = f"no node is ready and has the label {ebs_volumes.ZONE}"
            raise ProviderError("ZoneUnknown", message, final=False)
        known = (zone for zone in map(ebs_volumes.zone, self._relatives) if zone in usable)
        return next(known, None) or usable[self._job.partition % len(usable)]

    def _class_name(self) -> str:
        """The StorageClass of both PersistentVolume and claim, empty if none is known."""
        wanted = self._job.stream.spec.storage.storage_class_name
        theirs = (volume["spec"].get("storageClassName") for volume in self._relatives)
        return wanted or next(filter(None, theirs), "")

    def _add_class_parameters(self, request: "CreateVolumeRequestTypeDef") -> None:
        """Type, speed and key as the StorageClass says; the key else is that of the snapshot."""
        name = self._class_name()
        found = self._api.get(STORAGE_CLASSES, None, name) if name else None
        given: dict[str, str] = {}
        if found and found.get("provisioner") in {ebs_volumes.DRIVER, ebs_volumes.IN_TREE}:
            given = {key.lower(): value for key, value in (found.get("parameters") or {}).items()}
        # EC2 checks what it gets: the types of boto3's stubs are narrower than a user's text.
        request["VolumeType"] = given.get("type", _DEFAULT_TYPE)  # type: ignore[typeddict-item]
        figures = {key: int(value) for key, value in given.items() if value.isdecimal()}
        if "iops" in figures:
            request["Iops"] = figures["iops"]
        elif "iopspergb" in figures:
            request["Iops"] = figures["iopspergb"] * request["Size"]
        if "throughput" in figures:
            request["Throughput"] = figures["throughput"]
        if given.get("encrypted", "").lower() == "true":
            request["Encrypted"] = True
            if given.get("kmskeyid"):
                request["KmsKeyId"] = given["kmskeyid"]

    def _persistent_volume(self, volume: "VolumeTypeDef | VolumeResponseTypeDef") -> Object:
        metadata, storage = self._job.stream.metadata, self._job.stream.spec.storage
        csi: Object = {"driver": ebs_volumes.DRIVER, "volumeHandle": volume["VolumeId"]}
        if known := next(filter(None, map(ebs_volumes.file_system, self._relatives)), None):
            csi["fsType"] = known
        zone = {
            "key": ebs_volumes.DRIVER_ZONE,
            "operator": "In",
            "values": [volume["AvailabilityZone"]],
        }
        return {
            "apiVersion": "v1",
            "kind": PERSISTENT_VOLUMES.kind,
            "metadata": {
                "name": self._name,
                "labels": partition_labels(metadata.name, self._job.partition),
                # Or the driver would not delete the volume where that is wanted.
                "annotations": {"pv.kubernetes.io/provisioned-by": ebs_volumes.DRIVER},
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": f"{volume['Size']}Gi"},
                "csi": csi,
                "claimRef": {
                    "apiVersion": CLAIMS.api_version,
                    "kind": CLAIMS.kind,
                    "namespace": metadata.namespace,
                    "name": self._claim_name,
                },
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}},
                "persistentVolumeReclaimPolicy": (
                    "Delete" if storage.reclaim_policy is ReclaimPolicy.DELETE else "Retain"
                ),
                "storageClassName": self._class_name(),
                "volumeMode": "Filesystem",
            },
        }


def _source(volume: Object) -> Source:
    spec = volume["spec"]
    return Source(
        claim_spec={
            "volumeName": volume["metadata"]["name"],
            "storageClassName": spec.get("storageClassName", ""),
        },
        least_size=parse_size(spec["capacity"]["storage"]),
    )


def _usable_zone(node: Object) -> str | None:
    """The zone of a node on which a pod may start."""
    conditions = (node.get("status") or {}).get("conditions") or []
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    if not ready or node["spec"].get("unschedulable"):
        return None
    return ebs_volumes.zone_label(node)
