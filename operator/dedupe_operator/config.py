"""How an operator is set up: given once on the command line, and passed down."""

from dataclasses import dataclass

from dedupe_operator.resources.pod_template import WorkerRelease


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorConfig:
    """`namespaces` are those to look after, all if empty. `identity` tells replicas apart."""

    release: WorkerRelease
    namespaces: tuple[str, ...]
    http_host: str
    http_port: int
    lease_namespace: str
    lease_name: str
    identity: str
