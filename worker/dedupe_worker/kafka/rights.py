"""What Kafka must allow the worker to do with its topics; the table of ACLs in docs/kubernetes.md says the same."""

from collections.abc import Collection, Iterable
from typing import Final

from confluent_kafka.admin import (  # type: ignore[attr-defined] # its documented name, not in its __all__
    AclOperation,
)

from dedupe_crds.spec.stream import Spec
from dedupe_kafka.errors import NotAuthorized
from dedupe_kafka.side_topics import notes_owners, notes_topics, owners_topic, routed_topics

_READ: Final = frozenset({AclOperation.READ})
_WRITE: Final = frozenset({AclOperation.WRITE})


def needed_rights(spec: Spec) -> dict[str, frozenset[AclOperation]]:
    """The operations on each topic of a stream, the input first, then the output."""
    needed = {spec.input.topic: _READ, spec.output.topic: _READ | _WRITE}
    needed |= dict.fromkeys((*routed_topics(spec), *notes_topics(spec)), _WRITE)
    if notes_owners(spec):
        needed[owners_topic(spec.output.topic)] = _READ | _WRITE
    return needed


def check_rights(
    what: str, allowed: Collection[AclOperation] | None, needed: Iterable[AclOperation]
) -> None:
    """Raise NotAuthorized if something needed is not among what the broker allows.

    A broker that does not tell (`allowed` is None or empty, though to be told at all needs DESCRIBE) refuses when it is
    asked for the thing itself.
    """
    missing = sorted(one.name for one in needed if one not in allowed) if allowed else []
    if missing:
        raise NotAuthorized(
            f"{what}: the Kafka credentials have no right to {' and '.join(missing)}; grant it, the worker goes on by "
            "itself"
        )
