"""The settings of one router process, from its manifest and options."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dedupe_crds.manifest import ManifestError, load_manifest
from dedupe_crds.spec.repartition import Repartition
from dedupe_crds.spec.stream import DedupeStream
from dedupe_kafka.client import read_properties
from dedupe_kafka.errors import InvalidConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterConfig:
    """The stream, the number of this router, and the user's client properties."""

    stream: DedupeStream
    router: int
    repartition: Repartition
    properties: Mapping[str, str]

    @property
    def servers(self) -> str:
        """Return the bootstrap brokers."""
        return self.stream.spec.kafka.bootstrap_servers

    @property
    def transactional_id(self) -> str:
        """Return the id by which a newer process of this router fences an older one."""
        return f"{self.stream.consumer_group}.router.{self.router}"


def load_config(*, manifest: Path, router: int, kafka_properties: Path | None) -> RouterConfig:
    """Read and check the settings. Raises InvalidConfig."""
    try:
        stream = load_manifest(manifest)
    except ManifestError as error:
        raise InvalidConfig(str(error)) from error
    if stream.spec.repartition is None:
        raise InvalidConfig(f"{stream.shown} has no spec.repartition: it needs no routers")
    return RouterConfig(
        stream=stream,
        router=router,
        repartition=stream.spec.repartition,
        properties=read_properties(kafka_properties),
    )
