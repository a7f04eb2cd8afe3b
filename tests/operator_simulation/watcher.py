"""The interface by which the simulated cluster reports the operator's writes to the judge."""

from typing import Protocol

from dedupe_operator.kubernetes.names import Object


class Watcher(Protocol):
    """One who sees each write of the operator, after it took effect."""

    def written(
        self, how: str, kind: str, name: str, before: Object | None, after: Object | None
    ) -> None:
        """See a write: `before` and `after` are the object, None if it does not exist."""
        ...
