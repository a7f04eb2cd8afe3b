"""What must stay the same of a stream while its workers come and go."""

from dataclasses import dataclass

from tests.e2e.support.stream import ClusterStream


@dataclass(frozen=True, kw_only=True)
class Identity:
    """A partition: its number in both topics, and the volume with its store."""

    partition: int
    input_topic: str
    output_topic: str
    claim: str
    claim_uid: str
    volume: str


def identities(stream: ClusterStream) -> list[Identity]:
    """Each partition as its worker, its claim and the stream's status say; all must be ready."""
    claims = {
        claim["metadata"]["name"]: claim for claim in stream.children("persistentvolumeclaims")
    }
    found = []
    for told in stream.status().partitions:
        worker = stream.worker_status(told.partition)
        claim = claims[told.persistent_volume_claim or ""]
        found.append(
            Identity(
                partition=worker.partition,
                input_topic=worker.input.topic,
                output_topic=worker.output.topic,
                claim=claim["metadata"]["name"],
                claim_uid=claim["metadata"]["uid"],
                volume=claim["spec"]["volumeName"],
            )
        )
    assert [one.partition for one in found] == list(range(stream.partitions))
    return found
