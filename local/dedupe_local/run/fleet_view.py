"""The state of a fleet as its users see it at one moment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dedupe_crds.status.growth import GrowthStatus
from dedupe_local.run.router_process import RouterView
from dedupe_local.run.worker_process import WorkerView


@dataclass(frozen=True, kw_only=True)
class FleetView:
    """Workers, routers, and notes about the topics.

    `added` are partitions without a worker, each with its lag; `notes` are sentences; `growth` is the step of the
    present growth, or of the last one.
    """

    workers: Sequence[WorkerView]
    routers: Sequence[RouterView] = ()
    added: Mapping[int, int] = field(default_factory=dict)
    notes: Sequence[str] = ()
    growth: GrowthStatus | None = None
