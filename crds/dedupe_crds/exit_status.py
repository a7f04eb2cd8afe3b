"""Exit codes of the commands that people and schedulers run.

The worker and the router have finer codes of their own (`dedupe_crds.status.worker`).
"""

import sys
import traceback
from collections.abc import Callable
from enum import IntEnum
from typing import Final, NoReturn

import click

from dedupe_crds.stop_signals import Interrupted

ERROR_LOG: Final = "dedupestream.error_log"
"""Key in the context of a command whose errors are not for people, see `report`.

The value is called with the message and the fields `exit_code` and, of a defect, `exception`.
"""


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
        except click.exceptions.Exit:
            raise
        except click.ClickException as error:
            if ERROR_LOG not in ctx.meta:
                raise
            _end(ctx, error.format_message(), error.exit_code)
        except Interrupted as interrupted:
            _end(ctx, str(interrupted), interrupted.exit_code)
        except (KeyboardInterrupt, click.Abort):
            _end(ctx, "interrupted", ExitStatus.INTERRUPTED)
        except Exception:  # noqa: BLE001 (nobody above would give it another code)
            text = "this is a defect of the program, not of your input"
            _end(ctx, text, ExitStatus.FAILED, trace=traceback.format_exc())


def _end(ctx: click.Context, message: str, status: int, *, trace: str = "") -> NoReturn:
    log: Callable[[str, dict[str, object]], None] | None = ctx.meta.get(ERROR_LOG)
    if log:
        log(message, {"exit_code": status, **({"exception": trace} if trace else {})})
    else:
        click.echo(f"{trace}Error: {message}", err=True)
    sys.exit(status)


class CommandFailed(click.ClickException):
    """An error with a message that is enough, and its exit code."""

    def __init__(self, message: str, status: ExitStatus) -> None:
        super().__init__(message)
        self.exit_code = status  # type: ignore[misc] # click reads it from the instance
