"""Notice open transactions in the inputs, which hide all after them.

The loop calls it every second. A producer that works in transactions holds an input back for moments, each time at
another offset. An input that is held back at one offset for long waits for that producer, or for an operator of Kafka
who ends the transaction.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from confluent_kafka import IsolationLevel

from dedupe_crds.clock import Clock
from dedupe_crds.formatting import listed
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import StreamError
from dedupe_kafka.offsets import Place
from dedupe_kafka.open_transaction import open_transaction
from dedupe_router.state import RouterState

_REASON: Final = "OpenTransaction"
_TOLD_AFTER_SECONDS: Final = 60.0
_ASK_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class _Standing:
    """A partition that is not at its end, and does not move."""

    offset: int
    began: float
    since: datetime


@dataclass(slots=True)
class HeldInputs:
    """The partitions of this router that stand still before their end."""

    cluster: Cluster
    servers: str
    state: RouterState
    clock: Clock
    _standing: dict[Place, _Standing] = field(default_factory=dict)
    _ask_at: float = 0.0

    def check(self, behind: Mapping[Place, int]) -> None:
        """Report what is held back for a minute, and later that it no longer is.

        `behind`: the next offset of each partition that is not at its end.
        """
        now, since = self.clock.monotonic(), self.clock.now()
        before = self._standing
        self._standing = {}
        for place, offset in behind.items():
            known = before.get(place)
            stands = known is not None and known.offset == offset
            self._standing[place] = known if known and stands else _Standing(offset, now, since)
        long = {
            place: each
            for place, each in self._standing.items()
            if now - each.began >= _TOLD_AFTER_SECONDS
        }
        if not long:
            self.state.warn(_REASON, "")
        elif now >= self._ask_at:
            self._ask_at = now + _ASK_SECONDS
            with suppress(
                StreamError
            ):  # asked again; what keeps the answer away is named by the watch
                self.state.warn(_REASON, listed(self._reasons(long)))

    def _reasons(self, long: Mapping[Place, _Standing]) -> list[str]:
        """Return a sentence for each partition that a transaction holds back."""
        reasons = []
        for topic in sorted({topic for topic, _ in long}):
            numbers = {number for name, number in long if name == topic}
            stable = self.cluster.offsets_of(topic, numbers).ends
            ends = self.cluster.offsets_of(topic, numbers, IsolationLevel.READ_UNCOMMITTED).ends
            for number in sorted(stable.keys() & ends.keys()):
                each = long[topic, number]
                if each.offset >= stable[number] < ends[number]:
                    why = open_transaction(
                        topic, number, stable[number], ends[number], self.servers
                    )
                    reasons.append(f"since {each.since:%Y-%m-%d %H:%M} UTC: {why}")
        return reasons
