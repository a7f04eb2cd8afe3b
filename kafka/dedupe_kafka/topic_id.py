"""Tell topics apart by their ids, where brokers give them any.

Worker and growth ask it.
"""

from typing import Final

NO_TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
"""The answer of a broker without topic ids, for every topic: a UUID of zeros."""


def has_id(topic_id: str) -> bool:
    """Return whether a topic's id tells it from others.

    >>> has_id("Ab1"), has_id("AAAAAAAAAAAAAAAAAAAAAA")
    (True, False)
    """
    return not topic_id.startswith(NO_TOPIC_ID)
