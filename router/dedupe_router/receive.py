"""Receive what has arrived for a router."""

from typing import Final

from confluent_kafka import Consumer, Message

from dedupe_kafka.client import calling

_GATHER_SECONDS: Final = 0.01
_IDLE_SECONDS: Final = 0.5


def receive(consumer: Consumer, room: int, *, idle: bool) -> tuple[list[Message], float]:
    """Return up to `room` messages, and the seconds in which they were waited for.

    If the router is `idle` this waits longer for the first one, and still returns soon after it has arrived. Without
    room it serves the group, and a record that comes is returned.
    """
    with calling("reading the input"):
        if room <= 0:
            served = consumer.poll(0)
            return ([] if served is None else [served]), 0.0
        if not idle:
            return consumer.consume(room, _GATHER_SECONDS), _GATHER_SECONDS
        first = consumer.poll(_IDLE_SECONDS)
        if first is None:
            return [], _IDLE_SECONDS
        return [first, *consumer.consume(room, _GATHER_SECONDS)], _GATHER_SECONDS
