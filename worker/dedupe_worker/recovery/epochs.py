"""The epochs of a stream for one session: what to learn, and what was passed.

`Session` calls it once the partition is taken over: an older worker can commit nothing any more, so what the log and
the committed offset say does not change under this one.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from threading import Event

from dedupe_crds.spec.repartition import Repartition
from dedupe_growth.entries import EpochLogUnreadable
from dedupe_growth.log import NO_ENTRY, EpochLogMissing, EpochReader
from dedupe_growth.mark import Mark
from dedupe_ids.extract import Extractor
from dedupe_ids.route import Route, place_of_origin
from dedupe_kafka.offset_metadata import decode_metadata
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.dedup.border import Border, NoBorder
from dedupe_worker.dedup.window import Window
from dedupe_worker.kafka.committed import Committed
from dedupe_worker.recovery.input_offset import InputStart
from dedupe_worker.recovery.learning import Learning
from dedupe_worker.recovery.learnt_ids import LearntIds
from dedupe_worker.recovery.taken_over import TakenOver


class NoEpochs:
    """Without routers there are none."""

    def described(self, partition: TakenOver) -> TakenOver:
        """Return the partition with what it was before the stream had routers."""
        return partition

    def learn(self, window: Window, start: InputStart, position: int) -> None:
        """Learn the ids of older partitions, if a growth has added this one.

        The store has all ids of the own output before `position`.
        """

    @property
    def learnt_ids(self) -> LearntIds | None:
        """Return what a full reconcile expects in addition to the own output."""
        return None

    def border(self, committed: Committed | None, *, position: int) -> NoBorder:  # noqa: ARG002 (the interface)
        """Return what the worker has passed; `position` is its output position."""
        return NoBorder()


@dataclass(slots=True)
class SessionEpochs(NoEpochs):
    """The epochs of a stream with routers. `reader` is at the end of the log."""

    factory: ComponentFactory
    partition: TakenOver
    repartition: Repartition
    reader: EpochReader
    extract: Extractor
    stop: Event

    def described(self, partition: TakenOver) -> TakenOver:
        """Return the partition with the ids of the topic that it read before."""
        return replace(partition, earlier_inputs=self.reader.epochs.earlier_inputs)

    def learn(self, window: Window, start: InputStart, position: int) -> None:
        """Learn the ids of older partitions, if a growth has added this one.

        Returns early if `stop` is set. Raises StreamError.
        """
        self._check(self._born)
        learning = Learning(
            *(self.factory, self.partition, self.repartition),
            *(self.reader, self.extract, self.stop),
        )
        if learning.needed:
            learning.run(window, start, output_position=position)

    @property
    def learnt_ids(self) -> LearntIds | None:
        """Return what a full reconcile expects in addition to the own output."""
        if self._born == 0:
            return None
        known = (self.factory, self.partition, self.repartition, self.reader.epochs)
        return LearntIds(*known, self.extract, self.stop)

    def border(self, committed: Committed | None, *, position: int) -> NoBorder:
        """Return what the worker has passed; an added one has by learning.

        Raises EpochLogMissing, EpochLogUnreadable.
        """
        number, epochs = self.factory.config.partition, self.reader.epochs
        cut = decode_metadata(committed.metadata).cut if committed else None
        born = self._born
        epoch = max(cut.epoch if cut else 0, epochs.done, born)
        self._check(epoch)
        spec = self.factory.config.stream.spec
        border = Border(
            spec.worker_input,
            number,
            passed=Mark(epoch, epochs.partitions[epoch]),
            cut=cut,
            route_of=lambda count: Route(spec, self.repartition.by, count, place_of_origin),
            done=lambda: self.reader.poll().done,
        )
        border.learnt(born, position)
        return border

    @property
    def _born(self) -> int:
        return self.reader.epochs.born(self.factory.config.partition)

    def _check(self, epoch: int) -> None:
        """Raise EpochLogMissing for an empty log, EpochLogUnreadable without the epoch."""
        if not self.reader.epochs.entries:
            raise EpochLogMissing(NO_ENTRY)
        if epoch not in self.reader.epochs.partitions:
            raise EpochLogUnreadable(
                f"partition {self.factory.config.partition} is of epoch {epoch}, which the epoch log does not have: "
                "restore its topic from a copy"
            )


@contextmanager
def read_epochs(
    factory: ComponentFactory, partition: TakenOver, extract: Extractor, stop: Event
) -> Iterator[NoEpochs]:
    """Read the epoch log of a stream with routers to its end. Raises StreamError."""
    repartition = factory.config.stream.spec.repartition
    if repartition is None:
        yield NoEpochs()
        return
    with closing(factory.make_epoch_reader()) as reader:
        reader.read_to_end(stop)
        yield SessionEpochs(factory, partition, repartition, reader, extract, stop)
