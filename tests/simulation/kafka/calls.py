"""The moments at which a fault can happen: before and after each call of a client.

Every call of every simulated client goes through the hook of its process, twice. The hook may do nothing, advance the
clock, let other processes run, or raise:

    before, KafkaException   the call fails and has had no effect
    after, KafkaException    the call has taken effect, and its answer is lost
    Killed                   the process ends here, as after kill -9
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum


class Moment(Enum):
    """Whether a call has had its effect."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a client: `process` is the caller, `name` the client library's name of the method."""

    process: str
    client: str
    """consumer, producer or admin"""
    name: str
    moment: Moment


class Killed(BaseException):
    """The process is killed. Not an `Exception`, so that no code of the worker handles it."""


Hook = Callable[[Call], None]
