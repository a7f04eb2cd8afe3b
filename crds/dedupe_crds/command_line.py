"""Exit codes of the commands that people and schedulers run.

The worker and the router have finer codes of their own (`dedupe_crds.status.worker`).
"""

from enum import IntEnum


class ExitStatus(IntEnum):
    """Exit code of a command."""

    OK = 0
    DEFECTS = 1  # only what a command was asked to find
    USAGE = 2  # the same command would end the same way; click's own code for options
    FAILED = 3
    NOTHING_JUDGED = 4
    INTERRUPTED = 130  # as shells say it of SIGINT
