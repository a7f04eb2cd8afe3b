"""A stream for a test: its topics and its manifest."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.support.checker import history
from tests.support.checker.record import Message, Record
from tests.support.traffic.traffic import produce

KEY = {"from": "Key"}


@dataclass(frozen=True, kw_only=True)
class TestStream:
    """A manifest on disk, and access to its two topics."""

    __test__ = False  # tells pytest that this is no test class

    name: str
    bootstrap_servers: str
    input_topic: str
    output_topic: str
    manifest: Path
    namespace: str = "default"

    @property
    def group(self) -> str:
        """Return the consumer group whose offsets the stream's workers commit."""
        return f"{self.namespace}.{self.name}"

    def send(self, messages: Iterable[Message]) -> None:
        """Send messages to the input, each to its own partition, and wait for them."""
        produce(self.bootstrap_servers, self.input_topic, messages)

    def raw(self) -> list[Record]:
        """Read the input topic as it is now."""
        return history.read_topic(self.bootstrap_servers, self.input_topic)

    def raws(self) -> dict[str, list[Record]]:
        """Read all inputs as they are now."""
        return {self.input_topic: self.raw()}

    def clean(self) -> list[Record]:
        """Read what is committed in the output topic now."""
        return history.read_topic(self.bootstrap_servers, self.output_topic)

    def committed(self) -> dict[int, int]:
        """Return the committed input offsets; see `history.committed_offsets`."""
        return history.committed_offsets(self.bootstrap_servers, self.group, self.input_topic)

    def settle(self) -> None:
        """Wait until all transactions that are open in the output now have ended."""
        history.wait_until_settled(self.bootstrap_servers, self.output_topic)

    def progress(self) -> dict[int, int]:
        """Return the committed input offsets while workers are busy.

        Further offsets may be in an open transaction.
        """
        return history.committed_offsets(
            self.bootstrap_servers, self.group, self.input_topic, settled=False
        )

    def ends(self) -> dict[int, int]:
        """Return the current end offsets of the input's partitions."""
        return history.end_offsets(self.bootstrap_servers, self.input_topic)


def stream_manifest(
    directory: Path, bootstrap_servers: str, input_topic: str, output_topic: str, **spec: object
) -> TestStream:
    """Write the manifest of a stream named after its input topic.

    `spec` replaces whole fields of the spec by their names in YAML, such as `mode="Observe"`,
    `id={"from": "Content"}` or `worker={"tuning": {"maxBatchRecords": 10}}`.
    """
    document = {
        "apiVersion": "dedupestream.io/v1alpha1",
        "kind": "DedupeStream",
        "metadata": {"name": input_topic},
        "spec": {
            "kafka": {"bootstrapServers": bootstrap_servers},
            "input": {"topic": input_topic},
            "output": {"topic": output_topic},
            "id": KEY,
            **spec,
        },
    }
    manifest = directory / f"{input_topic}.yaml"
    manifest.write_text(yaml.safe_dump(document))
    return TestStream(
        name=input_topic,
        bootstrap_servers=bootstrap_servers,
        input_topic=input_topic,
        output_topic=output_topic,
        manifest=manifest,
    )
