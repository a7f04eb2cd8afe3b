"""Whether a child is still as the operator wants it."""

import json
from decimal import Decimal
from hashlib import sha256
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from dedupe_operator.kubernetes.names import WANTED_HASH, Object


def stamped(wanted: Object) -> Object:
    """A wanted object with a hash of itself: a field that is no longer wanted shows by it."""
    text = json.dumps(wanted, sort_keys=True)
    annotations = {
        **(wanted["metadata"].get("annotations") or {}),
        WANTED_HASH: sha256(text.encode()).hexdigest()[:16],
    }
    return {**wanted, "metadata": {**wanted["metadata"], "annotations": annotations}}


def is_stamped(live: Object) -> bool:
    """Whether an object was made by the operator, whatever its labels say by now."""
    return WANTED_HASH in (live["metadata"].get("annotations") or {})


def is_as_wanted(live: Object, wanted: Object) -> bool:
    """Whether a live object has every field of a stamped one. What others set beside them is theirs.

    >>> wanted = stamped({"metadata": {"name": "a"}, "spec": {"cpu": "1000m"}})
    >>> is_as_wanted({**wanted, "spec": {"cpu": "1", "theirs": True}}, wanted)
    True
    >>> is_as_wanted({**wanted, "spec": {"cpu": "2"}}, wanted)
    False
    """
    return _covers(live, wanted)


def _covers(live: Any, wanted: Any) -> bool:  # noqa: ANN401 # any JSON value
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(
            _covers(live.get(name), value) for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(live, list) and _list_covers(live, wanted)
    return bool(live == wanted) or _same_quantity(live, wanted)


def _list_covers(live: list[Any], wanted: list[Any]) -> bool:
    if all(isinstance(item, dict) for item in wanted):
        # Lists of objects are merged by a key: others may have put items of their own between.
        return all(any(_covers(found, item) for found in live) for item in wanted)
    return live == wanted


def _same_quantity(live: Any, wanted: Any) -> bool:  # noqa: ANN401 # any JSON value
    """The API server writes a quantity in its own way: 1000m becomes 1."""
    first, second = _quantity(live), _quantity(wanted)
    return first is not None and first == second


def _quantity(value: Any) -> Decimal | None:  # noqa: ANN401 # any JSON value
    if not isinstance(value, str) or not value[:1].isdigit():
        return None
    try:
        return Decimal(parse_quantity(value))
    except ValueError:
        return None
