"""Detect drift: decide whether a child object differs from the wanted one.

The applier adds a hash of each wanted object as an annotation, so a field that is no longer wanted shows as drift too.
"""

import json
from decimal import Decimal
from hashlib import sha256
from typing import Any, Final

from kubernetes.utils.quantity import parse_quantity

from dedupe_operator.kubernetes.names import WANTED_HASH, Object

# The API server leaves out such a value, which a user may have written.
_EMPTY: Final[tuple[object, ...]] = (None, "", [], {})


def with_wanted_hash(wanted: Object) -> Object:
    """Return a wanted object with a hash of itself as an annotation."""
    text = json.dumps(wanted, sort_keys=True)
    annotations = {
        **(wanted["metadata"].get("annotations") or {}),
        WANTED_HASH: sha256(text.encode()).hexdigest()[:16],
    }
    return {**wanted, "metadata": {**wanted["metadata"], "annotations": annotations}}


def has_wanted_hash(live: Object) -> bool:
    """Return whether the operator created an object, whatever its labels are now."""
    return WANTED_HASH in (live["metadata"].get("annotations") or {})


def has_same_wanted_hash(live: Object, wanted: Object) -> bool:
    """Return whether it was applied last, whatever it has become since."""
    hashes = [
        (each["metadata"].get("annotations") or {}).get(WANTED_HASH) for each in (live, wanted)
    ]
    return hashes[0] is not None and hashes[0] == hashes[1]


def is_as_wanted(live: Object, wanted: Object) -> bool:
    """Return whether a live object has every wanted field; others are ignored.

    >>> wanted = with_wanted_hash({"metadata": {"name": "a"}, "spec": {"cpu": "1000m"}})
    >>> is_as_wanted({**wanted, "spec": {"cpu": "1", "theirs": True}}, wanted)
    True
    >>> is_as_wanted({**wanted, "spec": {"cpu": "2"}}, wanted)
    False
    """
    return _covers(live, wanted)


def part_of(live: Any, wanted: Any) -> Any:  # noqa: ANN401 # any JSON value
    """Return the fields of a live object that are wanted, with their live values.

    >>> part_of({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"c": 4}})
    {'b': {'c': 2}}
    """
    if isinstance(live, dict) and isinstance(wanted, dict):
        return {name: part_of(live[name], wanted[name]) for name in wanted if name in live}
    return live


def _covers(live: Any, wanted: Any) -> bool:  # noqa: ANN401 # any JSON value
    if live is None and (wanted is False or wanted in _EMPTY):
        return True
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(
            _covers(live.get(name), value) for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(live, list) and _list_covers(live, wanted)
    return bool(live == wanted) or _same_quantity(live, wanted)


def _list_covers(live: list[Any], wanted: list[Any]) -> bool:
    if all(isinstance(item, dict) for item in wanted):
        # Lists of objects are merged by a key: other managers may have added items between.
        return all(any(_covers(found, item) for found in live) for item in wanted)
    return live == wanted


def _same_quantity(live: Any, wanted: Any) -> bool:  # noqa: ANN401 # any JSON value
    """Compare as quantities: the API server rewrites them, for example 1000m as 1."""
    first, second = _quantity(live), _quantity(wanted)
    return first is not None and first == second


def _quantity(value: Any) -> Decimal | None:  # noqa: ANN401 # any JSON value
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)  # a user may write a quantity as a number
    if not isinstance(value, str) or not value[:1].isdigit():
        return None
    try:
        return Decimal(parse_quantity(value))
    except ValueError:
        return None
