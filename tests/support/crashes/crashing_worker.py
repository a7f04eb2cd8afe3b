"""A worker that kills itself at a given step: the real components, behind proxies.

It runs like the worker, `python -m tests.support.crashes.crashing_worker --config …`, with the step in the environment
(see `steps`).
"""

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dedupe_httpd.logs import configure_logs
from dedupe_worker.admin.http_api import read_token
from dedupe_worker.cli import component_factory
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.config import WorkerConfig, load_config
from dedupe_worker.kafka.consumer import PartitionReader
from dedupe_worker.kafka.producer import PartitionOutput
from dedupe_worker.process import run_worker
from dedupe_worker.store.rocksdb import Store
from tests.support.crashes.steps import Crash, Step

if TYPE_CHECKING:
    _Components = ComponentFactory
else:  # the native one, if the environment asks for it
    _Components = component_factory()


def main() -> None:
    """Run the worker until it is killed or ends normally."""
    options = _options()
    configure_logs()
    config = load_config(
        manifest=options.config,
        partition=options.partition,
        state_dir=options.state_dir,
        kafka_properties=None,
        restore_from=options.restore_from,
    )
    host, _, port = options.http.rpartition(":")
    code = run_worker(
        CrashingFactory(config, Crash.from_environment(dict(os.environ))),
        host=host,
        port=int(port),
        endpoint_file=options.endpoint_file,
        token=read_token(options.admin_token_file),
    )
    sys.exit(code)


class CrashingFactory(_Components):
    """The worker's components, each behind a proxy that knows the steps."""

    def __init__(self, config: WorkerConfig, crash: Crash) -> None:
        super().__init__(config)
        self._trigger = _Trigger(crash)

    def make_reader(self, topic: str, partition: int | None = None) -> PartitionReader:
        """Return a reader, watched if it reads the output: then it is for the reconcile."""
        reader = super().make_reader(topic, partition)
        if topic != self.config.stream.spec.output.topic:
            return reader
        return cast("PartitionReader", _ReconcilingReader(reader, self._trigger))

    def make_output(self, largest_batch_bytes: int) -> PartitionOutput:
        """Return the output, watched."""
        output = super().make_output(largest_batch_bytes)
        return cast("PartitionOutput", _Output(output, self._trigger))

    def make_store(self) -> Store:
        """Return the store, watched."""
        if self._trigger.crash.step is Step.DURING_FLUSH:
            _watch_for_flush(self.config.state.database, self._trigger.crash.time)
        store = super().make_store()
        self._trigger.flush = store.flush
        return cast("Store", _Store(store, self._trigger))


class _Trigger:
    """Counts the steps, and kills the process at the chosen step."""

    def __init__(self, crash: Crash) -> None:
        self.crash = crash
        self.transactions = 0
        self.flush: Callable[[], object] | None = None
        self._times = 0

    def at(self, step: Step, prepare: Callable[[], object] | None = None) -> None:
        if step is not self.crash.step:
            return
        self._times += 1
        if self._times == self.crash.time:
            if prepare:
                prepare()
            os.kill(os.getpid(), signal.SIGKILL)


class _Proxy:
    """The real component, except for the methods of a subclass."""

    def __init__(self, real: Any, trigger: _Trigger) -> None:  # noqa: ANN401 # any component
        self._real = real
        self._trigger = trigger

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 # any attribute
        return getattr(self._real, name)


class _ReconcilingReader(_Proxy):
    def read(self, max_records: int, wait_seconds: float) -> object:
        batch = self._real.read(max_records, wait_seconds)
        if batch.records:
            self._trigger.at(Step.DURING_RECONCILE)
            self._trigger.at(Step.DURING_RECONCILE_FLUSHED, self._trigger.flush)
        return batch


class _Output(_Proxy):
    def produce(self, *arguments: object) -> None:
        self._trigger.at(Step.BEFORE_PRODUCE)
        self._real.produce(*arguments)

    def commit(self, *arguments: object) -> None:
        self._trigger.at(Step.BEFORE_COMMIT, self._real._producer.flush)  # noqa: SLF001
        self._real.commit(*arguments)
        self._trigger.transactions += 1
        self._trigger.at(Step.BEFORE_STORE_WRITE)


class _Store(_Proxy):
    def write(self, *arguments: object, **stamp: object) -> None:
        self._real.write(*arguments, **stamp)
        if self._trigger.transactions:  # writes before the first transaction are of the reconcile
            self._trigger.at(Step.AFTER_STORE_WRITE)

    def checkpoint(self, path: Path) -> None:
        self._real.checkpoint(path)
        self._trigger.at(Step.DURING_CHECKPOINT)


def _watch_for_flush(database: Path, time_of_flush: int) -> None:
    command = [sys.executable, "-m", "tests.support.crashes.flush_killer"]
    command += [str(os.getpid()), str(database), str(time_of_flush)]
    killer = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert killer.stdout is not None
    assert killer.stdout.readline() == b"watching\n"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--partition", type=int, required=True)
    parser.add_argument("--state-dir", type=Path, required=True)
    parser.add_argument("--http", required=True)
    parser.add_argument("--endpoint-file", type=Path, required=True)
    parser.add_argument("--admin-token-file", type=Path)
    parser.add_argument("--restore-from")
    return parser.parse_args()


if __name__ == "__main__":
    main()
