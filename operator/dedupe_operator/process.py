"""The operator as a process: stands by, leads, and ends when it no longer does."""

import logging
import os
import signal
import time
from threading import Event
from typing import Final

import kopf

from dedupe_crds.openapi import PLURAL
from dedupe_crds.spec.stream import API_VERSION
from dedupe_operator import health as http_api
from dedupe_operator.config import OperatorConfig
from dedupe_operator.controller.controller import Controller
from dedupe_operator.controller.reconciler import Reconciler
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.errors import KubernetesError
from dedupe_operator.kubernetes.api import STREAMS, KubernetesApi, load_client
from dedupe_operator.kubernetes.leader_election import Leadership
from dedupe_operator.kubernetes.watches import make_registry
from dedupe_operator.output_conflicts import Rivals
from dedupe_operator.worker_client import Workers

_THREADS: Final = 8
_POLL_SECONDS: Final = 0.5
_LOST_EXIT_CODE: Final = 1

log = logging.getLogger(__name__)


def run_operator(config: OperatorConfig) -> None:
    """Run until SIGTERM or SIGINT. Raises KubernetesError if there is no cluster to work in.

    A leader that lost its Lease ends the process at once, without another write; Kubernetes starts it again, as
    a stand-by.
    """
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    client = load_client()
    leadership = Leadership(config, client.configuration, _end)
    api = KubernetesApi(client, before_write=leadership.check)
    _check_installed(api)
    workers = Workers()
    rivals = Rivals()
    reconciler = Reconciler(api, config.release, workers, rivals, time.monotonic)
    controller = Controller(reconciler.look, threads=_THREADS, lost=_end)
    http_api.serve(config.http_host, config.http_port, lambda: controller.idle_seconds)
    leadership.start()
    log.info("%s stands by", config.identity)
    while not leadership.acquired.wait(_POLL_SECONDS):
        if stop.is_set():
            return
    log.info("%s leads", config.identity)
    _note_streams(api, rivals, config)
    controller.start()
    kopf.run(
        registry=make_registry(controller.due, rivals),
        standalone=True,  # the Lease decides who acts, not kopf's peering
        clusterwide=not config.namespaces,
        namespaces=config.namespaces,
    )
    controller.stop()
    workers.close()
    leadership.release()


def _note_streams(api: KubernetesApi, rivals: Rivals, config: OperatorConfig) -> None:
    """Know all outputs ahead of the first look, or a younger stream could be looked at too early."""
    for namespace in config.namespaces or (None,):
        for stream in api.find(STREAMS, namespace):
            metadata = stream["metadata"]
            rivals.note(Key(metadata["namespace"], metadata["name"]), stream)


def _check_installed(api: KubernetesApi) -> None:
    if not api.serves(API_VERSION):
        raise KubernetesError(
            "NotInstalled",
            f"the cluster does not know {PLURAL} ({API_VERSION}): install the CustomResourceDefinition, which the "
            "chart does with crds.install=true",
        )


def _end() -> None:
    log.error("another operator may lead now; this one ends")
    os._exit(_LOST_EXIT_CODE)
