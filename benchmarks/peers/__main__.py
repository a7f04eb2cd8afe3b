"""`python -m benchmarks.peers`: install the peers, measure each in turn, print, keep; see README.md beside this."""

import tempfile
from pathlib import Path
from typing import Final

import click
from confluent_kafka import KafkaException
from rich.console import Console

from benchmarks.harness.machine import describe_machine
from benchmarks.harness.processes import BenchmarkFailed
from benchmarks.harness.testbed import Testbed
from benchmarks.peers.catalogue import PEERS as CATALOGUE
from benchmarks.peers.measure import measure_peers
from benchmarks.peers.peer import Peer
from benchmarks.peers.results import Peers
from benchmarks.report import show
from benchmarks.reporting.render import PAGE, PEERS, Measured, save, write_page
from dedupe_pipeline.errors import PipelineError

_OUTPUT: Final = Path("build/bench")

_console = Console()
if not _console.is_terminal:
    _console.width = 160


@click.command(context_settings={"show_default": True})
@click.option(
    "--messages", type=click.IntRange(min=100_000), default=1_000_000, help="The size of a run."
)
@click.option(
    "--rounds", type=click.IntRange(min=1), default=3, help="How often each peer has its turn."
)
@click.option(
    "--peers",
    default=",".join(CATALOGUE),
    help="Which of them, separated by commas.",
)
@click.option("--crash/--no-crash", default=True, help="Whether each is killed three times, too.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=_OUTPUT,
    help="Where the results go, and meanwhile the broker's data.",
)
@click.option(
    "--page",
    type=click.Path(dir_okay=False, path_type=Path),
    default=PAGE,
    show_default="docs/performance.md",
    help="The page whose results are replaced.",
)
def main(*, messages: int, rounds: int, peers: str, crash: bool, output: Path, page: Path) -> None:
    """Measure this project beside others on this machine. Nothing else should run meanwhile."""
    chosen = _choose(peers)
    output.mkdir(parents=True, exist_ok=True)
    machine = describe_machine()
    try:
        for peer in chosen:
            _console.print(f"installing {peer.title}", style="dim")
            peer.install()
        result = _measure(chosen, output, messages=messages, rounds=rounds, crash=crash)
    except (BenchmarkFailed, KafkaException, PipelineError) as failed:
        raise click.ClickException(str(failed)) from failed
    save(Measured(machine=machine, result=result), output)
    show(_console, machine, result)
    write_page(PEERS, output, page)
    _console.print(f"Results in {output}; {page} is updated.")


def _measure(chosen: list[Peer], output: Path, *, messages: int, rounds: int, crash: bool) -> Peers:
    with (
        tempfile.TemporaryDirectory(dir=output, prefix="scratch-") as scratch,
        Testbed(Path(scratch).absolute()) as testbed,
        _console.status("starting") as status,
    ):
        return measure_peers(
            testbed,
            chosen,
            messages=messages,
            rounds=rounds,
            crash=crash,
            tell=status.update,
            done=lambda line: _console.print(line, highlight=False, markup=False),
        )


def _choose(names: str) -> list[Peer]:
    chosen = names.split(",")
    if unknown := [name for name in chosen if name not in CATALOGUE]:
        raise click.BadParameter(
            f"{', '.join(unknown)}: there are {', '.join(CATALOGUE)}", param_hint="--peers"
        )
    return [peer for name, peer in CATALOGUE.items() if name in chosen]


if __name__ == "__main__":
    main()
