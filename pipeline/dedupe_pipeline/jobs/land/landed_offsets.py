"""The offsets up to which a topic has landed, as its table remembers them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

PROPERTY: Final = "dedupestream.landed"
"""The name of a table's property, and of an entry in the summary of a commit."""


@dataclass(frozen=True, kw_only=True)
class LandedOffsets:
    """By partition, the offset before which all records have landed."""

    topic: str
    topic_id: str
    offsets: Mapping[int, int]

    @property
    def total(self) -> int:
        """Return the sum of the offsets: it grows with each batch."""
        return sum(self.offsets.values())

    def with_ends(self, ends: Mapping[int, int]) -> Self:
        """Return the offsets after a batch with these ends."""
        return type(self)(
            topic=self.topic, topic_id=self.topic_id, offsets={**self.offsets, **ends}
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the offsets of a property."""
        found = json.loads(text)
        return cls(
            topic=found["topic"],
            topic_id=found["topicId"],
            offsets={int(number): at for number, at in found["offsets"].items()},
        )

    def to_json(self) -> str:
        """Return the value of a property."""
        offsets = {str(number): at for number, at in sorted(self.offsets.items())}
        return json.dumps({"topic": self.topic, "topicId": self.topic_id, "offsets": offsets})
