"""kopf event handlers: enqueue the affected stream, nothing else.

They are about what users write. `CachedApi` watches what the operator writes.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from threading import Event, Thread
from time import monotonic
from typing import Any, Final

import kopf

from dedupe_crds.openapi import PLURAL, SNAPSHOT_PLURAL
from dedupe_crds.spec.stream import GROUP, VERSION
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.kubernetes.watch_health import WatchHealth

# A watch that ended silently is opened again after this time; until then the resync timer covers its events.
_WATCH_SECONDS: Final = 240
_CONNECT_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.5
_STOP_SECONDS: Final = 5.0
_REFUSED_SECONDS: Final = 5.0
"""A watch that is refused has ended by then."""


class StreamWatches:
    """Runs kopf for each namespace separately.

    It ends where its watch is refused, and is started again after a pause.

    `due` is called with each stream that changes. Without namespaces all are watched. `identity` is the process's name.
    """

    def __init__(
        self, due: Callable[[Key], None], namespaces: Sequence[str], *, identity: str
    ) -> None:
        self._due = due
        self._identity = identity
        self._stop = Event()
        self._threads = [
            Thread(target=self._run, args=(each,), name=f"kopf-{each or 'all'}", daemon=True)
            for each in namespaces or (None,)
        ]

    def start(self) -> None:
        """Start to watch."""
        # It logs each refusal three times; `WatchHealth` logs the first one.
        logging.getLogger("kopf").setLevel(logging.CRITICAL)
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop to watch, within a few seconds."""
        self._stop.set()
        for thread in self._threads:
            thread.join(_STOP_SECONDS)

    def _run(self, namespace: str | None) -> None:
        health = WatchHealth(PLURAL, namespace)
        while not self._stop.is_set():
            try:
                asyncio.run(self._watch(namespace, health))
                pause = health.works()
            except Exception as error:  # noqa: BLE001 (kopf's errors have no common class)
                pause = health.fails(type(error).__name__, str(error))
            self._stop.wait(pause)

    async def _watch(self, namespace: str | None, health: WatchHealth) -> None:
        """Run kopf until it fails or `stop` is called."""
        ended = asyncio.Event()
        stopping = asyncio.create_task(self._end_with(ended, health))
        try:
            await kopf.operator(
                registry=make_registry(self._due),
                standalone=True,  # the Lease decides who acts, not kopf's peering
                clusterwide=namespace is None,
                namespaces=() if namespace is None else (namespace,),
                # Otherwise kopf asks for the user's name, and a user that the platform assigns has none.
                identity=self._identity,  # type: ignore[arg-type] # kopf does not export its type
                stop_flag=ended,
            )
        finally:
            stopping.cancel()

    async def _end_with(self, ended: asyncio.Event, health: WatchHealth) -> None:
        began = monotonic()
        while not self._stop.is_set():
            await asyncio.sleep(_POLL_SECONDS)
            if monotonic() - began > _REFUSED_SECONDS:
                health.works()
        ended.set()


def make_registry(due: Callable[[Key], None]) -> kopf.OperatorRegistry:
    """Return kopf's handlers; kopf itself writes nothing to the cluster.

    The handlers store no state in the objects.
    """
    registry = kopf.OperatorRegistry()

    @kopf.on.startup(registry=registry)
    def configure(settings: kopf.OperatorSettings, **_: Any) -> None:  # noqa: ANN401 # kopf's
        settings.posting.enabled = False
        settings.scanning.disabled = True
        settings.watching.server_timeout = _WATCH_SECONDS
        settings.watching.client_timeout = _WATCH_SECONDS + _CONNECT_SECONDS
        settings.watching.connect_timeout = _CONNECT_SECONDS
        # `StreamWatches` tries again, ever more rarely; kopf would log each attempt as an error.
        settings.networking.error_backoffs = ()

    @kopf.on.login(registry=registry)
    def log_in(**given: Any) -> kopf.ConnectionInfo | None:  # noqa: ANN401 # kopf's
        return kopf.login_via_client(**given)

    @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
    def stream_changed(namespace: str | None, name: str | None, **_: Any) -> None:  # noqa: ANN401
        due(Key(namespace or "", name or ""))

    @kopf.on.event(GROUP, VERSION, SNAPSHOT_PLURAL, registry=registry)
    def snapshot_changed(namespace: str | None, spec: kopf.Spec, **_: Any) -> None:  # noqa: ANN401
        due(Key(namespace or "", spec["streamRef"]["name"]))

    return registry
