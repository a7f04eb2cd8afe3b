"""Keep the defaults of pods that run when a new version has other ones.

The applier calls it. Invariant: a new default alone restarts nothing. A StatefulSet gets it when something else changes
its pods.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from dedupe_operator.decide.drift import has_same_wanted_hash, with_wanted_hash
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.resources import PartitionInputs, RouterInputs
from dedupe_operator.resources.pod_parts import PodDefaults

Inputs = TypeVar("Inputs", PartitionInputs, RouterInputs)

_EARLIER: Final = (PodDefaults(memory_by_window=False),)


def build(
    builder: Callable[[Inputs], Object | None], inputs: Inputs, live: Object | None
) -> Object | None:
    """Return an object as wanted.

    It has the defaults of the live one, if nothing else has changed.
    """
    wanted = _built(builder, inputs, PodDefaults())
    if wanted is None or live is None or has_same_wanted_hash(live, wanted):
        return wanted
    earlier = (_built(builder, inputs, defaults) for defaults in _EARLIER)
    return next((each for each in earlier if each and has_same_wanted_hash(live, each)), wanted)


def _built(
    builder: Callable[[Inputs], Object | None], inputs: Inputs, defaults: PodDefaults
) -> Object | None:
    built = builder(replace(inputs, release=replace(inputs.release, defaults=defaults)))
    return with_wanted_hash(built) if built else None
