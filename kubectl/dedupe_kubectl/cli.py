"""The `kubectl dedupe` command: process entry point and list of subcommands."""

import click

from dedupe_crds.command_line import add_help_and_version
from dedupe_crds.exit_status import Commands
from dedupe_kubectl.commands.describe_problem import describe_problem_command
from dedupe_kubectl.commands.ids import forget_command, lookup_command
from dedupe_kubectl.commands.lifecycle import restart_command, resume_command, suspend_command
from dedupe_kubectl.commands.reconcile import reconcile_command
from dedupe_kubectl.commands.restore import restore_command
from dedupe_kubectl.commands.snapshots import snapshot_command, snapshots_command
from dedupe_kubectl.commands.status import status_command
from dedupe_kubectl.commands.top import top_command


@click.group(cls=Commands)
def main() -> None:
    """Show and manage the DedupeStreams of a cluster.

    Exit codes: 0 done; 1 describe-problem found a problem, or lookup an unknown id; 2 an option is wrong; 3 the command
    could not run or finish; 130 interrupted.
    """


for command in (
    status_command,
    top_command,
    describe_problem_command,
    suspend_command,
    resume_command,
    restart_command,
    snapshot_command,
    snapshots_command,
    restore_command,
    reconcile_command,
    lookup_command,
    forget_command,
):
    main.add_command(command)
add_help_and_version(main)
