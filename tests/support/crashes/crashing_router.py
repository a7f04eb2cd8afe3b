"""A router that stops or kills itself at a given step of a batch.

It runs like the router, `python -m tests.support.crashes.crashing_router --config …`, with the step in the environment
variable CRASH_AT, as "step:time:signal".
"""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dedupe_router import output
from dedupe_router.cli import main
from dedupe_router.output import Batch, TransactionalOutput
from tests.support.patience import HANG_SECONDS

VARIABLE = "CRASH_AT"


class RouterStep(StrEnum):
    """A step of a batch with records."""

    READ = "read"
    """The batch is read under a membership; no transaction is open."""
    PRODUCED = "produced"
    """The broker has the records of an open transaction."""
    OFFSETS_SENT = "offsets-sent"
    """The broker has the offsets as well."""
    COMMITTED = "committed"
    """All is committed, which the router does not know yet."""


@dataclass(frozen=True, slots=True)
class RouterCrash:
    """Send `signal_number` to itself when a step is reached the n-th time, from 1 on."""

    step: RouterStep
    time: int = 1
    signal_number: int = signal.SIGKILL

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variable that passes this to a router."""
        return {VARIABLE: f"{self.step}:{self.time}:{int(self.signal_number)}"}


class _Trigger:
    def __init__(self, text: str) -> None:
        step, time, number = text.split(":")
        self._step, self._left, self._signal = RouterStep(step), int(time), int(number)

    def reach(self, step: RouterStep) -> None:
        if step is self._step:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), self._signal)


class _WatchedProducer:
    """The producer of an output, which reaches steps."""

    def __init__(self, producer: Any, trigger: _Trigger) -> None:  # noqa: ANN401 # the library's
        self._producer = producer
        self._trigger = trigger

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 # whatever the producer has
        return getattr(self._producer, name)

    def send_offsets_to_transaction(self, *arguments: object) -> None:
        self._producer.flush(HANG_SECONDS)
        self._trigger.reach(RouterStep.PRODUCED)
        self._producer.send_offsets_to_transaction(*arguments)
        self._trigger.reach(RouterStep.OFFSETS_SENT)

    def commit_transaction(self, *arguments: object) -> None:
        self._producer.commit_transaction(*arguments)
        self._trigger.reach(RouterStep.COMMITTED)


def watch(trigger: _Trigger) -> None:
    """Have the outputs of this process reach the steps of batches with records."""
    send: Callable[[TransactionalOutput, Batch, bytes], None] = TransactionalOutput.send

    def watched(self: TransactionalOutput, batch: Batch, membership: bytes) -> None:
        if not batch.records:
            send(self, batch, membership)
            return
        trigger.reach(RouterStep.READ)
        plain = self._producer
        self._producer = _WatchedProducer(plain, trigger)  # type: ignore[assignment] # a proxy
        try:
            send(self, batch, membership)
        finally:
            self._producer = plain

    output.TransactionalOutput.send = watched  # type: ignore[method-assign] # the seam of this test


if __name__ == "__main__":
    watch(_Trigger(os.environ[VARIABLE]))
    main(prog_name="dedupe-router")
