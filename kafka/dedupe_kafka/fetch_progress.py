"""Follow what a consumer has fetched, and notice if it fetches nothing more.

librdkafka may stop fetching a partition without an error after it had no leader for a moment (its issues 3396 and
4492); a new consumer fetches again. It also drops the records of aborted transactions without a word: through a long
stretch of them only its statistics show progress. The readers of worker, router and epoch log use this.
"""

import json
from collections.abc import Mapping
from typing import Final

from dedupe_kafka.errors import BrokerUnavailable
from dedupe_kafka.offsets import Place

STATISTICS_MS: Final = 5_000
"""The interval of the statistics that progress through aborted records needs."""
_UNKNOWN: Final = -1
# Several times as long as from one statistics to the next.
_STARVED_SECONDS: Final = 20.0


class FetchProgress:
    """The progress of each partition, and the time of reading since it last moved.

    It is the consumer's `stats_cb`, which the library calls during a read. Only the time counts in which its caller
    waited for records (`waited`), because a clock advances while the process is stopped or busy. Invariant: records
    before `next_offset` are dropped, delivered, or in the consumer's queue, because the library queues a response
    before it counts it.
    """

    def __init__(self, starved_seconds: float = _STARVED_SECONDS) -> None:
        self._longest_seconds = starved_seconds
        self._next_offsets: dict[Place, int] = {}
        self._seconds = 0.0
        self._moved: dict[Place, tuple[tuple[int, int], float]] = {}

    def __call__(self, statistics: str) -> None:
        """Take the library's statistics, which are JSON."""
        for topic, found in json.loads(statistics)["topics"].items():
            for number, partition in found["partitions"].items():
                self._next_offsets[topic, int(number)] = partition["next_offset"]

    def next_offset(self, place: Place) -> int:
        """Return the next offset to fetch, as of the last statistics; -1 before them."""
        return self._next_offsets.get(place, _UNKNOWN)

    def waited(self, seconds: float) -> None:
        """Count time in which the consumer was read."""
        self._seconds += seconds

    def follow(self, positions: Mapping[Place, int]) -> None:
        """Note which partitions have moved.

        `positions` has the next offset to read of each partition that is read. Others are forgotten: their time begins
        again.
        """
        before, self._moved = self._moved, {}
        for place, position in positions.items():
            at = position, self.next_offset(place)
            known, since = before.get(place, (at, self._seconds))
            self._moved[place] = at, since if known == at else self._seconds

    @property
    def starved(self) -> list[Place]:
        """Return the partitions that have not moved for long."""
        return [place for place in self._moved if self._is_starved(place)]

    def check(self, place: Place, position: int, end: int) -> None:
        """Compare with a partition's end as the cluster reports it.

        For a reader of committed records that is the last stable offset. Raises BrokerUnavailable when there was
        something to read for long, and nothing was fetched: neither records, nor aborted records, which the client
        drops.
        """
        if position >= end:
            self.begin_again(place)
        elif self._is_starved(place):
            raise BrokerUnavailable(
                f"nothing of {place[0]}/{place[1]} is fetched from offset {position} on, although it ends at {end}; "
                "connecting again"
            )

    def begin_again(self, place: Place) -> None:
        """Forget the time of a partition: after a seek, or as there is nothing to read."""
        self._moved.pop(place, None)

    def _is_starved(self, place: Place) -> bool:
        _, since = self._moved.get(place, (None, self._seconds))
        return self._seconds - since >= self._longest_seconds
