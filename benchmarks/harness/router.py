"""A router that is measured."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from benchmarks.harness.processes import Environment, ServingProcess
from benchmarks.harness.stream import manifest_of
from benchmarks.harness.topics import ensure_topics
from benchmarks.harness.traffic import ID_HEADER
from dedupe_crds.manifest import load_manifest

UNKEYED_SPEC: Final = {"id": {"from": "Header", "name": ID_HEADER}}
"""Fields of a manifest for messages that are not keyed."""


class Router(ServingProcess):
    """The only router of a stream; `spec` are more fields of the manifest's spec.

    It must have `repartition`.
    """

    def __init__(
        self,
        home: Path,
        bootstrap_servers: str,
        input_topic: str,
        output_topic: str,
        spec: Mapping[str, object],
        *,
        environment: Environment = None,
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        manifest = home / "stream.yaml"
        manifest.write_text(manifest_of(bootstrap_servers, input_topic, output_topic, spec))
        stream = load_manifest(manifest)
        ensure_topics(stream, bootstrap_servers)
        self.group = stream.router_group
        arguments = ("--config", manifest, "--router", 0)
        super().__init__(
            "dedupe_router", *arguments, home=home, log="router.log", environment=environment
        )
