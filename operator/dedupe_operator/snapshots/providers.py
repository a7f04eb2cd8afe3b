"""The snapshot providers by their names in a manifest."""

from collections.abc import Mapping

from dedupe_crds.spec.snapshots import SnapshotProvider
from dedupe_operator.kubernetes.api import KubernetesApi
from dedupe_operator.snapshots.csi import CsiProvider
from dedupe_operator.snapshots.ebs.provider import EbsProvider
from dedupe_operator.snapshots.provider import Provider
from dedupe_operator.snapshots.s3 import S3Provider
from dedupe_operator.worker_client import WorkerClient


def all_providers(api: KubernetesApi, workers: WorkerClient) -> Mapping[SnapshotProvider, Provider]:
    """Return a provider of each kind."""
    return {
        SnapshotProvider.CSI: CsiProvider(api),
        SnapshotProvider.EBS: EbsProvider(api),
        SnapshotProvider.S3: S3Provider(workers),
    }
