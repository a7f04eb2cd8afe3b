"""What the clients of a simulated cluster may not do, as for want of an ACL."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum


class Right(StrEnum):
    """What a client may do with something."""

    READ = "read a topic"
    WRITE = "write a topic"
    GROUP = "use a group"
    TRANSACT = "use a transactional id"


@dataclass(slots=True)
class Rights:
    """The rights of all clients: those that are not refused."""

    _refused: set[tuple[Right, str]] = field(default_factory=set)

    def lacks(self, right: Right, name: str) -> bool:
        """Return whether a right is refused."""
        return (right, name) in self._refused

    def refuse(self, right: Right, name: str) -> None:
        """Refuse a right from now on."""
        self._refused.add((right, name))

    def restore(self, right: Right, name: str) -> None:
        """Give a right back."""
        self._refused.discard((right, name))

    @contextmanager
    def without(self, right: Right, name: str) -> Iterator[None]:
        """Refuse a right meanwhile."""
        self.refuse(right, name)
        yield
        self.restore(right, name)
