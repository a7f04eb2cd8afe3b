"""Notice an open transaction in the input, which hides all after it.

The worker's check of its topics calls it. A producer that works in transactions holds the input back for moments,
each time at another offset. An input that is held back at one offset for long waits for that producer, or for an
operator of Kafka who ends the transaction.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from dedupe_crds.clock import Clock
from dedupe_kafka.open_transaction import open_transaction
from dedupe_worker.kafka.source import Source
from dedupe_worker.status import Degraded, WorkerState

_TOLD_AFTER_SECONDS: Final = 60.0


@dataclass(slots=True)
class HeldInput:
    """The last stable offset of an input partition, if the worker waits at it."""

    reader: Source
    partition: int
    servers: str
    worker_state: WorkerState
    clock: Clock
    _stable: int = -1
    _since: datetime | None = None
    _began: float = 0.0

    def check(self, stable: int) -> None:
        """Report what is held back for a minute, and later that it no longer is.

        `stable` is the last stable offset of the partition.
        """
        end = self.reader.end_offset() or 0
        held = end > stable and self.reader.next_offset >= stable
        if not held or stable != self._stable or self._since is None:
            self.worker_state.degradations.clear(Degraded.OPEN_TRANSACTION)
            self._stable = stable
            self._since, self._began = self.clock.now() if held else None, self.clock.monotonic()
        elif self.clock.monotonic() - self._began >= _TOLD_AFTER_SECONDS:
            why = open_transaction(self.reader.topic, self.partition, stable, end, self.servers)
            self.worker_state.degradations.hold(
                Degraded.OPEN_TRANSACTION, f"since {self._since:%Y-%m-%d %H:%M} UTC: {why}"
            )
