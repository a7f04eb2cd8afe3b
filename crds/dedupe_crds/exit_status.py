"""Exit codes of the commands that people and schedulers run.

The worker and the router have finer codes of their own (`dedupe_crds.status.worker`).
"""

import sys
import traceback
from enum import IntEnum

import click

from dedupe_crds.stop_signals import Interrupted


class ExitStatus(IntEnum):
    """Exit code of a command."""

    OK = 0
    DEFECTS = 1  # only what a command was asked to find
    USAGE = 2  # the same command would end the same way; click's own code for options
    FAILED = 3
    NOTHING_JUDGED = 4
    INTERRUPTED = 130  # as shells say it of SIGINT


class Commands(click.Group):
    """Commands that never end with the code of defects because something failed.

    Python and click end with 1 for an unexpected error and after Ctrl-C.
    """

    def invoke(self, ctx: click.Context) -> object:
        """Run the command that was called."""
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.ClickException):
            raise
        except Interrupted as interrupted:
            click.echo(f"Error: {interrupted}", err=True)
            sys.exit(interrupted.exit_code)
        except (KeyboardInterrupt, click.Abort):
            click.echo("interrupted", err=True)
            sys.exit(ExitStatus.INTERRUPTED)
        except Exception:  # noqa: BLE001 (nobody above would give it another code)
            traceback.print_exc()
            click.echo("error: this is a defect of the program, not of your input", err=True)
            sys.exit(ExitStatus.FAILED)


class CommandFailed(click.ClickException):
    """An error with a message that is enough, and its exit code."""

    def __init__(self, message: str, status: ExitStatus) -> None:
        super().__init__(message)
        self.exit_code = status  # type: ignore[misc] # click reads it from the instance
