"""The command line of the test cluster: `python -m tests.cluster`."""

import os
import shutil
import signal
import subprocess
import sys
import time

import click

from tests.cluster import chart, environment
from tests.cluster.environment import Environment
from tests.cluster.errors import ClusterError
from tests.cluster.images import PARTS, PIPELINE, image_name
from tests.cluster.kafka import ensure_broker, stop_broker
from tests.cluster.paths import STATE, cluster_dir
from tests.cluster.providers import Provider, choose

# Volumes, logs and images of all tests. With less than 500 MiB the nodes end pods, and nobody sees why.
_DISK_BYTES = 5 << 30

_NODES = click.option("--nodes", type=click.IntRange(1, 9), default=1, show_default=True)


@click.group()
def main() -> None:
    """Start, use and remove the test cluster."""


@main.command()
@_NODES
@click.option(
    "--chart/--no-chart", "with_chart", default=True, help="Install the chart in the cluster."
)
def up(nodes: int, *, with_chart: bool) -> None:
    """Start a cluster and a Kafka broker, load the images, install the chart.

    In a cluster that runs already, images and chart are updated.
    """
    started = time.monotonic()
    _up(choose(), nodes, with_chart=with_chart)
    click.echo(
        f"The cluster is up after {time.monotonic() - started:.0f} s. Use it from this shell:\n"
        '  eval "$(make -s cluster-env)"',
        err=True,
    )


@main.command()
def env() -> None:
    """Print `export` lines for a shell."""
    click.echo(environment.current().exports())


@main.command()
def down() -> None:
    """Remove the cluster and the broker with all their data."""
    _down(choose())


@main.command()
@click.argument("parts", nargs=-1, type=click.Choice([*PARTS, PIPELINE]))
def images(parts: tuple[str, ...]) -> None:
    """Build the images of PARTS and print their ids (docker) or files.

    Default PARTS: worker and operator.
    """
    for part, found in choose().build_images(parts or PARTS).items():
        click.echo(f"{image_name(part)}  {found}")


@main.command(context_settings={"ignore_unknown_options": True})
@_NODES
@click.argument("command", nargs=-1, required=True)
def run(command: tuple[str, ...], nodes: int) -> None:
    """Run COMMAND with the variables of a cluster.

    It is the cluster of KUBECONFIG if that is set, else our own. A cluster that was not running is started with
    --nodes nodes, and removed afterwards.
    """
    if os.environ.get("KUBECONFIG"):
        sys.exit(_run_in(environment.current(), command))
    provider = choose()
    was_up = provider.is_up()
    # SIGTERM, such as from a CI timeout, must remove the cluster too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        cluster = _up(provider, nodes, with_chart=True)
        code = _run_in(cluster, command)
    finally:
        if not was_up:
            _down(provider)
    sys.exit(code)


def _up(provider: Provider, nodes: int, *, with_chart: bool) -> Environment:
    _check_disk()
    provider.start(nodes)
    _say("starting the Kafka broker")
    bootstrap = ensure_broker(provider.host())
    keys = provider.load_images()
    cluster = Environment(
        kubeconfig=str(provider.kubeconfig),
        kafka_bootstrap=bootstrap,
        kafka_bootstrap_in_cluster=bootstrap,
        operator_image=image_name("operator"),
        worker_image=image_name("worker"),
        node_control=str(provider.node_control) if provider.node_control else None,
        tools=str(provider.tools),
        settings=environment.settings_in(os.environ),
    )
    cluster.save()
    if with_chart:
        _say("installing the chart")
        chart.install(cluster, made_from=keys["operator"])
    return cluster


def _check_disk() -> None:
    """Raise ClusterError if the tests would fill the disk."""
    directory = next(each for each in cluster_dir().absolute().parents if each.exists())
    free = shutil.disk_usage(directory).free
    if free < _DISK_BYTES:
        raise ClusterError(
            f"{free >> 20} MiB are free for {directory}, and the tests on a cluster need {_DISK_BYTES >> 20}: "
            "remove what you do not need, such as ~/.cache/uv or ~/.cache/dedupestream/buildah"
        )


def _down(provider: Provider) -> None:
    stop_broker()
    provider.stop()
    shutil.rmtree(STATE, ignore_errors=True)


def _run_in(cluster: Environment, command: tuple[str, ...]) -> int:
    variables = {**os.environ, **cluster.variables(), "PATH": cluster.path()}
    return subprocess.run(command, check=False, env=variables).returncode


def _say(what: str) -> None:
    click.echo(f"{time.strftime('%H:%M:%S')} {what}", err=True)


if __name__ == "__main__":
    try:
        main()
    except ClusterError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)
