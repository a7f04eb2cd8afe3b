"""The stream of a benchmark of Spark's jobs: its topics exist already, and no worker runs."""

from dedupe_crds.manifest import parse_manifest
from dedupe_crds.spec.stream import DedupeStream


def stream_of(bootstrap_servers: str, raw: str, clean: str) -> DedupeStream:
    """Return a stream from one topic to another, whose ids are the keys."""
    document = {
        "apiVersion": "dedupestream.io/v1alpha1",
        "kind": "DedupeStream",
        "metadata": {"name": "measured"},
        "spec": {
            "kafka": {"bootstrapServers": bootstrap_servers},
            "input": {"topic": raw},
            "output": {"topic": clean},
            "id": {"from": "Key"},
        },
    }
    return parse_manifest(document, "the benchmark's manifest")
