"""Rules that the topics of a stream differ, in CEL and in Python.

`dedupe_crds.spec.flow` declares them. Those on the repartition topic are rules on `spec.repartition`.
"""

from typing import Final

from dedupe_crds.spec.input import Input
from dedupe_crds.spec.repartition import REPARTITION_SUFFIX, Repartition
from dedupe_crds.spec.topics import Output

_INPUTS_CEL: Final = (
    "(has(self.input.topic) ? [self.input.topic] : has(self.input.topics) ? self.input.topics : [])"
)
_REPARTITION_CEL: Final = (
    "(has(self.repartition.topic.name) ? self.repartition.topic.name : "
    f"self.output.topic + '{REPARTITION_SUFFIX}')"
)


def not_input_cel(suffix: str = "") -> str:
    """Return that the output topic with a suffix is no input, in CEL."""
    name = f"self.output.topic + '{suffix}'" if suffix else "self.output.topic"
    return f"!({name} in {_INPUTS_CEL})"


OWN_TOPIC: Final = (
    "must differ from the topics of spec.input, spec.output.topic, and the latter with -filters or "
    "-owners appended"
)


def own_topic_cel(field: str) -> str:
    """Return `is_own_topic` of a field of the spec, in CEL."""
    return (
        f"!has(self.{field}.topic) || !(self.{field}.topic in {_INPUTS_CEL} + [self.output.topic, "
        "self.output.topic + '-filters', self.output.topic + '-owners'])"
    )


def is_own_topic(topic: str | None, source: Input, target: Output) -> bool:
    """Return whether a topic is none of the stream's other topics."""
    return topic not in (*source.names, *_with_side_topics(target))


OWNERS_TOPIC: Final = (
    "writes to spec.output.topic with -owners appended, which must have at most 249 characters and "
    "differ from the topics of spec.input"
)


def owners_topic_cel(field: str) -> str:
    """Return `has_owners_topic` of a field of the spec, in CEL."""
    return (
        f"!has(self.{field}.topic) || size(self.output.topic) <= 242 && {not_input_cel('-owners')}"
    )


def has_owners_topic(topic: str | None, source: Input, target: Output) -> bool:
    """Return whether the owner log that a routed topic needs has a valid name."""
    name = f"{target.topic}-owners"
    return topic is None or (len(name) <= 249 and name not in source.names)


EPOCHS_SUFFIX: Final = "-epochs"
REPARTITION_TOPIC: Final = (
    "is spec.output.topic with -repartition appended by default; it must have at most 249 characters and "
    "differ from all other topics of the stream, of which spec.output.topic with -epochs appended is one"
)
_EPOCHS_CEL: Final = f"self.output.topic + '{EPOCHS_SUFFIX}'"
_ROUTED: Final = ("duplicates", "conflicts", "late")
_ROUTED_CEL: Final = " && ".join(
    f"(!has(self.{field}.topic) || !(self.{field}.topic in [{_REPARTITION_CEL}, {_EPOCHS_CEL}]))"
    for field in _ROUTED
)
REPARTITION_TOPIC_CEL: Final = (
    f"!has(self.repartition) || size({_REPARTITION_CEL}) <= 249 && !({_REPARTITION_CEL} in {_INPUTS_CEL} + "
    f"[self.output.topic, self.output.topic + '-filters', self.output.topic + '-owners', {_EPOCHS_CEL}]) && "
    f"{not_input_cel(EPOCHS_SUFFIX)} && size(self.output.topic) <= 242 && {_ROUTED_CEL}"
)


def has_repartition_topic(
    source: Input, target: Output, routed: tuple[str | None, ...], repartition: Repartition | None
) -> bool:
    """Return whether the repartition topic has a valid name that no other topic has."""
    if repartition is None:
        return True
    name, epochs = repartition.topic_name(target.topic), f"{target.topic}{EPOCHS_SUFFIX}"
    others = (*source.names, *routed)
    return (
        max(len(name), len(epochs)) <= 249
        and name not in (*others, *_with_side_topics(target), epochs)
        and epochs not in others
    )


def _with_side_topics(target: Output) -> tuple[str, ...]:
    return (target.topic, f"{target.topic}-filters", f"{target.topic}-owners")
