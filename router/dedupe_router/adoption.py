"""The epoch by which this router routes: its partitions, and its inputs.

The loop calls it between two batches. Invariants:
  - An epoch is adopted between two transactions, never within one, and never an older one after a newer one.
  - An input partition that a newer epoch has routed is not routed by an older one: it waits until the log shows the
    newer one.
  - An input partition that the epoch does not list is not routed: a growth waits for those that are listed only.
  - A former input, which the epoch lists and the manifest has no more, stays with the routers: nothing of it is routed,
    and its committed offset is kept, and gets each new epoch.
"""

from threading import Event
from typing import Protocol

import structlog

from dedupe_crds.spec.flow import Flow
from dedupe_crds.spec.repartition import RepartitionBy
from dedupe_growth.entries import RouterStart
from dedupe_growth.epochs import NO_EPOCH, Epochs
from dedupe_growth.log import NO_ENTRY, EpochLogMissing
from dedupe_ids.route import Route
from dedupe_kafka.input_topics import former_inputs
from dedupe_kafka.offsets import Place

log = structlog.get_logger()


class Reader(Protocol):
    """The part of `EpochReader` that this needs."""

    epochs: Epochs

    def read_to_end(self, stop: Event | None = None) -> Epochs: ...  # noqa: D102
    def poll(self) -> Epochs: ...  # noqa: D102


class Adoption:
    """The present epoch, its partitions, and the rule that chooses one of them."""

    def __init__(self, reader: Reader, spec: Flow, by: RepartitionBy) -> None:
        self._reader = reader
        self._spec = spec
        self._by = by
        self.epoch = NO_EPOCH
        self.partitions = 0
        self.route: Route

    @property
    def known(self) -> int:
        """Return the number of log entries that are known."""
        epochs: Epochs = self._reader.epochs
        return epochs.entries

    def begin(self, stop: Event) -> None:
        """Adopt the newest epoch of the log. Raises StreamError, and Stopped."""
        if self._reader.read_to_end(stop).switched == NO_EPOCH:
            raise EpochLogMissing(NO_ENTRY)
        self._adopt()

    def follow(self) -> None:
        """Adopt a newer epoch, if one has arrived. Raises StreamError."""
        if self._reader.poll().switched > self.epoch:
            self._adopt()

    def begun(self, topic: str, partition: int) -> RouterStart | None:
        """Return where the worker of an input partition has handed it over, if it has."""
        epochs: Epochs = self._reader.epochs
        return epochs.start(topic, partition)

    def is_former(self, topic: str) -> bool:
        """Return whether the manifest has this input no more."""
        return bool(former_inputs([topic], self._spec))

    @property
    def former(self) -> list[str]:
        """Return the inputs that the epoch lists, and the manifest has no more."""
        epochs: Epochs = self._reader.epochs
        return former_inputs(epochs.listed, self._spec)

    def refuses(self, place: Place, committed_epoch: int) -> str:
        """Return why a partition may not be routed now, "" if it may.

        `committed_epoch` is that of its committed offset.
        """
        if committed_epoch > self.epoch:
            return f"was routed by epoch {committed_epoch}, and epoch {self.epoch} is known here"
        if not self.is_former(place[0]) and not self._reader.epochs.lists(*place):
            return "is new: it is routed once the operator or `dedupe run` has listed it"
        return ""

    def _adopt(self) -> None:
        epochs = self._reader.epochs
        self.epoch = epochs.switched
        self.partitions = epochs.partitions[self.epoch]
        self.route = Route(self._spec, self._by, self.partitions)
        log.info("epoch adopted", epoch=self.epoch, partitions=self.partitions)
