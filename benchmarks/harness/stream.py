"""The stream of a benchmark, and its manifest."""

from collections.abc import Mapping
from typing import Any, Final, cast

import yaml

from dedupe_crds.manifest import parse_manifest
from dedupe_crds.spec.stream import DedupeStream

NAMESPACE: Final = "bench"


def stream_of(bootstrap_servers: str, input_topic: str, output_topic: str) -> DedupeStream:
    """Return a stream that no worker runs: its topics exist already."""
    document = _document(bootstrap_servers, input_topic, output_topic, {})
    return parse_manifest(document, "the benchmark's manifest")


def manifest_of(
    bootstrap_servers: str, input_topic: str, output_topic: str, spec: Mapping[str, object]
) -> str:
    """Return the manifest of a stream named after its output topic.

    `spec` may have more fields of its output.
    """
    return yaml.safe_dump(_document(bootstrap_servers, input_topic, output_topic, spec))


def _document(
    bootstrap_servers: str, input_topic: str, output_topic: str, spec: Mapping[str, object]
) -> dict[str, Any]:
    output = cast("dict[str, object]", spec.get("output", {}))
    return {
        "apiVersion": "dedupestream.io/v1alpha1",
        "kind": "DedupeStream",
        "metadata": {"name": output_topic, "namespace": NAMESPACE},
        "spec": {
            "kafka": {"bootstrapServers": bootstrap_servers},
            "input": {"topic": input_topic},
            "id": {"from": "Key"},
            **spec,
            "output": {"topic": output_topic, **output},
        },
    }
