"""The ACLs that the worker needs on its topics.

The table of ACLs in docs/kubernetes.md lists the same.
"""

from collections.abc import Collection, Iterable
from typing import Final

from confluent_kafka.admin import (  # type: ignore[attr-defined] # its documented name, not in its __all__
    AclOperation,
)

from dedupe_crds.spec.stream import Spec
from dedupe_kafka.errors import NotAuthorized
from dedupe_kafka.side_topics import needs_owner_log, notes_topics, owners_topic, routed_topics

_READ: Final = frozenset({AclOperation.READ})
_WRITE: Final = frozenset({AclOperation.WRITE})


def needed_rights(spec: Spec) -> dict[str, frozenset[AclOperation]]:
    """Return the operations on each topic of a stream: input first, then output."""
    needed = {spec.input.topic: _READ, spec.output.topic: _READ | _WRITE}
    needed |= dict.fromkeys((*routed_topics(spec), *notes_topics(spec)), _WRITE)
    if needs_owner_log(spec):
        needed[owners_topic(spec.output.topic)] = _READ | _WRITE
    return needed


def check_rights(
    what: str, allowed: Collection[AclOperation] | None, needed: Iterable[AclOperation]
) -> None:
    """Raise NotAuthorized if a needed operation is not among the allowed operations.

    A broker may not report them: then `allowed` is None or empty, although the query itself needs DESCRIBE. Such a
    broker refuses the operation itself later.
    """
    missing = sorted(each.name for each in needed if each not in allowed) if allowed else []
    if missing:
        raise NotAuthorized(
            f"{what}: missing ACL {' and '.join(missing)} for the Kafka credentials; grant it, the worker retries "
            "automatically"
        )
