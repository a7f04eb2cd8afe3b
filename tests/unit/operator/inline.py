"""A clock, and lanes to Kafka, that do what they are asked at once."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from dedupe_operator.controller.kafka_view import KafkaViews
from dedupe_operator.input_watch import InputWatch
from dedupe_operator.kafka_access import KafkaAccess
from dedupe_operator.kafka_asks import KafkaAsks
from dedupe_operator.output_conflicts import OutputConflicts

T = TypeVar("T")


@dataclass
class FakeClock:
    """Time that passes when a test says so."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


class Inline(Executor):
    """Does what it is given at once, in the caller's thread, or keeps it in `held`."""

    held: list[Callable[[], object]] | None = None

    def submit(self, fn: Callable[..., T], /, *args: object, **named: object) -> Future[T]:
        done: Future[T] = Future()
        call = partial(fn, *args, **named)
        if self.held is None:
            done.set_result(call())
        else:
            self.held.append(call)
        return done


def inline_asks(clock: Callable[[], float], lanes: Inline | None = None) -> KafkaAsks:
    """Return lanes whose answers are there at once."""
    lanes = lanes or Inline()
    return KafkaAsks(clock, answering=lanes, silent=lanes)


def kafka_parts(
    clock: Callable[[], float],
    conflicts: OutputConflicts | None = None,
    lanes: Inline | None = None,
) -> tuple[KafkaAsks, KafkaViews]:
    """Return a reconciler's way to Kafka, whose answers are there at once."""
    asks = inline_asks(clock, lanes)
    return asks, KafkaViews(InputWatch(asks), conflicts or OutputConflicts(), KafkaAccess())
