"""Configuration of the operator, built once from the command line."""

from dataclasses import dataclass
from typing import Final

from dedupe_operator.decide.allow_list import AllowList
from dedupe_operator.resources.pod_template import WorkerRelease

LEASE_SECONDS: Final = 15
MEMORY_BYTES: Final = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorConfig:
    """Options of one operator process.

    `namespaces` are the watched ones, all if empty. Without `cluster_scope` the operator uses no object that belongs to
    no namespace. While more than `max_nodes_not_ready_percent` of the nodes are not ready, no worker fails over.
    `allowed` is what streams may use. `identity` is the name of this replica in the Lease, which is valid for
    `lease_seconds` after a renewal. Connections to Kafka take at most half of `memory_bytes`.
    """

    release: WorkerRelease
    namespaces: tuple[str, ...]
    max_nodes_not_ready_percent: int
    http_host: str
    http_port: int
    lease_namespace: str
    lease_name: str
    identity: str
    lease_seconds: int = LEASE_SECONDS
    memory_bytes: int = MEMORY_BYTES
    failover: bool = True
    cluster_scope: bool = True
    allowed: AllowList = AllowList()  # noqa: RUF009 (it is frozen)
