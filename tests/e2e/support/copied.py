"""Streams with snapshots: small ones, of each provider that a test cluster has."""

from typing import Any, Final

from tests.cluster.environment import Environment
from tests.e2e.support.s3_server import S3Server
from tests.e2e.support.scene import Scene
from tests.e2e.support.stream import ClusterStream

PROVIDERS: Final = ("CSI", "S3")

# A volume has room for the window, and for a checkpoint beside it.
_ROOM: Final = {"window": {"maxBytes": "48Mi"}}


def bucket_server(cluster: Environment) -> S3Server:
    """A server of buckets that pods reach, on the address by which they reach Kafka."""
    host, _, _ = cluster.kafka_bootstrap_in_cluster.rpartition(":")
    return S3Server(host)


def copied_stream(
    scene: Scene,
    title: str,
    *,
    bucket: S3Server | None = None,
    snapshots: dict[str, Any] | None = None,
    s3: dict[str, Any] | None = None,
    **spec: Any,  # noqa: ANN401 # any field of a spec
) -> ClusterStream:
    """A stream whose snapshots are kept by the driver, or with `bucket` in that; not applied yet.

    `snapshots` and `s3` are fields beside.
    """
    kept: dict[str, Any] = {"provider": "CSI", **(snapshots or {})}
    if bucket is not None:
        bucket.write_credentials(scene.kubectl)
        kept |= {"provider": "S3", "s3": bucket.spec(**(s3 or {}))}
    return scene.stream(title, store=_ROOM, snapshots=kept, **spec)
