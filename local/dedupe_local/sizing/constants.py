"""What a worker takes, as it was measured: the constants that sizes are reckoned from."""

from functools import cache
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

MEASURED: Final = Path(__file__).with_name("constants.json")
"""Written by `make bench-scale`; docs/performance.md has the whole of it."""


class Measured(BaseModel):
    """`ids` are those in the largest store measured, of one partition; most of the others are those of a worker on it.

    Memory is `memory_base_bytes` + ids * `memory_bytes_per_id`. `start_seconds` are from the start of a process, after
    a crash, until it is ready; `rebuild_per_second` are records of 512 bytes that a worker without a store learns.
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


@cache
def measured() -> Measured:
    """Those of this version."""
    return Measured.model_validate_json(MEASURED.read_text())
