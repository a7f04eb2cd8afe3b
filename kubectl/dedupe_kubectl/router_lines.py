"""The line and the JSON with which `status` shows a stream's routers.

Invariant: pure functions, without I/O.
"""

from typing import Any, Final

from dedupe_crds.formatting import UNKNOWN, count, size
from dedupe_crds.status.stream import RoutersInput, RoutersStatus

_SHOWN_INPUTS: Final = 5


def routers_line(routers: RoutersStatus) -> str:
    """Write the state of the routers in one line, with the inputs of the longest lag.

    >>> routers_line(RoutersStatus(replicas=2, ready=1))
    'routers: 1 of 2 ready, lag -, - records (-) held for the workers, epoch 0'
    """
    held = f"{count(routers.held_records)} records ({size(routers.held_bytes)})"
    return (
        f"routers: {routers.ready} of {routers.replicas} ready, lag {_lag(routers.inputs)}, {held} held for the "
        f"workers, epoch {routers.epoch}"
    )


def routers_json(routers: RoutersStatus) -> dict[str, Any]:
    """Return the state of the routers as JSON."""
    return {
        **routers.model_dump(mode="json", by_alias=True),
        "heldBytes": routers.held_bytes,
    }


def _lag(inputs: list[RoutersInput]) -> str:
    """Write the lag of all inputs, and of each of them if they are several."""
    lags = [each.lag_messages for each in inputs if each.lag_messages is not None]
    total = count(sum(lags)) if lags and len(lags) == len(inputs) else UNKNOWN
    if len(inputs) < 2:
        return total
    longest = sorted(inputs, key=lambda each: -(each.lag_messages or 0))
    parts = [f"{each.topic} {count(each.lag_messages)}" for each in longest[:_SHOWN_INPUTS]]
    if len(inputs) > _SHOWN_INPUTS:
        parts.append(f"and {len(inputs) - _SHOWN_INPUTS} more")
    return f"{total} ({', '.join(parts)})"
