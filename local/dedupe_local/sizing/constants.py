"""The measured constants of a worker, from which sizes are calculated.

`make bench-scale` writes constants.json; the two calculations read it.
"""

from functools import cache
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

MEASURED: Final = Path(__file__).with_name("constants.json")
"""Written by `make bench-scale`; docs/performance.md has the complete results."""


VALUE_BYTES: Final = 512
"""The size of the values that the constants were measured with."""

MESSAGES_BY_VALUE_BYTES: Final = {128: 236_202, 512: 181_496, 4096: 61_413}
"""Messages per CPU second of a worker for sizes of values, by `make bench` (docs/performance.md)."""


class Measured(BaseModel):
    """The measured values of one worker.

    `ids` is the number in the largest store measured, of one partition; most other values were measured on that store.
    Memory is `memory_base_bytes` + ids * `memory_bytes_per_id`. `start_seconds` is the time from the start of the
    process after a crash until it is ready. `rebuild_per_second` is the rate, in records of 512 bytes, at which a
    worker without a store reads its output.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )

    source: str
    ids: int
    messages_per_cpu_second: float
    messages_per_second: float
    bytes_per_id: float
    write_amplification: float
    memory_base_bytes: int
    memory_bytes_per_id: float
    start_seconds: float
    rebuild_per_second: float


def cost_per_byte() -> float:
    """Return the cost of a byte of a value, as a share of a whole message of 512 B.

    A message's CPU time grows in a straight line with its value: the slope is that between the smallest and the largest
    size measured.
    """
    least, most = min(MESSAGES_BY_VALUE_BYTES), max(MESSAGES_BY_VALUE_BYTES)
    slope = (1 / MESSAGES_BY_VALUE_BYTES[most] - 1 / MESSAGES_BY_VALUE_BYTES[least]) / (
        most - least
    )
    return slope * MESSAGES_BY_VALUE_BYTES[VALUE_BYTES]


@cache
def measured() -> Measured:
    """Return the values of this version."""
    return Measured.model_validate_json(MEASURED.read_text())
