"""Build the status of a stream's routers from all that is known of them.

The reconciler calls it at the end of a pass.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dedupe_crds.status.router import RouterStatus
from dedupe_crds.status.stream import RoutersInput, RoutersStatus
from dedupe_operator.decide import diagnosis
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.decide.pod_readiness import is_ready
from dedupe_operator.decide.rounding import coarse_count
from dedupe_operator.kubernetes.names import Object


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutersView:
    """All that is known of a stream's routers at the end of a pass.

    `reports` are those of the routers that answer; `problems` keep a router from routing.
    """

    replicas: int
    pods: Mapping[int, Object]
    reports: Mapping[int, RouterStatus]
    problems: Mapping[int, Problem] = field(default_factory=dict)

    @property
    def ready(self) -> int:
        """Return the number of routers that are ready, which Kubernetes decides."""
        return sum(map(is_ready, self.pods.values()))

    @property
    def are_well(self) -> bool:
        """Return whether routers run as wanted."""
        return self.ready >= self.replicas

    @property
    def causes(self) -> list[Problem]:
        """Return what is wrong, each cause once: what stops a router comes first."""
        warnings = {
            reason: {
                router: Problem(reason=reason, message=report.warnings[reason])
                for router, report in sorted(self.reports.items())
                if reason in report.warnings
            }
            for reason in sorted({each for r in self.reports.values() for each in r.warnings})
        }
        found = diagnosis.by_cause(dict(sorted(self.problems.items())), of="router")
        for by_router in warnings.values():
            found += diagnosis.by_cause(by_router, of="router")
        return found


def status_of(view: RoutersView, recorded: RoutersStatus | None) -> RoutersStatus:
    """Return the part of the stream's status about its routers.

    While no router answers, the numbers stay as `recorded`.
    """
    first = next(iter(view.causes), None)
    known = {
        "replicas": view.replicas,
        "ready": view.ready,
        "reason": first.reason if first else None,
        "message": first.message if first else None,
    }
    reports = list(view.reports.values())
    if not reports:
        return (recorded or RoutersStatus(replicas=view.replicas)).model_copy(update=known)
    outputs = [each.output for each in reports if each.output]
    held_records = _largest([each.held_records for each in outputs])
    held_bytes = _largest([each.held_bytes for each in outputs])
    return RoutersStatus.model_validate(
        {
            **known,
            "inputs": _inputs(reports),
            "held_records": held_records,
            "held_bytes": held_bytes,
            "epoch": max(each.epoch for each in reports),
        }
    )


def _inputs(reports: Sequence[RouterStatus]) -> list[RoutersInput]:
    """Return the inputs with their lag, None where a router does not know its part."""
    lags: dict[str, list[int | None]] = {}
    for report in reports:
        for each in report.inputs:
            lags.setdefault(each.topic, []).append(each.lag_messages)
    return [
        RoutersInput(topic=topic, lag_messages=_sum(parts)) for topic, parts in sorted(lags.items())
    ]


def _sum(parts: Sequence[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    return coarse_count(sum(known)) if len(known) == len(parts) else None


def _largest(numbers: Sequence[int | None]) -> int | None:
    """Return the largest: each router sees the same topic, at another moment."""
    known = [number for number in numbers if number is not None]
    return coarse_count(max(known)) if known else None
