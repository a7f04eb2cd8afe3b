"""Rules that the topics of a stream differ, in CEL and in Python.

`dedupe_crds.spec.stream` declares them.
"""

from dedupe_crds.spec.topics import Input, Output

OWN_TOPIC = "must differ from spec.input.topic, spec.output.topic, and the latter with -filters or -owners appended"


def own_topic_cel(field: str) -> str:
    """Return `is_own_topic` of a field of the spec, in CEL."""
    return (
        f"!has(self.{field}.topic) || !(self.{field}.topic in [self.input.topic, self.output.topic, "
        "self.output.topic + '-filters', self.output.topic + '-owners'])"
    )


def is_own_topic(topic: str | None, source: Input, target: Output) -> bool:
    """Return whether a topic is none of the stream's other topics."""
    side_topics = (f"{target.topic}-filters", f"{target.topic}-owners")
    return topic not in (source.topic, target.topic, *side_topics)


OWNERS_TOPIC = (
    "writes to spec.output.topic with -owners appended, which must have at most 249 characters and "
    "differ from spec.input.topic"
)


def owners_topic_cel(field: str) -> str:
    """Return `has_owners_topic` of a field of the spec, in CEL."""
    return (
        f"!has(self.{field}.topic) || size(self.output.topic) <= 242 && "
        "self.output.topic + '-owners' != self.input.topic"
    )


def has_owners_topic(topic: str | None, source: Input, target: Output) -> bool:
    """Return whether the owner log that a routed topic needs has a valid name."""
    return topic is None or (len(target.topic) <= 242 and f"{target.topic}-owners" != source.topic)
