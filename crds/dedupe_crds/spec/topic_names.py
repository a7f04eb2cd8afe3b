"""The rules that keep the topics of one stream apart: each in CEL, in Python, and as a sentence.

`dedupe_crds.spec.stream` declares them.
"""

from dedupe_crds.spec.topics import Input, Output

OWN_TOPIC = "must differ from spec.input.topic, spec.output.topic, and that with -filters or -owners behind it"


def own_topic_cel(field: str) -> str:
    """Return `is_own_topic` of a field of the spec, in CEL."""
    return (
        f"!has(self.{field}.topic) || !(self.{field}.topic in [self.input.topic, self.output.topic, "
        "self.output.topic + '-filters', self.output.topic + '-owners'])"
    )


def is_own_topic(topic: str | None, source: Input, target: Output) -> bool:
    """Return whether a topic is none that the stream has without it."""
    notes = (f"{target.topic}-filters", f"{target.topic}-owners")
    return topic not in (source.topic, target.topic, *notes)


OWNERS_TOPIC = (
    "writes to spec.output.topic with -owners behind it, which must have at most 249 characters and "
    "differ from spec.input.topic"
)


def owners_topic_cel(field: str) -> str:
    """Return `has_owners_topic` of a field of the spec, in CEL."""
    return (
        f"!has(self.{field}.topic) || size(self.output.topic) <= 242 && "
        "self.output.topic + '-owners' != self.input.topic"
    )


def has_owners_topic(topic: str | None, source: Input, target: Output) -> bool:
    """Return whether the owner log that routing to `topic` needs can have its name."""
    return topic is None or (len(target.topic) <= 242 and f"{target.topic}-owners" != source.topic)
