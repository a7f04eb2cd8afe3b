"""Run the operator process: wait for the Lease, lead, exit when it is lost.

The command line calls `run_operator`. It builds all parts and passes the clock down.
"""

import logging
import os
import signal
import time
from threading import Event
from typing import Final

from dedupe_crds.exit_status import ExitStatus
from dedupe_crds.openapi import PLURAL
from dedupe_crds.spec.stream import API_VERSION
from dedupe_operator import health
from dedupe_operator.config import OperatorConfig
from dedupe_operator.controller.controller import Controller
from dedupe_operator.controller.kafka_view import KafkaViews
from dedupe_operator.controller.reconciler import Reconciler
from dedupe_operator.controller.status_writer import read_status
from dedupe_operator.errors import KubernetesError
from dedupe_operator.input_watch import InputWatch
from dedupe_operator.kafka_access import KafkaAccess
from dedupe_operator.kafka_asks import KafkaAsks
from dedupe_operator.kubernetes.api import KubernetesApi
from dedupe_operator.kubernetes.cached_api import CachedApi
from dedupe_operator.kubernetes.client import load_client
from dedupe_operator.kubernetes.leader_election import Leadership
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import STREAMS
from dedupe_operator.kubernetes.watches import StreamWatches
from dedupe_operator.output_conflicts import OutputConflicts
from dedupe_operator.worker_client import WorkerClient

_THREADS: Final = 8
_POLL_SECONDS: Final = 0.5

log = logging.getLogger(__name__)


def run_operator(config: OperatorConfig) -> None:
    """Run until SIGTERM or SIGINT.

    Raises KubernetesError without a usable cluster, InvalidConfig if the address of HTTP cannot be used.

    A leader that lost its Lease exits the process at once, without another write; Kubernetes restarts it as a
    stand-by.
    """
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    client = load_client()
    leadership = Leadership(config, client.configuration, _end)
    api = CachedApi(client, leadership.check, config.namespaces)
    _check_installed(api)
    workers = WorkerClient()
    one_tenant = len(config.namespaces) == 1
    output_conflicts = OutputConflicts(
        believed=one_tenant or bool(config.allowed.bootstrap_servers)
    )
    asks = KafkaAsks(time.monotonic, allowed=config.allowed, check=leadership.check)
    input_watch = InputWatch(asks)
    access = KafkaAccess(config.memory_bytes // 2)
    reconciler = Reconciler(
        *(api, config.release, workers, asks, KafkaViews(input_watch, output_conflicts, access)),
        clock=time.monotonic,
        max_nodes_not_ready_percent=config.max_nodes_not_ready_percent,
        failover=config.failover,
        cluster_scope=config.cluster_scope,
        allowed=config.allowed,
    )
    controller = Controller(reconciler.reconcile, threads=_THREADS, lost=_end)
    health.serve(config.http_host, config.http_port, lambda: controller.idle_seconds)
    leadership.start()
    log.info("%s waits for the Lease", config.identity)
    while not leadership.acquired.wait(_POLL_SECONDS):
        if stop.is_set():
            return
    log.info("%s is the leader", config.identity)
    _load_outputs(api, output_conflicts, config)
    watches = StreamWatches(controller.due, config.namespaces, identity=config.identity)
    api.start(controller.due)
    controller.start()
    asks.start(controller.due)
    input_watch.start(controller.due)
    watches.start()
    while not stop.wait(_POLL_SECONDS):
        pass
    watches.stop()
    api.stop()
    input_watch.stop()
    controller.stop()
    asks.stop()
    workers.close()
    leadership.release()


def _load_outputs(
    api: KubernetesApi, output_conflicts: OutputConflicts, config: OperatorConfig
) -> None:
    """Load which stream has which topics before the first reconcile.

    One of several namespaces in which the operator has no rights is left out: it must not stop the others.
    """
    found: list[Object] = []
    for namespace in config.namespaces or (None,):
        try:
            found += api.find(STREAMS, namespace)
        except KubernetesError as error:
            if namespace is None or error.reason not in {"Forbidden", "NotFound"}:
                raise
            log.warning("the streams of %s are not known: %s: %s", namespace, error.reason, error)
    output_conflicts.load((stream, read_status(stream)) for stream in found)


def _check_installed(api: KubernetesApi) -> None:
    if not api.serves(API_VERSION):
        raise KubernetesError(
            "NotInstalled",
            f"the cluster does not serve {PLURAL} ({API_VERSION}): install the CustomResourceDefinition, for example "
            "with the chart value crds.install=true",
        )


def _end() -> None:
    log.error("the Lease is lost: another operator may be the leader; this process exits")
    os._exit(ExitStatus.FAILED)
