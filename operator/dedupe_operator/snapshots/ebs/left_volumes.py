"""Find volumes that restores made for claims that are gone, and delete them.

The EBS provider calls it. Invariant: a volume is deleted only if its tags say that this cluster made it for a claim, if
the API server has no claim of that UID, and if no PersistentVolume names it, within a day. After that a pod may have
used it, and a person may keep it on purpose (`Retain`). All others are left, and named.
"""

import logging
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from botocore.exceptions import ClientError

from dedupe_crds.spec.stream import DedupeStream
from dedupe_operator.kubernetes.api import KubernetesApi
from dedupe_operator.kubernetes.resources import CLAIMS, PERSISTENT_VOLUMES
from dedupe_operator.snapshots.ebs import tags as ebs_tags
from dedupe_operator.snapshots.ebs import volumes as ebs_volumes
from dedupe_operator.snapshots.ebs.client import code_of, provider_errors
from dedupe_operator.snapshots.provider import LeftBehind, ProviderError

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import VolumeTypeDef

_NEW: Final = timedelta(days=1)

log = logging.getLogger(__name__)


def remove_left_volumes(
    api: KubernetesApi,
    clients: Iterable["EC2Client"],
    stream: DedupeStream,
    cluster_id: Callable[[], str],
    now: datetime,
) -> LeftBehind:
    """Delete a stream's volumes whose claims are gone; return them, and what stays.

    `clients` are those of the regions, `cluster_id` returns the tag of this cluster's volumes. Raises ProviderError,
    ClientError, BotoCoreError, KubernetesError.
    """
    volumes = [(client, each) for client in clients for each in _unattached(client, stream)]
    found = [(client, each) for client, each in volumes if not _is_claimed(api, stream, each)]
    if not found:
        return LeftBehind()
    api.require_live()
    in_use = {ebs_volumes.volume_id(each) for each in api.find(PERSISTENT_VOLUMES, None)}
    removed: list[str] = []
    kept: list[str] = []
    for client, volume in found:
        tags, name = ebs_tags.read(volume), _shown(volume)
        if volume["VolumeId"] in in_use or tags.get(ebs_tags.CLUSTER, cluster_id()) != cluster_id():
            continue
        if not {ebs_tags.CLUSTER, ebs_tags.CLAIM_UID} <= tags.keys():
            kept.append(f"{name}, of an earlier release, perhaps of another cluster")
        elif now - volume["CreateTime"] > _NEW:
            kept.append(f"{name}, more than a day ago: a pod may have used it")
        elif why := _delete(client, volume):
            kept.append(f"{name}: {why}")
        else:
            removed.append(name)
            log.info("%s deleted", name)
    return LeftBehind(removed=tuple(removed), kept=tuple(kept))


def _unattached(client: "EC2Client", stream: DedupeStream) -> "list[VolumeTypeDef]":
    pages = client.get_paginator("describe_volumes").paginate(
        Filters=ebs_tags.restored_filters(stream)
    )
    volumes = [each for page in pages for each in page["Volumes"]]
    return [each for each in volumes if each["State"] in {"available", "error"}]


def _is_claimed(api: KubernetesApi, stream: DedupeStream, volume: "VolumeTypeDef") -> bool:
    """Return whether the claim that a volume was made for exists."""
    tags = ebs_tags.read(volume)
    name = tags[ebs_tags.CLAIM].rpartition("/")[2]
    claim = api.get(CLAIMS, stream.metadata.namespace, name)
    return claim is not None and tags.get(ebs_tags.CLAIM_UID) in {None, claim["metadata"]["uid"]}


def _delete(client: "EC2Client", volume: "VolumeTypeDef") -> str | None:
    """Delete a volume; return why that is not possible."""
    try:
        with provider_errors():
            try:
                client.delete_volume(VolumeId=volume["VolumeId"])
            except ClientError as error:
                if code_of(error) != "InvalidVolume.NotFound":
                    raise
    except ProviderError as error:
        return f"{error.reason}: {error}"
    return None


def _shown(volume: "VolumeTypeDef") -> str:
    claim = ebs_tags.read(volume)[ebs_tags.CLAIM]
    return f"EBS volume {volume['VolumeId']}, made for PVC {claim}"
