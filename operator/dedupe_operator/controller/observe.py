"""Read all objects of a stream from the API server.

The reconciler calls `observe` at the start of each pass.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from dedupe_crds.annotations import ROUTERS_OF, STREAM
from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.stream import StreamStatus
from dedupe_operator.decide.drift import has_wanted_hash
from dedupe_operator.decide.snapshot_policy import Snapshot
from dedupe_operator.kubernetes.api import KubernetesApi
from dedupe_operator.kubernetes.names import (
    OURS,
    Object,
    partition_name,
    partition_of,
    router_of,
    routers_name,
)
from dedupe_operator.kubernetes.resources import (
    BUDGETS,
    CLAIMS,
    CONFIG_MAPS,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    SNAPSHOTS,
    STATEFUL_SETS,
    Resource,
)
from dedupe_operator.resources import admin_secret
from dedupe_operator.snapshots.resource import read_snapshots

_ONE_BY_ONE: Final = 10
"""The most objects of a kind that a pass reads by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A stream's objects; those of partitions by partition number.

    `children` has all but pods, by (kind, name), for the comparison with the wanted objects. `strays` are pods that
    block the name of a partition's pod. `routers` are the pods of routers by their number.
    """

    children: Mapping[tuple[str, str], Object] = field(repr=False)  # with Secrets
    stateful_sets: Mapping[int, Object]
    pods: Mapping[int, Object]
    strays: Mapping[int, Object]
    claims: Mapping[int, list[Object]]
    admin_secret: Object | None = field(repr=False)
    kafka_secret: Object | None = field(repr=False)
    snapshots: Sequence[Snapshot]
    routers: Mapping[int, Object] = field(default_factory=dict)
    router_set: Object | None = None


def observe(
    api: KubernetesApi, stream: DedupeStream, recorded: StreamStatus, *, turn: int = 0
) -> Observed:
    """Read all objects of a stream. Raises KubernetesError.

    `turn` counts the passes. The number of requests does not grow with the number of partitions.
    """
    namespace, name = stream.metadata.namespace, stream.metadata.name
    labels = {**OURS, STREAM: name}
    listed: list[tuple[Resource, list[Object]]] = [
        (resource, api.find(resource, namespace, labels=labels))
        for resource in (
            SERVICE_ACCOUNTS,
            CONFIG_MAPS,
            BUDGETS,
            CLAIMS,
            SERVICES,
            STATEFUL_SETS,
        )
    ]
    found = dict(listed)
    # Secrets are read by name: RBAC does not allow the operator to list those of a namespace.
    admin = api.get(SECRETS, namespace, admin_secret.name(name))
    reference = stream.spec.kafka.config_secret_ref
    children = {
        (resource.kind, item["metadata"]["name"]): item
        for resource, items in listed
        for item in items
    }
    if admin is not None:
        children[SECRETS.kind, admin["metadata"]["name"]] = admin
    claims = _claims(api, namespace, found[CLAIMS], recorded)
    children |= {
        (CLAIMS.kind, claim["metadata"]["name"]): claim
        for of_partition in claims.values()
        for claim in of_partition
    }
    stateful_sets = _by_partition(found[STATEFUL_SETS], name)
    pods = worker_pods(api, namespace, name)
    return Observed(
        children=children,
        stateful_sets=stateful_sets,
        pods=pods,
        strays=_strays(api, stateful_sets, pods, turn),
        claims=claims,
        admin_secret=admin,
        kafka_secret=api.get(SECRETS, namespace, reference.name) if reference else None,
        # All of the namespace: snapshots that users create have no labels.
        snapshots=read_snapshots(api.find(SNAPSHOTS, namespace)),
        routers=_router_pods(api, stream),
        router_set=children.get((STATEFUL_SETS.kind, routers_name(name))),
    )


def worker_pods(api: KubernetesApi, namespace: str, stream: str) -> dict[int, Object]:
    """Return the pods of a stream's workers by partition. Raises KubernetesError."""
    pods = api.find(PODS, namespace, labels={**OURS, STREAM: stream})
    return _by_partition(pods, stream, suffix="-0")


def _router_pods(api: KubernetesApi, stream: DedupeStream) -> dict[int, Object]:
    """Return the pods of a stream's routers by number. Raises KubernetesError."""
    if stream.spec.repartition is None:
        return {}
    name = stream.metadata.name
    pods = api.find(PODS, stream.metadata.namespace, labels={**OURS, ROUTERS_OF: name})
    return {number: pod for pod in pods if (number := router_of(pod, name)) is not None}


def _claims(
    api: KubernetesApi, namespace: str, listed: list[Object], recorded: StreamStatus
) -> dict[int, list[Object]]:
    """Return each partition's claims: the recorded one, and those with its labels.

    A recorded claim counts even if its labels were changed.
    """
    recorded_for = {
        entry.persistent_volume_claim: entry.partition
        for entry in recorded.partitions
        if entry.persistent_volume_claim
    }
    claims: dict[int, list[Object]] = {}
    for claim in listed:
        partition = recorded_for.pop(claim["metadata"]["name"], partition_of(claim))
        if partition is not None:
            claims.setdefault(partition, []).append(claim)
    for name, found in _named(api, CLAIMS, namespace, recorded_for).items():
        if has_wanted_hash(found):
            claims.setdefault(recorded_for[name], []).append(found)
    return claims


def _named(
    api: KubernetesApi, resource: Resource, namespace: str, names: Collection[str]
) -> dict[str, Object]:
    """Return the objects that have these names: a few one by one, many by one list."""
    if len(names) <= _ONE_BY_ONE:
        objects = [each for name in names if (each := api.get(resource, namespace, name))]
    else:
        objects = api.find(resource, namespace)
    return {name: each for each in objects if (name := each["metadata"]["name"]) in names}


def _strays(
    api: KubernetesApi, stateful_sets: Mapping[int, Object], pods: Mapping[int, Object], turn: int
) -> dict[int, Object]:
    """Return pods with the name of a worker's pod but without its labels.

    Of many partitions without a pod each pass reads some, in turn: a list of all pods of the namespace may be long.
    """
    strays: dict[int, Object] = {}
    without = sorted(
        partition
        for partition, stateful_set in stateful_sets.items()
        if partition not in pods and stateful_set["spec"].get("replicas")
    )
    first = turn * _ONE_BY_ONE % len(without) if len(without) > _ONE_BY_ONE else 0
    for partition in without[first : first + _ONE_BY_ONE]:
        stateful_set = stateful_sets[partition]
        metadata, template = stateful_set["metadata"], stateful_set["spec"]["template"]
        pod = api.get(PODS, metadata["namespace"], f"{metadata['name']}-0")
        wanted = template["metadata"]["labels"]
        if pod and not wanted.items() <= (pod["metadata"].get("labels") or {}).items():
            strays[partition] = pod
    return strays


def _by_partition(items: list[Object], stream: str, *, suffix: str = "") -> dict[int, Object]:
    """Return one kind's objects by partition.

    A label alone may have been edited, so the name must match it.
    """
    numbered = ((partition_of(item), item) for item in items)
    return {
        partition: item
        for partition, item in numbered
        if partition is not None
        and item["metadata"]["name"] == partition_name(stream, partition) + suffix
    }
