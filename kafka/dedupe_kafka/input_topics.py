"""The topics of a cluster that are a stream's input.

The routers and the audit read them. Invariant: no topic of the stream itself is among them, or it would read its own
records.
"""

import re
from collections.abc import Iterable

from dedupe_crds.spec.stream import Spec
from dedupe_kafka.side_topics import filters_topic, owners_topic, routed_topics

_INTERNAL = "__"


def matching_topics(names: Iterable[str], spec: Spec) -> list[str]:
    """Return the names of a stream's input topics, in order.

    For a pattern they are those among `names`, the topics of the cluster; else those of the manifest, even if absent.
    """
    if spec.input.pattern is None:
        return sorted(spec.input.names)
    pattern, own = re.compile(spec.input.pattern), _own_topics(spec)
    return sorted(
        name
        for name in set(names)
        if pattern.fullmatch(name) and name not in own and not name.startswith(_INTERNAL)
    )


def _own_topics(spec: Spec) -> set[str]:
    output = spec.output.topic
    metadata = (filters_topic(output), owners_topic(output), f"{output}-epochs")
    return {spec.worker_input, output, *metadata, *routed_topics(spec)}
