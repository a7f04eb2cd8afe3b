"""The client library tells a lost tail by the text of an error only; a conformance script has the texts of a broker."""

import pytest
from confluent_kafka import KafkaError

from dedupe_kafka.fetch_errors import parting_of, truncated
from dedupe_kafka.offsets import LastRead

_LOST = (
    "Partition log truncation detected at offset 100 (leader epoch 2): broker end offset is {} (offset leader epoch "
    "{}). Reset to INVALID.: Local: Partition log truncation detected (broker 1)"
)


@pytest.mark.parametrize(
    ("code", "text", "parting"),
    [
        (KafkaError._AUTO_OFFSET_RESET, _LOST.format(60, 0), LastRead(60, 0)),  # noqa: SLF001 (a public name)
        (KafkaError._AUTO_OFFSET_RESET, _LOST.format(-1, -1), LastRead(0, -1)),  # noqa: SLF001
        (KafkaError.OFFSET_OUT_OF_RANGE, _LOST.format(60, 0), None),
        (
            KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001
            "fetch failed due to requested offset not available on the broker: Broker: Offset out of range (broker 1)",
            None,
        ),
    ],
)
def test_a_lost_tail_is_told_from_an_expired_offset(
    code: int, text: str, parting: LastRead | None
) -> None:
    assert parting_of(KafkaError(code, text)) == parting


def test_the_error_names_the_place_and_what_to_add_to_the_manifest() -> None:
    error = truncated(("raw", 3), 110, LastRead(100, 2), LastRead(60, 0))
    assert "raw/3 was read up to offset 110" in str(error)
    assert "{topic: raw, partition: 3, offset: 60, epoch: 2}" in str(error)
    assert (error.reason, error.retriable) == ("InputTruncated", True)
