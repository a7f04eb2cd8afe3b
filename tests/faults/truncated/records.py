"""The records of these tests, and what a person accepts."""

from collections import Counter

import yaml

from tests.support.checker.record import Message
from tests.support.traffic.streams import TestStream


def messages(count: int, first: int, partition: int = 0) -> list[Message]:
    """Return messages whose ids are numbers, from `first` on."""
    numbers = range(first, first + count)
    return [Message(partition, b"%d" % n, b"amount-%d" % n) for n in numbers]


def passed(stream: TestStream) -> Counter[bytes | None]:
    """Count the ids in the output."""
    return Counter(record.key for record in stream.clean())


def accept(stream: TestStream, end: str, truncated: dict[str, object]) -> None:
    """Write an accepted loss, the only one, into the manifest: end is `input` or `output`."""
    document = yaml.safe_load(stream.manifest.read_text())
    document["spec"][end]["acceptTruncated"] = [truncated]
    stream.manifest.write_text(yaml.safe_dump(document))
