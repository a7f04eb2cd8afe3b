"""Child objects of a stream: one pure builder a file, in the order applied.

`controller.apply` iterates over `SHARED`, over `ROUTERS`, then for each partition over `PER_PARTITION`. A builder
returns the fields that the operator owns, for server-side apply, and nothing else: fields that other controllers set
stay theirs. It returns None if the child is not wanted.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.copy_location import CopyLocation
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.resources import (
    admin_secret,
    config_map,
    persistent_volume_claim,
    pod_disruption_budget,
    pod_shape,
    router_disruption_budget,
    router_service,
    router_stateful_set,
    service,
    service_account,
    stateful_set,
)
from dedupe_operator.resources.config_map import Config
from dedupe_operator.resources.pod_template import WorkerRelease


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamInputs:
    """Values from which the children that all partitions share are built.

    `joining` is the number of workers that a growth has added, and that are not ready yet.
    """

    stream: DedupeStream
    release: WorkerRelease
    admin_token: str = field(repr=False)
    joining: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterInputs:
    """Values from which the children of the routers are built.

    `secrets_hash` is None if the Kafka credentials can't be read. `config` is the ConfigMap that its pods mount, None
    if it can't be made.
    """

    stream: DedupeStream
    release: WorkerRelease
    secrets_hash: str | None
    config: Config | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionInputs:
    """Values from which the children of one partition are built.

    `served` is the number of the stream's partitions. `live_claim` is the claim as it exists, `size` its bytes,
    `claim_source` the fields of its spec that name what it is created from. `secrets_hash` is None if the Kafka
    credentials can't be read. `config` is the ConfigMap that its pod mounts, None if it can't be made, and
    `restore_from` the snapshot that the worker downloads, and `restore_location` the bucket that it is in.
    """

    stream: DedupeStream
    partition: int
    served: int
    claim_name: str
    live_claim: Object | None
    size: int
    claim_source: Object
    release: WorkerRelease
    secrets_hash: str | None
    config: Config | None
    restore_from: str | None
    restore_location: CopyLocation | None = None
    restore_request: str | None = None


def _account(inputs: StreamInputs) -> Object:
    shape = pod_shape.merged(inputs.release.shape, inputs.stream.spec.worker)
    return service_account.build(inputs.stream, shape.get("imagePullSecrets", ()))


def _claim(inputs: PartitionInputs) -> Object:
    return persistent_volume_claim.build(
        inputs.stream,
        inputs.partition,
        served=inputs.served,
        name=inputs.claim_name,
        live=inputs.live_claim,
        size=inputs.size,
        made_from=inputs.claim_source,
        request=inputs.restore_request,
    )


def _router_set(inputs: RouterInputs) -> Object | None:
    if inputs.secrets_hash is None or inputs.config is None:
        return None
    return router_stateful_set.build(
        inputs.stream,
        config=inputs.config,
        release=inputs.release,
        secrets_hash=inputs.secrets_hash,
    )


def _stateful_set(inputs: PartitionInputs) -> Object | None:
    if inputs.secrets_hash is None or inputs.config is None:
        return None
    return stateful_set.build(
        inputs.stream,
        inputs.partition,
        claim=inputs.claim_name,
        release=inputs.release,
        secrets_hash=inputs.secrets_hash,
        config=inputs.config,
        restore_from=inputs.restore_from,
        restore_location=inputs.restore_location,
    )


# Pods run as the ServiceAccount and mount a ConfigMap and the Secret, so all of these exist before the first pod. So
# does the PodDisruptionBudget: no worker runs without its protection.
SHARED: Final[tuple[Callable[[StreamInputs], Object | None], ...]] = (
    _account,
    lambda inputs: config_map.build(inputs.stream),
    lambda inputs: config_map.build(inputs.stream, config_map.of_workers(inputs.stream).name),
    lambda inputs: (
        config_map.build(inputs.stream, config_map.of_routers(inputs.stream).name)
        if inputs.stream.spec.repartition
        else None
    ),
    lambda inputs: admin_secret.build(inputs.stream, inputs.admin_token),
    lambda inputs: pod_disruption_budget.build(inputs.stream, inputs.joining),
)

# Without spec.repartition each of them is None. The StatefulSet is last, as it starts pods.
ROUTERS: Final[tuple[Callable[[RouterInputs], Object | None], ...]] = (
    lambda inputs: router_disruption_budget.build(inputs.stream),
    lambda inputs: router_service.build(inputs.stream),
    _router_set,
)

# The claim comes first, because the pod mounts it, then the Service, which gives the pod its address. The StatefulSet
# is last: it starts the pod. It is applied only when the rollout (`decide.rollout`) allows a change of the partition.
PER_PARTITION: Final[tuple[Callable[[PartitionInputs], Object | None], ...]] = (
    _claim,
    lambda inputs: service.build(inputs.stream, inputs.partition),
    _stateful_set,
)
