"""What there is of a stream in the cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dedupe_crds.status import StreamStatus
from dedupe_crds.stream import DedupeStream
from dedupe_operator.children import admin_secret
from dedupe_operator.decide.drift import is_stamped
from dedupe_operator.kubernetes_api import (
    BUDGETS,
    CLAIMS,
    CONFIG_MAPS,
    EVENTS,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    KubernetesApi,
    Resource,
)
from dedupe_operator.labels import FIELD_MANAGER, MANAGED_BY, STREAM, Object, partition_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A stream's objects as the API server has them; those of partitions by their number.

    `children` has everything but pods by (kind, name), for comparison with what is wanted.
    """

    children: Mapping[tuple[str, str], Object] = field(repr=False)  # with Secrets
    stateful_sets: Mapping[int, Object]
    pods: Mapping[int, Object]
    claims: Mapping[int, list[Object]]
    admin_secret: Object | None = field(repr=False)
    kafka_secret: Object | None = field(repr=False)


def observe(api: KubernetesApi, stream: DedupeStream, recorded: StreamStatus) -> Observed:
    """Read all objects of a stream. Raises KubernetesError."""
    namespace, name = stream.metadata.namespace, stream.metadata.name
    selector = f"{MANAGED_BY}={FIELD_MANAGER},{STREAM}={name}"
    listed: list[tuple[Resource, list[Object]]] = [
        (resource, api.find(resource, namespace, labels=selector))
        for resource in (
            SERVICE_ACCOUNTS,
            CONFIG_MAPS,
            BUDGETS,
            CLAIMS,
            SERVICES,
            STATEFUL_SETS,
            PODS,
        )
    ]
    found = dict(listed)
    # Secrets are asked for by name: the operator has no right to list those of a namespace.
    admin = api.get(SECRETS, namespace, admin_secret.name(name))
    reference = stream.spec.kafka.config_secret_ref
    children = {
        (resource.kind, item["metadata"]["name"]): item
        for resource, items in listed
        if resource is not PODS
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
    return Observed(
        children=children,
        stateful_sets=_by_partition(found[STATEFUL_SETS]),
        pods=_by_partition(found[PODS]),
        claims=claims,
        admin_secret=admin,
        kafka_secret=api.get(SECRETS, namespace, reference.name) if reference else None,
    )


def _claims(
    api: KubernetesApi, namespace: str, listed: list[Object], recorded: StreamStatus
) -> dict[int, list[Object]]:
    """The claims of each partition: those with its labels, and the one on record without them."""
    claims: dict[int, list[Object]] = {}
    for claim in listed:
        if (partition := partition_of(claim)) is not None:
            claims.setdefault(partition, []).append(claim)
    names = {claim["metadata"]["name"] for claim in listed}
    for one in recorded.partitions:
        name = one.persistent_volume_claim
        if not name or name in names:
            continue
        if (found := api.get(CLAIMS, namespace, name)) and is_stamped(found):
            claims.setdefault(one.partition, []).append(found)
    return claims


def events_about(api: KubernetesApi, subject: Object | None) -> list[Object]:
    """The events about an object. Asked for in trouble only. Raises KubernetesError."""
    if subject is None:
        return []
    metadata = subject["metadata"]
    fields = f"involvedObject.uid={metadata['uid']}"
    return api.find(EVENTS, metadata["namespace"], fields=fields)


def _by_partition(items: list[Object]) -> dict[int, Object]:
    numbered = ((partition_of(item), item) for item in items)
    return {partition: item for partition, item in numbered if partition is not None}
