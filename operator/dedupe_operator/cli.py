"""`dedupe-operator`: read the options, then run the operator process."""

import json
import logging
import socket
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Final, TypeVar

import click
import kopf
from pydantic import ValidationError

from dedupe_crds.base import Model
from dedupe_crds.command_line import add_help_and_version
from dedupe_crds.errors import explain
from dedupe_crds.exit_status import ExitStatus
from dedupe_crds.spec.pod import PodShape
from dedupe_httpd.address import parse_address
from dedupe_kafka.errors import InvalidConfig
from dedupe_operator.config import LEASE_SECONDS, MEMORY_BYTES, OperatorConfig
from dedupe_operator.decide.allow_list import AllowList
from dedupe_operator.errors import KubernetesError
from dedupe_operator.process import run_operator
from dedupe_operator.resources.pod_parts import PodIds
from dedupe_operator.resources.pod_template import WorkerRelease

_OWN_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_M = TypeVar("_M", bound=Model)


@click.command(context_settings={"auto_envvar_prefix": "DEDUPE_OPERATOR", "show_default": True})
@click.option(
    "--worker-image", required=True, help="Worker image for streams without spec.worker.image."
)
@click.option(
    "--worker-image-pull-policy",
    type=click.Choice(["Always", "IfNotPresent", "Never"]),
    default="IfNotPresent",
    help="Pull policy of the worker image.",
)
@click.option(
    "--worker-probe-port",
    type=click.IntRange(1, 65535),
    help="Port on which workers of that image answer probes only. Default: the port of their API, "
    "which workers of any version have.",
)
@click.option(
    "--worker-pod",
    default="{}",
    callback=lambda _, __, text: _parsed(PodShape, text),
    help="JSON with defaults of spec.worker's fields about pods, for all streams.",
)
@click.option(
    "--worker-ids",
    default="{}",
    callback=lambda _, __, text: _parsed(PodIds, text),
    help="JSON with runAsUser, runAsGroup and fsGroup of the workers; null: the platform assigns it.",
)
@click.option(
    "--upgrade-streams-at-once",
    type=click.IntRange(min=1),
    default=1,
    help="Number of streams that get a new worker image at the same time.",
)
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    help="Namespace to watch (repeatable). Default: all.",
)
@click.option(
    "--max-nodes-not-ready-percent",
    type=click.IntRange(0, 100),
    default=50,
    help="No worker is moved from its node by force while more nodes than this are not ready.",
)
@click.option(
    "--failover/--no-failover",
    default=True,
    help="Move workers away from nodes that are not ready. It needs rights on nodes and VolumeAttachments.",
)
@click.option(
    "--cluster-scope/--no-cluster-scope",
    default=True,
    help="Use cluster-scoped objects: nodes and StorageClasses. Without them there is no failover.",
)
@click.option(
    "--allow-image",
    "allowed_images",
    multiple=True,
    help="Image, repository or registry that streams may name (repeatable). Default: all.",
)
@click.option(
    "--allow-bootstrap-server",
    "allowed_servers",
    multiple=True,
    help="HOST, HOST:PORT or *.DOMAIN that streams may name (repeatable). Default: all.",
)
@click.option(
    "--allow-token-endpoint",
    "allowed_token_endpoints",
    multiple=True,
    help="URL of an OAuth token endpoint that Secrets may name (repeatable). Default: none.",
)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info"
)
@click.option("--log-format", type=click.Choice(["json", "text"]), default="json")
@click.option(
    "--http",
    "address",
    default="0.0.0.0:8080",
    callback=lambda _, __, text: _parsed_address(text),
    help="HOST:PORT to listen on.",
)
@click.option("--lease-namespace", help="Namespace of the Lease. Default: the pod's namespace.")
@click.option("--lease-name", default="dedupestream-operator", help="Name of the Lease.")
@click.option(
    "--lease-seconds",
    type=click.IntRange(min=LEASE_SECONDS),
    default=LEASE_SECONDS,
    help="Time that the Lease is valid after a renewal. A replica takes over that long after a loss of the leader.",
)
@click.option(
    "--memory-bytes",
    type=click.IntRange(min=1),
    default=MEMORY_BYTES,
    help="Memory of the operator. Connections to Kafka take up to half of it, those of one namespace a quarter.",
)
@click.option("--identity", help="Name of this replica in the Lease. Default: the host name.")
def main(  # noqa: PLR0917 (click passes each option by name)
    worker_image: str,
    worker_image_pull_policy: str,
    worker_probe_port: int | None,
    worker_pod: PodShape,
    worker_ids: PodIds,
    upgrade_streams_at_once: int,
    namespaces: tuple[str, ...],
    max_nodes_not_ready_percent: int,
    failover: bool,
    cluster_scope: bool,
    allowed_images: tuple[str, ...],
    allowed_servers: tuple[str, ...],
    allowed_token_endpoints: tuple[str, ...],
    log_level: str,
    log_format: str,
    address: tuple[str, int],
    lease_namespace: str | None,
    lease_name: str,
    lease_seconds: int,
    memory_bytes: int,
    identity: str | None,
) -> None:
    """Reconcile DedupeStreams until SIGTERM.

    Of several replicas, one acts. Exit codes: 0 stopped; 2 an option is wrong; 3 the cluster is unusable or Lease lost.
    """
    _configure_logging(log_level, log_format)
    config = OperatorConfig(
        release=WorkerRelease(
            version=version("dedupestream"),
            image=worker_image,
            pull_policy=worker_image_pull_policy,
            probe_port=worker_probe_port,
            shape=worker_pod,
            ids=worker_ids,
            streams_at_once=upgrade_streams_at_once,
        ),
        namespaces=namespaces,
        max_nodes_not_ready_percent=max_nodes_not_ready_percent,
        failover=failover and cluster_scope,
        cluster_scope=cluster_scope,
        allowed=AllowList(
            images=allowed_images,
            bootstrap_servers=allowed_servers,
            token_endpoints=allowed_token_endpoints,
        ),
        http_host=address[0],
        http_port=address[1],
        lease_namespace=lease_namespace or _own_namespace(),
        lease_name=lease_name,
        lease_seconds=lease_seconds,
        memory_bytes=memory_bytes,
        identity=identity or socket.gethostname(),
    )
    _run(config)


def _run(config: OperatorConfig) -> None:
    """Run the operator; end with the exit code of what stops it."""
    try:
        run_operator(config)
    except InvalidConfig as error:
        raise click.UsageError(f"--http: {error}") from error
    except KubernetesError as error:
        logging.getLogger(__name__).error("%s: %s", error.reason, error)  # its message is enough
        sys.exit(ExitStatus.FAILED)


def _configure_logging(level: str, form: str) -> None:
    kopf.configure(log_format=kopf.LogFormat.JSON if form == "json" else kopf.LogFormat.FULL)
    logging.getLogger().setLevel(level.upper())
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)  # it logs every event
    logging.getLogger("httpx").setLevel(logging.WARNING)  # and this one every request


def _parsed_address(text: str) -> tuple[str, int]:
    """Read --http. Raises click.UsageError."""
    try:
        return parse_address("--http", text)
    except InvalidConfig as error:
        raise click.UsageError(str(error)) from error


def _parsed(model: type[_M], text: str) -> _M:
    """Read an option that is a JSON object. Raises click.BadParameter."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"is not JSON: {error}") from None
    try:
        return model.model_validate(document, by_alias=True, by_name=False)
    except ValidationError as error:
        raise click.BadParameter("\n".join(explain(error, document, model))) from None


def _own_namespace() -> str:
    try:
        return _OWN_NAMESPACE.read_text().strip()
    except OSError:
        raise click.UsageError("outside of a pod, --lease-namespace is required") from None


add_help_and_version(main)
