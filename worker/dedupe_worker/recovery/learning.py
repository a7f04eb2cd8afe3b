"""Learn the ids that are this partition's from the outputs of older ones.

`Startup` calls it at the start of a partition that a growth has added, before the catch-up with the own output, whose
records are newer. The worker reads the old outputs, keeps the ids that its partition gets, and follows them until
the growth's cuts are in the epoch log: no record of such an id is in an old output after its cut. Only then does the
loop begin. Invariants:
  - The store says up to where it has learnt, in the same write as the ids. So whatever becomes of the volume, the
    worker reads what its store lacks, and nothing that it has.
  - Of several records of an id in an old output the newest counts: its partition had forgotten the id before. Of
    several old outputs it is that of the youngest partition.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import groupby
from threading import Event
from typing import Final

import structlog

from dedupe_crds.spec.repartition import Repartition
from dedupe_crds.status.worker import Phase
from dedupe_growth.epochs import Epochs
from dedupe_growth.log import EpochReader
from dedupe_growth.unlearnt import LEARNING
from dedupe_ids.extract import Extractor
from dedupe_ids.route import Route
from dedupe_kafka.offsets import OffsetRange
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.dedup.window import Window
from dedupe_worker.kafka.output_reader import OutputReader, Run
from dedupe_worker.recovery.hand_over import check_handed_over
from dedupe_worker.recovery.input_offset import InputStart
from dedupe_worker.recovery.learnt_ids import open_outputs, own_rows, readable_cuts
from dedupe_worker.recovery.output_values import ValuesOfOutputs
from dedupe_worker.recovery.taken_over import TakenOver
from dedupe_worker.status import Progress, show_progress
from dedupe_worker.store.metadata import LastRecords
from dedupe_worker.store.offset_ranges import decode_ranges
from dedupe_worker.values import timestamps

REASON: Final = LEARNING
"""The reason of the range that is read, in the worker's status."""

_WRITE_RECORDS: Final = 100_000
_WRITE_SECONDS: Final = 5.0
_CHECK_SECONDS: Final = 10.0

log = structlog.get_logger()


@dataclass(slots=True)
class _Unwritten:
    """Records read since the last write, and their newest timestamp."""

    records: int = 0
    newest_ms: int = 0


@dataclass(slots=True)
class Learning:
    """Learns for one session. `epochs` is at the end of the epoch log."""

    factory: ComponentFactory
    partition: TakenOver
    repartition: Repartition
    epochs: EpochReader
    extract: Extractor
    stop: Event
    _unwritten: _Unwritten = field(default_factory=_Unwritten)
    _records: int = 0
    _written_at: float = 0.0
    _check_at: float = 0.0

    @property
    def needed(self) -> bool:
        """Return whether there are older partitions whose ids may be this one's now."""
        return self._epoch > 0 and bool(self._sources)

    @property
    def _sources(self) -> list[int]:
        return self.epochs.epochs.sources(self.factory.config.partition)

    @property
    def _epoch(self) -> int:
        return self.epochs.epochs.born(self.factory.config.partition)

    def run(self, window: Window, start: InputStart, *, output_position: int) -> None:
        """Add the ids up to the cuts to the window; `start` is of the input.

        Returns early when `stop` is set. Raises StreamError.
        """
        factory, epoch = self.factory, self._epoch
        epochs = self.epochs.epochs
        factory.worker_state.set_phase(Phase.RECONCILING)
        write = self._writing(window, output_position, start)
        with ExitStack() as readers:
            reader = readers.enter_context(closing(open_outputs(factory, self.partition)))
            values = ValuesOfOutputs(factory, self.partition, window, readers)
            there = {each: self._offsets(each) for each in self._sources}
            ends = {each: offsets.end for each, offsets in there.items()}
            reader.seek(self._starts(window, there), ends, self._by_age())
            keep = self._route(epochs)
            log.info("learning ids of older partitions", epoch=epoch, of=len(reader.positions))
            began = self._written_at = factory.clock.monotonic()
            self._check_at = began + _CHECK_SECONDS
            cuts: Mapping[int, int] = {}
            while not (self.stop.is_set() or reader.at_ends):
                if not cuts and (cuts := self.epochs.poll().cuts.get(epoch, {})):
                    ends = {each: cuts[each] for each in self._sources}
                    reader.stop_at(self._readable(ends, window))
                self._check_if_due(cuts)
                for run in reader.read():
                    self._learn(run, window, values, keep)
                self._write_if_due(window, reader, write)
                self._show(reader, began)
            self._write(window, reader, write)
            self._show(reader, began)
        if not self.stop.is_set():
            window.store.flush()
            log.info("learnt ids of older partitions", records=self._records)

    def _check_if_due(self, cuts: Mapping[int, int]) -> None:
        """Raise HandOverLost if the cuts will not come.

        Without the offset that this worker has handed over, the controller waits for it.
        """
        direct, now = self.epochs.epochs.direct, self.factory.clock.monotonic()
        if cuts or direct is None or self._epoch > direct.epoch + 1 or now < self._check_at:
            return
        self._check_at = now + _CHECK_SECONDS
        check_handed_over(self.factory, direct)

    # -- what is read ----------------------------------------------------------------------------

    def _offsets(self, source: int) -> OffsetRange:
        return self.partition.topics.offsets(self.partition.output_topic.name, source)

    def _by_age(self) -> list[list[int]]:
        """Return the old partitions in groups, those that came first before the others.

        An id moves to added partitions only. So what an earlier group has of it is older.
        """
        born = self.epochs.epochs.born
        return [list(group) for _, group in groupby(self._sources, key=born)]

    def _starts(self, window: Window, there: Mapping[int, OffsetRange]) -> dict[int, int]:
        """Return where to read each old output; mark a window that will be shorter."""
        name, learnt = self.partition.output_topic.name, window.store.learnt.of(self._epoch)
        oldest = self.factory.clock.now() - self.factory.config.stream.spec.store.window.max_age
        starts: dict[int, int] = {}
        for number, offsets in there.items():
            wanted = learnt.get(number, 0)
            starts[number] = max(wanted, offsets.low)
            if wanted >= offsets.low:
                continue
            since = self.partition.topics.offset_at(name, number, oldest)
            if since is None or since <= offsets.low:
                window.store.mark_truncated()
        return starts

    def _readable(self, cuts: Mapping[int, int], window: Window) -> dict[int, int]:
        """Return where to stop in each old output; mark a window that will be shorter."""
        readable = readable_cuts(self.partition, cuts)
        if readable != cuts:
            log.warning("old outputs end before their cuts", cuts=cuts, ends=readable)
            window.store.mark_truncated()
        return readable

    def _route(self, epochs: Epochs) -> Route:
        spec, count = self.factory.config.stream.spec, epochs.partitions[self._epoch]
        return Route(spec, self.repartition.by, count)

    def _learn(self, run: Run, window: Window, values: ValuesOfOutputs, route: Route) -> None:
        self._records += len(run.records)
        self._unwritten.records += len(run.records)
        ids, times = self.extract(run.records), timestamps(run.records)
        self._unwritten.newest_ms = max(self._unwritten.newest_ms, int(times.max(initial=0)))
        mine, packed = own_rows(route, run.records, ids, self.factory.config.partition)
        if not packed:
            return
        found = values.of(run.partition, run.records, ids.rows, times)[mine]
        window.learn(packed, found)

    # -- what is written -------------------------------------------------------------------------

    def _writing(
        self, window: Window, output_position: int, start: InputStart
    ) -> Callable[[Mapping[int, int]], None]:
        def write(positions: Mapping[int, int]) -> None:
            now_ms, metadata = self.factory.clock.time_ms(), window.store.metadata
            window.store.learnt.advance(self._epoch, positions)
            # As in a catch-up: ageing takes the ids as seen now, because their real time is not known.
            window.commit(
                output_position=output_position,
                input_offset=start.offset,
                seen_ms=now_ms,
                newest_ms=self._unwritten.newest_ms,
                last=LastRecords(read_up_to=start.last_read),
                own=decode_ranges(metadata.own_output) if metadata else (),
            )
            window.age(now_ms)

        return write

    def _write_if_due(
        self, window: Window, reader: OutputReader, write: Callable[[Mapping[int, int]], None]
    ) -> None:
        most = min(_WRITE_RECORDS, window.store.bounds.largest_write_records)
        waited = self.factory.clock.monotonic() - self._written_at
        if self._unwritten.records >= most or (self._unwritten.records and waited > _WRITE_SECONDS):
            self._write(window, reader, write)

    def _write(
        self, window: Window, reader: OutputReader, write: Callable[[Mapping[int, int]], None]
    ) -> None:
        if window.store.learnt.of(self._epoch) != reader.positions:
            write(reader.positions)
        self._unwritten = _Unwritten()
        self._written_at = self.factory.clock.monotonic()

    def _show(self, reader: OutputReader, began: float) -> None:
        seconds = self.factory.clock.monotonic() - began
        show_progress(
            self.factory.worker_state, REASON, Progress(self._records, reader.unread, seconds)
        )
