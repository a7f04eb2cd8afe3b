"""Choose the defaults of pods, and keep those of pods that run.

The applier calls it. Invariant: a new default alone, or a node in another zone, restarts nothing. A StatefulSet gets it
when something else changes its pods.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import product
from threading import Lock
from typing import Final, TypeVar

from dedupe_operator.decide.drift import has_same_wanted_hash, with_wanted_hash
from dedupe_operator.kubernetes.api import KubernetesApi
from dedupe_operator.kubernetes.names import ZONE, Object
from dedupe_operator.kubernetes.resources import NODES
from dedupe_operator.resources import PartitionInputs, RouterInputs
from dedupe_operator.resources.pod_parts import PodDefaults

Inputs = TypeVar("Inputs", PartitionInputs, RouterInputs)

# Each pass of a rollout asks, and each list has all nodes of the cluster.
_VALID_FOR: Final = timedelta(minutes=1)
_ALL: Final = tuple(
    PodDefaults(memory_by_window=by_window, spread_over_zones=zones)
    for by_window, zones in product((True, False), repeat=2)
)


@dataclass(slots=True)
class DefaultsChooser:
    """Chooser of all streams; several threads may ask it.

    Without `reads_nodes` it knows of no zones.
    """

    api: KubernetesApi
    reads_nodes: bool = True
    _lock: Lock = field(default_factory=Lock, init=False)
    _seen: tuple[datetime, bool] | None = field(default=None, init=False)
    # Those that a pod has kept last: most have the same, so they are tried first.
    _kept: PodDefaults = field(default=_ALL[0], init=False)

    def build(
        self,
        builder: Callable[[Inputs], Object | None],
        inputs: Inputs,
        live: Object | None,
        now: datetime,
    ) -> Object | None:
        """Return an object as wanted. Raises KubernetesError.

        It has the defaults of the live one, if nothing else has changed.
        """
        for defaults in sorted(_ALL, key=lambda each: each != self._kept) if live else ():
            kept = _built(builder, inputs, defaults)
            if live and kept and has_same_wanted_hash(live, kept):
                self._kept = defaults
                return kept
        return _built(builder, inputs, PodDefaults(spread_over_zones=self._has_zones(now)))

    def _has_zones(self, now: datetime) -> bool:
        """Return whether each node is in a zone, and there are several.

        The scheduler gives a node that lacks the label of one constraint no score for any: the spread over nodes would
        be lost.
        """
        if not self.reads_nodes:
            return False
        with self._lock:
            if self._seen is None or not timedelta() <= now - self._seen[0] < _VALID_FOR:
                nodes = self.api.find(NODES, None)
                zones = {(node["metadata"].get("labels") or {}).get(ZONE) for node in nodes}
                self._seen = now, None not in zones and len(zones) > 1
            return self._seen[1]


def _built(
    builder: Callable[[Inputs], Object | None], inputs: Inputs, defaults: PodDefaults
) -> Object | None:
    built = builder(replace(inputs, release=replace(inputs.release, defaults=defaults)))
    return with_wanted_hash(built) if built else None
