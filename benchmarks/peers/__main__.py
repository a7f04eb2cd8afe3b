"""Command `python -m benchmarks.peers`: install, measure in turn, print, save.

README.md in this folder explains the comparison.
"""

from pathlib import Path

import click

from benchmarks.harness.processes import BenchmarkFailed
from benchmarks.peers.catalogue import PEERS as CATALOGUE
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
from benchmarks.reporting.render import PEERS
from dedupe_pipeline.errors import PipelineError


@click.command(context_settings={"show_default": True})
@messages_option
@rounds_option
@click.option("--peers", default=",".join(CATALOGUE), help="Peers, separated by commas.")
@click.option("--crash/--no-crash", default=True, help="Also kill each of them three times.")
@output_option
@page_option
def main(*, messages: int, rounds: int, peers: str, crash: bool, output: Path, page: Path) -> None:
    """Compare with other systems on this machine. Nothing else should run meanwhile."""
    chosen = _choose(peers)
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
                report=status.update,
                done=lambda line: console.print(line, highlight=False, markup=False),
            )
    recorder.save(result)
    update_pages([PEERS], output, page)


def _install(peer: Peer) -> None:
    try:
        peer.install()
    except PipelineError as error:  # a jar can't be downloaded
        raise BenchmarkFailed(str(error)) from error


def _choose(names: str) -> list[Peer]:
    chosen = names.split(",")
    if unknown := [name for name in chosen if name not in CATALOGUE]:
        raise click.BadParameter(
            f"{', '.join(unknown)}: there are {', '.join(CATALOGUE)}", param_hint="--peers"
        )
    return [peer for name, peer in CATALOGUE.items() if name in chosen]


if __name__ == "__main__":
    main()
