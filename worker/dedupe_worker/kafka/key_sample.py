"""Sample the keys of the input, and which partitioners explain the partition.

Copies of an id are found only if they come to the same partition, which is up to the producers. The loop offers each
batch; `dedupe_kafka.partitioning` judges the samples of all partitions.
"""

from collections.abc import Sequence
from typing import Final

from confluent_kafka import Message

from dedupe_crds.clock import Clock
from dedupe_crds.status.key_sample import KeySample
from dedupe_kafka.partitioners import Partitioner, partitions_of

_EACH_SECONDS: Final = 0.5
_RECORDS: Final = 64
_FIRST_RECORDS: Final = 256
# From here on old records weigh less, so that a change of the producers shows within some hundred records.
_MOST_RECORDS: Final = 2_000


class KeyCounter:
    """Counts a sample of the records of one partition.

    The first records count, then some of each half second: that costs less than a thousandth of a core.
    """

    def __init__(self, partition: int, clock: Clock) -> None:
        self._partition = partition
        self._monotonic = clock.monotonic
        self._due = self._monotonic()
        self._sample = KeySample(partitions=0)

    @property
    def sample(self) -> KeySample | None:
        """Return the sample; None before the partition count is known."""
        return self._sample if self._sample.partitions else None

    def begin(self, partitions: int) -> None:
        """Begin again if the topic has another number of partitions now."""
        if partitions != self._sample.partitions:
            self._sample = KeySample(partitions=partitions)

    def offer(self, records: Sequence[Message]) -> None:
        """Add some of the records if it is time to."""
        if not self._sample.partitions:
            return
        few = self._sample.records < _FIRST_RECORDS
        now = self._monotonic()
        if few or now >= self._due:
            self._due = now + _EACH_SECONDS
            newest = records[-(_FIRST_RECORDS if few else _RECORDS) :]
            self._add([record.key() for record in newest])

    def _add(self, keys: Sequence[bytes | None]) -> None:
        before, partitions = self._sample, self._sample.partitions
        present = [key for key in keys if key is not None]
        share = 0.5 if before.records >= _MOST_RECORDS else 1.0
        fits = {
            str(each): int(before.fits.get(each, 0) * share)
            + int((partitions_of(present, partitions, each) == self._partition).sum())
            for each in Partitioner
        }
        self._sample = KeySample(
            partitions=partitions,
            records=int(before.records * share) + len(keys),
            without_key=int(before.without_key * share) + len(keys) - len(present),
            fits=fits,
        )
