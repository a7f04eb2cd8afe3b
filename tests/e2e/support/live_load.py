"""Messages that keep coming while something happens to a stream, and repeat those of each era before.

An era is the time between two events of a test, such as a snapshot and the loss of a volume: a store that forgot
what came in one of them passes its repeats on.
"""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from threading import Lock
from types import TracebackType
from typing import Final, Self

from tests.e2e.support.stream import ClusterStream
from tests.support.checker.checker import Verdict
from tests.support.checker.record import Message
from tests.support.patience import wait_for
from tests.support.traffic.traffic import START_MS, PacedProducer, order

REPEAT_RATE: Final = 0.4

_ENOUGH: Final = 40
_SECONDS: Final = 60.0
_PER_ERA: Final = 2_000


@dataclass(slots=True)
class _Era:
    """The orders `first` to `end`, that one excluded, were first sent in it."""

    name: str
    first: int
    end: int


class LiveLoad:
    """Sends to a stream while its block lasts; leaving the block waits until all is delivered.

    REPEAT_RATE of the messages repeat an order of one of the eras so far, each era as often as any other.
    """

    def __init__(
        self,
        stream: ClusterStream,
        seed: int,
        *,
        messages_per_second: float = 150.0,
        era: str = "before",
    ) -> None:
        self._stream = stream
        self._seed = seed
        self._rng = random.Random(seed)
        self._lock = Lock()
        self._eras = [_Era(era, 0, 0)]
        self._sent: Counter[str] = Counter()
        self._repeated: Counter[tuple[str, str]] = Counter()
        self._producer = PacedProducer(
            stream.bootstrap_servers,
            stream.input_topic,
            self._messages(),
            messages_per_second=messages_per_second,
        )

    # -- eras --------------------------------------------------------------------------------------

    def begin(self, era: str) -> None:
        """Begin another era, once the one before has enough messages to be missed."""
        self.wait_until_filled()
        with self._lock:
            end = self._eras[-1].end
            self._eras.append(_Era(era, end, end))

    def wait_until_filled(self) -> None:
        """Wait until this era has enough first messages, and enough repeats of each era before it."""
        now = self._eras[-1].name
        asked = [(now, before.name) for before in self._eras]

        def filled() -> bool:
            with self._lock:
                counts = [self._sent[now], *(self._repeated[pair] for pair in asked)]
            return min(counts) >= _ENOUGH

        wait_for(filled, f"era {now!r} has its messages", deadline_seconds=_SECONDS)

    @property
    def delivered(self) -> int:
        """How many messages Kafka has taken so far."""
        return self._producer.delivered

    # -- the end -----------------------------------------------------------------------------------

    def judged(self) -> Verdict:
        """After the block: repeat orders of every era once more, and assert that each passed exactly once."""
        self._stream.send(self._once_more())
        return self._stream.judged()

    def __enter__(self) -> Self:
        self._producer.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._producer.__exit__(kind, error, traceback)
        if kind is None:
            self._producer.finish(deadline_seconds=1)

    # -- messages ----------------------------------------------------------------------------------

    def _messages(self) -> Iterator[Message]:
        position = 0
        while True:
            with self._lock:
                number, attempt = self._next()
            yield replace(self._order(number, attempt), timestamp_ms=START_MS + position)
            position += 1

    def _next(self) -> tuple[int, int]:
        era = self._eras[-1]
        if era.end > era.first and self._rng.random() < REPEAT_RATE:
            repeated = self._rng.choice(self._eras)
            self._repeated[era.name, repeated.name] += 1
            return self._rng.randrange(repeated.first, repeated.end), self._rng.randrange(2)
        era.end += 1
        self._sent[era.name] += 1
        return era.end - 1, 0

    def _once_more(self) -> Iterator[Message]:
        for era in self._eras:
            numbers = range(era.first, era.end)
            for number in self._rng.sample(numbers, min(len(numbers), _PER_ERA)):
                yield self._order(number, 1)

    def _order(self, number: int, attempt: int) -> Message:
        return order(self._seed, number, attempt=attempt, partitions=self._stream.partitions)
