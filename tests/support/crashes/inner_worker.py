"""A worker that meets a fault inside a component: the real components, watched.

It runs like the worker, `python -m tests.support.crashes.inner_worker --config …`, with the fault in the
environment (see `inner_crashes`). It overrides private methods: if such a method is renamed, the fault does not happen,
which the tests notice.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import structlog

from dedupe_worker import cli, process
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.config import WorkerConfig
from dedupe_worker.kafka.consumer import PartitionReader
from dedupe_worker.kafka.producer import PartitionOutput
from dedupe_worker.store.rocksdb import Store
from dedupe_worker.store.state_dir import Identity, StateDirectory
from tests.support.crashes.inner_crashes import MARKER, InnerCrash, Point
from tests.support.patience import pace

_SLOW_SECONDS = 0.5

log = structlog.get_logger()


if TYPE_CHECKING:
    _Components = ComponentFactory
else:  # the native one, if the environment asks for it
    _Components = cli.component_factory()


class Trigger:
    """Counts how often a point is reached, and sends the signal at the chosen time."""

    def __init__(self, crash: InnerCrash) -> None:
        self.crash = crash
        self.store: Store | None = None
        self.met = False
        self._times = 0

    def at(self, point: Point, prepare: Callable[[], object] | None = None) -> None:
        """Handle a point; if it is the chosen one, call `prepare` before the signal."""
        if point is not self.crash.point:
            return
        self._times += 1
        if self._times != self.crash.time:
            return
        self.met = True
        if self.crash.stuck_seconds is not None:  # only from now on, as the start may take longer
            process._STUCK_SECONDS = self.crash.stuck_seconds  # type: ignore[misc] # noqa: SLF001
        if prepare:
            prepare()
        if self.crash.flushed and self.store:
            Store.flush(self.store)  # not the watched one
        log.warning(MARKER, point=point, time=self._times, signal=self.crash.signal)
        os.kill(self.crash.pid or os.getpid(), self.crash.signal)
        pace(_SLOW_SECONDS)  # SIGSTOP takes effect on this thread, or the broker, a moment later


class FaultyFactory(_Components):
    """The worker's components, watched."""

    def __init__(self, config: WorkerConfig) -> None:
        self._trigger = Trigger(InnerCrash.from_environment())
        super().__init__(replace(config, state=_State(config.state.root, self._trigger)))

    def make_reader(self, topic: str, partition: int | None = None) -> PartitionReader:
        """Return a reader whose client may stop fetching the input."""
        reader = super().make_reader(topic, partition)
        if topic == self.config.stream.spec.input.topic:
            real = reader._consumer  # noqa: SLF001 # librdkafka itself has no seam
            reader._consumer = _Consumer(real, self._trigger)  # type: ignore[assignment] # noqa: SLF001
        return reader

    def make_output(self, largest_batch_bytes: int) -> PartitionOutput:
        """Return the output with a watch between the two halves of its commit."""
        output = super().make_output(largest_batch_bytes)
        real = output._producer  # noqa: SLF001 # there is no seam between the halves
        output._producer = _Producer(real, self._trigger)  # type: ignore[assignment] # noqa: SLF001
        return output

    def make_store(self) -> Store:
        """Return the store, with the smaller window if there is one."""
        bounds = self.config.bounds
        if self._trigger.crash.window_bytes:
            bounds = replace(bounds, max_bytes=self._trigger.crash.window_bytes)
        cache_bytes = self.config.stream.spec.worker.tuning.block_cache_bytes
        path = self.config.state.database
        self._trigger.store = _Store(
            path, bounds, block_cache_bytes=cache_bytes, trigger=self._trigger
        )
        return self._trigger.store


class _Consumer:
    def __init__(self, real: Any, trigger: Trigger) -> None:  # noqa: ANN401 # librdkafka's
        self._real = real
        self._trigger = trigger

    def consume(self, *arguments: object) -> object:
        self._trigger.at(Point.READING, lambda: self._real.pause(self._real.assignment()))
        return self._real.consume(*arguments)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 # any attribute of a consumer
        return getattr(self._real, name)


class _Producer:
    def __init__(self, real: Any, trigger: Trigger) -> None:  # noqa: ANN401 # librdkafka's
        self._real = real
        self._trigger = trigger
        self._produced = False

    def begin_transaction(self) -> None:
        self._produced = False
        self._real.begin_transaction()

    def produce(self, *arguments: object, **options: object) -> None:
        self._produced = True
        self._real.produce(*arguments, **options)

    def send_offsets_to_transaction(self, *arguments: object) -> None:
        if not self._produced:  # a take-over, which has no records
            self._real.send_offsets_to_transaction(*arguments)
            return
        if self._trigger.crash.point in {Point.RECORDS_SENT, Point.OFFSETS_SENT}:
            self._real.flush()
        self._trigger.at(Point.RECORDS_SENT)
        self._real.send_offsets_to_transaction(*arguments)
        self._trigger.at(Point.OFFSETS_SENT)

    def commit_transaction(self, *arguments: object) -> None:
        self._real.commit_transaction(*arguments)
        if self._produced:
            self._trigger.at(Point.COMMITTED)

    def poll(self, *arguments: object) -> object:
        if (
            self._trigger.met
        ):  # a worker that continues after a fault is slow, so its client notices first
            pace(_SLOW_SECONDS)
        return self._real.poll(*arguments)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 # any attribute of a producer
        return getattr(self._real, name)

    def __len__(self) -> int:
        return len(self._real)


class _Store(Store):
    def __init__(self, *arguments: Any, trigger: Trigger, **options: Any) -> None:  # noqa: ANN401 # as a store's
        self._trigger = trigger
        super().__init__(*arguments, **options)

    def _seal(self) -> None:
        self._trigger.at(Point.SEALING)
        super()._seal()

    def _begin(self, database: Any, number: int) -> Any:  # noqa: ANN401 # a private class
        if number > 1:
            self._trigger.at(Point.SEALED)
        begun = super()._begin(database, number)
        if number > 1:
            self._trigger.at(Point.SUCCESSOR_BEGUN)
        return begun

    def _drop_oldest(self) -> None:
        self._trigger.at(Point.DROPPING)
        super()._drop_oldest()
        self._trigger.at(Point.DROPPED)

    def amend(self, generation: str, **ids: Any) -> None:  # noqa: ANN401 # as a store's
        self._trigger.at(Point.AMENDING)
        super().amend(generation, **ids)

    def flush_all(self) -> None:
        super().flush_all()
        self._trigger.at(Point.SETTLED)

    def flush(self) -> None:
        at_end = bool(self.metadata and self.metadata.keys)  # not the start of a rebuild
        if at_end:
            self._trigger.at(Point.FLUSHING_AT_END)
        super().flush()
        if at_end:
            self._trigger.at(Point.CLOSING)

    def checkpoint(self, path: Path) -> None:
        self._trigger.at(Point.CHECKPOINT_BEGUN)
        super().checkpoint(path)


@dataclass(frozen=True, slots=True)
class _State(StateDirectory):
    trigger: Trigger

    def record(self, identity: Identity) -> None:
        self.trigger.at(Point.DISCARDED)
        super(_State, self).record(identity)  # slots make a new class, which super() does not know
        self.trigger.at(Point.IDENTITY_RECORDED)

    def discard_store(self) -> None:
        self.trigger.at(Point.DISCARDING, self._delete_half)
        super(_State, self).discard_store()

    def _delete_half(self) -> None:
        for path in sorted(self.database.iterdir())[::2]:
            path.unlink()


def main() -> None:
    """Run the worker until the fault ends it or it ends normally."""
    with patch.object(cli, "component_factory", lambda: FaultyFactory):
        cli.main()


if __name__ == "__main__":
    main()
