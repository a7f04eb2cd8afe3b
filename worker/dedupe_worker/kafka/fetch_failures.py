"""Notice that a fetch of a consumer may have failed.

The client library is silent about failed fetches, and they may mean that the topic is another one now.
`PartitionReader` asks here.
"""

from collections.abc import Callable
from typing import Final

from confluent_kafka import Message

LOOK_SECONDS: Final = 0.25
"""The longest wait between two calls of `FetchFailures.look`."""
# Below the time that the library waits after a failed fetch, half a second (`fetch.error.backoff.ms`).
_LONGEST_UNSEEN_SECONDS: Final = 0.4


class FetchFailures:
    """Tells whether a fetch may have failed before the records that are read next.

    A fetch names the topic by its UUID (from Kafka 3.1 on), so the first one after the topic was created again fails.
    The library then forgets the watermarks, waits, and continues at the same offset of the new topic. While they are
    unknown it delivers only what it fetched before. Invariant: a failure is seen, because `look` is called more often
    than the library waits, and a longer time between two looks counts as one.
    """

    def __init__(self, fetches: Callable[[], bool], monotonic: Callable[[], float]) -> None:
        self._fetches = fetches
        self._monotonic = monotonic
        self._looked = monotonic()
        self._failed = True

    def look(self) -> None:
        """Look whether the watermarks are known, which the last fetch has shown."""
        now = self._monotonic()
        if now - self._looked > _LONGEST_UNSEEN_SECONDS or not self._fetches():
            self._failed = True
        self._looked = now

    def watched(
        self, consume: Callable[[int, float], list[Message]], at_most: int, wait_seconds: float
    ) -> list[Message]:
        """Consume as long as that takes, and look meanwhile."""
        found = consume(at_most, min(wait_seconds, LOOK_SECONDS))
        while wait_seconds > LOOK_SECONDS and len(found) < at_most:
            self.look()
            wait_seconds -= LOOK_SECONDS
            found += consume(at_most - len(found), min(wait_seconds, LOOK_SECONDS))
        return found

    def before_these(self) -> bool:
        """Return whether records that were just read may have come after a failure.

        Once they are checked, the next ones need not be.
        """
        unseen = self._monotonic() - self._looked > _LONGEST_UNSEEN_SECONDS
        self.look()
        fetches = self._fetches()
        failed = self._failed and (fetches or unseen)
        self._failed = self._failed and not fetches
        return failed
