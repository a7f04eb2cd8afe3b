"""Name the errors that a consumer returns in place of records."""

import re
from typing import Final

from confluent_kafka import KafkaError, Message

from dedupe_kafka.client import kafka_error
from dedupe_kafka.errors import RecordCorrupt, StreamError
from dedupe_kafka.offsets import LastRead, Place

# Of a checksum that does not match, and of what the client or the broker cannot parse.
_CORRUPT: Final = frozenset(
    {
        KafkaError._BAD_MSG,  # noqa: SLF001 (confluent-kafka's public names of local errors begin with _)
        KafkaError._BAD_COMPRESSION,  # noqa: SLF001
        KafkaError._NOT_IMPLEMENTED,  # noqa: SLF001
        KafkaError.INVALID_MSG,
    }
)

# The code is that of an offset that does not exist; only the text tells a lost tail, and where the logs part.
_TRUNCATED: Final = KafkaError(KafkaError._LOG_TRUNCATION).str()  # noqa: SLF001 (a public name)
_PARTING: Final = re.compile(r"broker end offset is (-?\d+) \(offset leader epoch (-?\d+)\)")


class InputTruncated(StreamError):
    """The input has lost records that were read, and may have others in their place.

    `parting` is the offset from which on it is another log, and the epoch of the record before; None if not known.
    """

    retriable = True

    def __init__(self, message: str, parting: LastRead | None = None) -> None:
        super().__init__(message)
        self.parting = parting


def parting_of(error: KafkaError) -> LastRead | None:
    """Return where a partition parts from what was read; None for another error.

    The client library asks the leader when a consumer seeks with an epoch, and when the leader's epoch rises. The end
    is 0 if the partition has no record of the epoch or of one before.
    """
    text = error.str()
    if error.code() != KafkaError._AUTO_OFFSET_RESET or _TRUNCATED not in text:  # noqa: SLF001 (a public name)
        return None
    found = _PARTING.search(text)
    return LastRead(max(0, int(found[1])), int(found[2])) if found else None


def truncated(place: Place, read_to: int, read: LastRead, parting: LastRead) -> InputTruncated:
    """Return the named error of a partition that parts from the log that was read."""
    topic, partition = place
    return InputTruncated(
        f"{topic}/{partition} was read up to offset {read_to}, and has other records, or none, from offset "
        f"{parting.end} on: the brokers have lost what was there. The partition waits. Bring these records back, or "
        f"continue from offset {parting.end} by adding to spec.input.acceptTruncated: {{topic: {topic}, "
        f"partition: {partition}, offset: {parting.end}, epoch: {read.epoch}}}",
        parting,
    )


def before_corrupt(messages: list[Message]) -> tuple[list[Message], RecordCorrupt | None]:
    """Return the messages before the first error of a corrupt batch, and that error.

    All messages and None if there is no such error. Messages after one are never used: the client library loses its
    place in a corrupt batch, and takes other bytes of it for records.
    """
    for row, message in enumerate(messages):
        error = message.error()
        if error is not None and isinstance(named := fetch_error(message, error), RecordCorrupt):
            return messages[:row], named
    return messages, None


def fetch_error(message: Message, error: KafkaError) -> StreamError:
    """Return the named error of a message in place of records.

    RecordCorrupt names the first offset of the batch, which may be before the first one that was asked for.
    """
    where = f"{message.topic()}/{message.partition()}"
    if error.code() not in _CORRUPT:
        return kafka_error(error, f"reading {where}")
    named = RecordCorrupt(
        f"the batch of records at offset {message.offset()} of {where} is damaged on the broker's disk or on the way: "
        f"{error.str()}. No record is skipped, so this partition waits; repair the replica from another one, or, if "
        "none is whole, move on behind the batch (docs/operations.md)"
    )
    named.kafka_code = error.code()
    return named


def before_corrupt_of_each(
    messages: list[Message],
) -> tuple[list[Message], dict[Place, RecordCorrupt]]:
    """Return what stands before each partition's first corrupt batch, and its error."""
    kept: list[Message] = []
    corrupt: dict[Place, RecordCorrupt] = {}
    for message in messages:
        place = message.topic() or "", message.partition() or 0
        if place in corrupt:
            continue
        _, error = before_corrupt([message])
        if error is None:
            kept.append(message)
        else:
            corrupt[place] = error
    return kept, corrupt
