"""Exit codes of a worker process.

The errors of every part name one, also on Spark's executors: so this module needs nothing but the standard library.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit code of a worker process."""

    OK = 0
    FAILED = 1
    CONFIG = 64
    IDENTITY_REFUSED = 65
    FENCED = 66
    STATE_LOCKED = 67
    UNSUPPORTED = 68
    STUCK = 70

    @property
    def is_final(self) -> bool:
        """Return whether a restart would end the same way, or take over wrongly."""
        return self in _FINAL


_FINAL = frozenset(
    {
        ExitCode.CONFIG,
        ExitCode.IDENTITY_REFUSED,
        ExitCode.FENCED,
        ExitCode.STATE_LOCKED,
        ExitCode.UNSUPPORTED,
    }
)
