"""Command `python -m benchmarks.peers`: install, measure in turn, print, save.

README.md in this folder explains the comparison.
"""

from collections.abc import Mapping
from pathlib import Path

import click

from benchmarks.harness.processes import BenchmarkFailed
from benchmarks.peers.catalogue import PEERS as CATALOGUE
from benchmarks.peers.catalogue import UNKEYED
from benchmarks.peers.measure import measure_peers
from benchmarks.peers.peer import Peer
from benchmarks.reporting.command import (
    Recorder,
    console,
    failures_shown,
    messages_option,
    output_option,
    page_option,
    rounds_option,
    scratch_testbed,
    update_pages,
)
from benchmarks.reporting.render import PEERS, ROUTERS
from dedupe_pipeline.errors import PipelineError


@click.command(context_settings={"show_default": True})
@messages_option
@rounds_option
@click.option("--peers", help="Peers, separated by commas.", show_default="all")
@click.option("--unkeyed", is_flag=True, help="With an input without keys: ids are in a header.")
@click.option("--crash/--no-crash", default=True, help="Also kill each of them three times.")
@output_option
@page_option
def main(
    *,
    messages: int,
    rounds: int,
    peers: str | None,
    unkeyed: bool,
    crash: bool,
    output: Path,
    page: Path,
) -> None:
    """Compare with other systems on this machine. Nothing else should run meanwhile."""
    chosen = _choose(peers, UNKEYED if unkeyed else CATALOGUE)
    recorder = Recorder(output)
    with failures_shown():
        for peer in chosen:
            console.print(f"installing {peer.title}", style="dim")
            _install(peer)
        with scratch_testbed(output) as testbed, console.status("starting") as status:
            result = measure_peers(
                testbed,
                chosen,
                messages=messages,
                rounds=rounds,
                crash=crash,
                keyed=not unkeyed,
                report=status.update,
                done=lambda line: console.print(line, highlight=False, markup=False),
            )
    recorder.save(result)
    update_pages([ROUTERS if unkeyed else PEERS], output, page)


def _install(peer: Peer) -> None:
    try:
        peer.install()
    except PipelineError as error:  # a jar can't be downloaded
        raise BenchmarkFailed(str(error)) from error


def _choose(names: str | None, catalogue: Mapping[str, Peer]) -> list[Peer]:
    chosen = names.split(",") if names else list(catalogue)
    if unknown := [name for name in chosen if name not in catalogue]:
        raise click.BadParameter(
            f"{', '.join(unknown)}: there are {', '.join(catalogue)}", param_hint="--peers"
        )
    return [peer for name, peer in catalogue.items() if name in chosen]


if __name__ == "__main__":
    main()
