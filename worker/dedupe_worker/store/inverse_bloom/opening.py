"""Open a store as a manifest configures it. `component_factory` calls this."""

from pathlib import Path

from dedupe_crds.clock import SYSTEM_CLOCK, Clock
from dedupe_crds.spec.inverse_bloom import InverseBloom
from dedupe_worker.store.ageing import Bounds
from dedupe_worker.store.inverse_bloom.capacity import check_table
from dedupe_worker.store.inverse_bloom.store import InverseBloomStore
from dedupe_worker.store.progress import Report, no_report


def open_table(
    path: Path,
    bounds: Bounds,
    wanted: InverseBloom,
    value_bytes: int,
    *,
    clock: Clock = SYSTEM_CLOCK,
    report: Report = no_report,
) -> InverseBloomStore:
    """Open the store as a manifest configures it.

    Raises InvalidConfig if it is too large for memory or volume, and what InverseBloomStore raises.
    """
    slots = check_table(path, wanted, value_bytes)
    return InverseBloomStore(
        path, bounds, slots=slots, value_bytes=value_bytes, clock=clock, report=report
    )
