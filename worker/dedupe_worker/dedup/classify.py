"""From a batch of records to a verdict on each: their ids, what the window knows of them, what the stream wants done.

What is late must not be admitted where it is routed away: an id is in the window only if its record is in the output.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from confluent_kafka import Message

from dedupe_ids.extract import ID_BYTES, Extractor
from dedupe_worker.dedup.judge import Mask, Policy, Rows, Verdict, judge, judge_late, late_before
from dedupe_worker.dedup.redelivery import InDoubt
from dedupe_worker.dedup.window import Window
from dedupe_worker.kafka.consumer import timestamps
from dedupe_worker.values import Offsets, Owners, Times, came_after, encode_owners


@dataclass(frozen=True, slots=True)
class Identified:
    """A batch of n records of which m have an id: `rows` (m,) of them in the batch, `packed` 16 m bytes, `values` (m,)
    what to remember of each; `offsets` (n,) in the input and `times` (n,), Unix milliseconds."""

    rows: Rows
    packed: bytes
    values: Owners
    offsets: Offsets
    times: Times

    @property
    def newest_ms(self) -> int:
        """The newest timestamp."""
        return int(self.times.max(initial=0))


class Admission:
    """One partition's. Ids that `decide` finds new are in the window's open transaction from then on."""

    def __init__(
        self,
        policy: Policy,
        *,
        partition: int,
        window: Window,
        extract: Extractor,
        in_doubt: InDoubt | None = None,
    ) -> None:
        self._policy = policy
        self._partition = partition
        self._window = window
        self._extract = extract
        self._layout = policy.layout
        self._in_doubt = in_doubt or InDoubt()

    def identify(self, records: list[Message]) -> Identified:
        """Take the ids of a batch."""
        ids = self._extract(records)
        offsets = np.fromiter(map(Message.offset, records), np.uint64, len(records))
        owners = encode_owners(self._partition, offsets[ids.rows])
        times = timestamps(records)
        values = self._layout.encode(owners, records, ids.rows, times)
        return Identified(ids.rows, ids.packed, values, offsets, times)

    def decide(self, records: Sequence[Message], batch: Identified, now_ms: int) -> Verdict:
        """What becomes of each record. `now_ms` is the time, Unix milliseconds."""
        bound = late_before(self._policy, self._window.store.forgotten_ms, now_ms)
        times = batch.times[batch.rows]
        late = (times < bound) & (times > 0)  # one without a timestamp is of no known age
        if self._policy.routes_late and late.any():
            repeats = self._admit_in_time(batch, late)
        else:
            repeats = self._window.admit(batch.packed, batch.values)
        if late.any():
            late[list(repeats)] = False  # what is remembered of a record is not in doubt
        again = self._in_doubt.take(batch.packed, [*repeats], int(batch.offsets[0]))
        for at in again:
            del repeats[at]
        verdict = judge(self._policy, records, batch.rows, batch.values, repeats)
        verdict.passed[batch.rows[again]] = False
        verdict.redelivered += len(again)
        if late.any():
            values = dict(zip(batch.rows[late].tolist(), batch.values[late].tolist(), strict=True))
            judge_late(self._policy, records, values, bound, verdict)
        return verdict

    def _admit_in_time(self, batch: Identified, late: Mask) -> dict[int, bytes]:
        """Admit what is not late, and find what of the rest repeats an id that is remembered.

        A copy behind it in the batch is not what a record repeats.
        """
        ids = np.frombuffer(batch.packed, np.dtype(f"V{ID_BYTES}"))
        in_time = np.flatnonzero(~late)
        admitted = self._window.admit(ids[in_time].tobytes(), batch.values[in_time])
        repeats = {int(in_time[at]): value for at, value in admitted.items()}
        behind = np.flatnonzero(late)
        known = self._window.find(ids[behind].tobytes())
        repeats.update(
            (int(behind[at]), value)
            for at, value in known.items()
            if not came_after(value, batch.values[behind[at]].tobytes())
        )
        return repeats
