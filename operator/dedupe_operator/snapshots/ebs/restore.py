"""Create an EBS volume of a snapshot, and its PV, for a claim that waits for it.

The EBS provider calls it. The claim is first: it names the PersistentVolume, whose name follows from the claim and the
snapshot, so the API server has accepted its size before anything is made.
"""

import json
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cached_property
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Final

from botocore.exceptions import ClientError

from dedupe_crds.annotations import STREAM
from dedupe_crds.quantity import GIB, parse_size
from dedupe_crds.spec.store import ReclaimPolicy
from dedupe_operator.decide.volume_claims import is_bound
from dedupe_operator.kubernetes.api import KubernetesApi
from dedupe_operator.kubernetes.names import (
    NOT_PRUNED,
    OURS,
    ZONE,
    Object,
    lasting_labels,
    partition_of,
)
from dedupe_operator.kubernetes.resources import CLAIMS, NODES, PERSISTENT_VOLUMES, STORAGE_CLASSES
from dedupe_operator.snapshots.ebs import tags as ebs_tags
from dedupe_operator.snapshots.ebs import volumes as ebs_volumes
from dedupe_operator.snapshots.ebs.client import code_of
from dedupe_operator.snapshots.provider import ClaimSource, Job, ProviderError, ProviderFailed

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import (
        CreateVolumeRequestTypeDef,
        SnapshotTypeDef,
        VolumeResponseTypeDef,
        VolumeTypeDef,
    )

# A volume is created within seconds. One whose KMS key may not be used is announced but never created.
_CREATED_WITHIN: Final = timedelta(minutes=10)
# Volumes of the stream that are read for their zone.
_ASKED: Final = 20
_DEFAULT_TYPE: Final = "gp3"

log = logging.getLogger(__name__)


class VolumeRestore:
    """One volume from a snapshot for a claim; a step finds an earlier call's work."""

    def __init__(
        self,
        api: KubernetesApi,
        client: "EC2Client",
        job: Job,
        now: Callable[[], datetime],
    ) -> None:
        self._api = api
        self._client = client
        self._job = job
        self._now = now

    def source(self, snapshot: "SnapshotTypeDef", claim_name: str) -> ClaimSource:
        """Return what a new claim names, and the size that it needs.

        Raises ProviderError if no volume of the snapshot could be attached now, KubernetesError.
        """
        self._zone()
        return ClaimSource(
            claim_spec={
                "volumeName": volume_name(self._job, claim_name),
                "storageClassName": self._class_name(),
            },
            least_size=self._size(snapshot) * GIB,
        )

    def create(self, snapshot: "SnapshotTypeDef", claim: Object, cluster: str) -> None:
        """Create the volume and the PersistentVolume that a claim waits for.

        `cluster` is the id of this cluster. Raises ProviderError, ClientError, BotoCoreError, KubernetesError.
        """
        volume = self._created_before(snapshot, claim) or self._create(snapshot, claim, cluster)
        self._check_created(volume, snapshot)
        self._api.apply(self._persistent_volume(volume, claim))

    @cached_property
    def _relatives(self) -> list[Object]:
        """Return the partition's last PersistentVolume, then those of the others."""
        metadata = self._job.stream.metadata
        claims = [self._job.claim] if self._job.claim else []
        claims += sorted(
            self._api.find(CLAIMS, metadata.namespace, labels={**OURS, STREAM: metadata.name}),
            key=lambda claim: partition_of(claim) != self._job.partition,
        )
        names = dict.fromkeys(claim["spec"]["volumeName"] for claim in claims if is_bound(claim))
        found = (self._api.get(PERSISTENT_VOLUMES, None, name) for name in names)
        return [volume for volume in islice(found, _ASKED) if volume]

    def _check_created(
        self, volume: "VolumeTypeDef | VolumeResponseTypeDef", snapshot: "SnapshotTypeDef"
    ) -> None:
        """Raise ProviderError unless the volume can be attached."""
        if volume["State"] in {"available", "in-use"}:
            return
        where = f"volume {volume['VolumeId']} of snapshot {snapshot['SnapshotId']}"
        if volume["State"] != "creating":
            raise ProviderFailed("VolumeFailed", f"{where} is in state {volume['State']}")
        # EC2 answers a repeated request with the volume of the first one, even if it is gone.
        if self._now() - volume["CreateTime"] < _CREATED_WITHIN:
            raise ProviderError("VolumeNotReady", f"{where} is being created")
        message = (
            f"{where} was not created, or is gone: may the operator use the snapshot's KMS key?"
        )
        raise ProviderFailed("VolumeFailed", message)

    def _created_before(self, snapshot: "SnapshotTypeDef", claim: Object) -> "VolumeTypeDef | None":
        filters = ebs_tags.volume_filters(self._job, claim, snapshot["SnapshotId"])
        found = [
            each
            for each in self._client.describe_volumes(Filters=filters)["Volumes"]
            if ebs_tags.is_ours(self._job, each)
            and each["State"] not in {"deleting", "deleted"}
            and each["Size"] >= _claimed_size(snapshot, claim)
        ]
        return min(found, key=lambda each: (each["CreateTime"], each["VolumeId"]), default=None)

    def _create(
        self, snapshot: "SnapshotTypeDef", claim: Object, cluster: str
    ) -> "VolumeResponseTypeDef":
        tags = ebs_tags.of_volume(self._job, claim, cluster)
        request: CreateVolumeRequestTypeDef = {
            "AvailabilityZone": self._zone(),
            "SnapshotId": snapshot["SnapshotId"],
            "Size": _claimed_size(snapshot, claim),
            "TagSpecifications": [{"ResourceType": "volume", "Tags": ebs_tags.as_list(tags)}],
        }
        self._add_class_parameters(request, _class_of(claim))
        # The same request gets the same volume; a different one, for example in another zone, a new volume.
        request["ClientToken"] = sha256(
            json.dumps([claim["spec"]["volumeName"], request], sort_keys=True).encode()
        ).hexdigest()
        try:
            volume = self._client.create_volume(**request)
        except ClientError as error:
            if code_of(error) == "InvalidSnapshot.NotFound":
                message = f"EBS snapshot {snapshot['SnapshotId']} is gone"
                raise ProviderFailed("SnapshotGone", message) from error
            raise
        log.info(
            "EBS volume %s created for claim %s", volume["VolumeId"], claim["metadata"]["name"]
        )
        return volume

    def _size(self, snapshot: "SnapshotTypeDef") -> int:
        """Return the size in GiB: the largest of snapshot, spec and old claim."""
        sizes = [self._job.stream.spec.storage.size]
        if self._job.claim:
            sizes.append(parse_size(self._job.claim["spec"]["resources"]["requests"]["storage"]))
        return max(snapshot["VolumeSize"], -(-max(sizes) // GIB))

    def _zone(self) -> str:
        """Return an availability zone in which a ready node can attach the volume.

        In this order: the zone of the old volume, that of another volume of the stream, any zone with a ready node, by
        the partition's number.
        """
        nodes = self._api.find(NODES, None)
        usable = sorted({zone for zone in map(_usable_zone, nodes) if zone})
        if not usable:
            message = f"no node is ready and has the label {ZONE}"
            raise ProviderError("ZoneUnknown", message)
        region = self._client.meta.region_name
        usable = [zone for zone in usable if zone.startswith(region)]
        if not usable:
            message = (
                f"EBS snapshot {self._job.entry.handle} is in {region}, where no node is ready: copy it to the region "
                "of the nodes, or restore from another snapshot"
            )
            raise ProviderFailed("SnapshotInOtherRegion", message)
        known = (zone for zone in map(ebs_volumes.zone, self._relatives) if zone in usable)
        return next(known, None) or usable[self._job.partition % len(usable)]

    def _class_name(self) -> str:
        """Return the StorageClass of PersistentVolume and claim, empty if none is known."""
        wanted = self._job.stream.spec.storage.storage_class_name
        theirs = (volume["spec"].get("storageClassName") for volume in self._relatives)
        return wanted or next(filter(None, theirs), "")

    def _add_class_parameters(self, request: "CreateVolumeRequestTypeDef", name: str) -> None:
        """Add volume type, IOPS, throughput and key as the StorageClass sets them.

        Without a key, EC2 uses that of the snapshot.
        """
        found = self._api.get(STORAGE_CLASSES, None, name) if name else None
        given: dict[str, str] = {}
        if found and found.get("provisioner") in {ebs_volumes.DRIVER, ebs_volumes.IN_TREE}:
            given = {key.lower(): value for key, value in (found.get("parameters") or {}).items()}
        # EC2 checks the value: the types of boto3's stubs are narrower than a user's text.
        request["VolumeType"] = given.get("type", _DEFAULT_TYPE)  # type: ignore[typeddict-item]
        numbers = {key: int(value) for key, value in given.items() if value.isdecimal()}
        if "iops" in numbers:
            request["Iops"] = numbers["iops"]
        elif "iopspergb" in numbers:
            request["Iops"] = numbers["iopspergb"] * request["Size"]
        if "throughput" in numbers:
            request["Throughput"] = numbers["throughput"]
        if given.get("encrypted", "").lower() == "true":
            request["Encrypted"] = True
            if given.get("kmskeyid"):
                request["KmsKeyId"] = given["kmskeyid"]

    def _persistent_volume(
        self, volume: "VolumeTypeDef | VolumeResponseTypeDef", claim: Object
    ) -> Object:
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
                "name": claim["spec"]["volumeName"],
                "labels": lasting_labels(metadata.name, self._job.partition),
                # Without the last one the driver would not delete the volume with reclaimPolicy Delete.
                "annotations": {
                    **NOT_PRUNED,
                    "pv.kubernetes.io/provisioned-by": ebs_volumes.DRIVER,
                },
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": f"{volume['Size']}Gi"},
                "csi": csi,
                "claimRef": {
                    "apiVersion": CLAIMS.api_version,
                    "kind": CLAIMS.kind,
                    "namespace": metadata.namespace,
                    "name": claim["metadata"]["name"],
                    "uid": claim["metadata"]["uid"],
                },
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}},
                "persistentVolumeReclaimPolicy": (
                    "Delete" if storage.reclaim_policy is ReclaimPolicy.DELETE else "Retain"
                ),
                "storageClassName": _class_of(claim),
                "volumeMode": "Filesystem",
            },
        }


def volume_name(job: Job, claim_name: str) -> str:
    """Return the name of the PersistentVolume of a copy for a claim.

    PersistentVolumes have no namespace: it belongs to this claim and this snapshot only.
    """
    metadata = job.stream.metadata
    of = f"{metadata.namespace}/{claim_name}/{metadata.uid}/{job.entry.handle}"
    return f"{claim_name}-{sha256(of.encode()).hexdigest()[:12]}"


def _claimed_size(snapshot: "SnapshotTypeDef", claim: Object) -> int:
    """Return the size in GiB that a claim was granted, at least the snapshot's."""
    requested = parse_size(claim["spec"]["resources"]["requests"]["storage"])
    return max(snapshot["VolumeSize"], -(-requested // GIB))


def _class_of(claim: Object) -> str:
    return str(claim["spec"].get("storageClassName") or "")


def _usable_zone(node: Object) -> str | None:
    """Return the zone of a node on which a pod can start, None if none can."""
    conditions = (node.get("status") or {}).get("conditions") or []
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    if not ready or node["spec"].get("unschedulable"):
        return None
    return ebs_volumes.zone_label(node)
