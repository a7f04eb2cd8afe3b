"""kopf event handlers: enqueue the affected stream, nothing else.

They are about what users write. `CachedApi` watches what the operator writes.
"""

from collections.abc import Callable
from typing import Any, Final

import kopf

from dedupe_crds.openapi import PLURAL, SNAPSHOT_PLURAL
from dedupe_crds.spec.stream import GROUP, VERSION
from dedupe_operator.controller.work_queue import Key

# A watch that ended silently is opened again after this time; until then the resync timer covers its events.
_WATCH_SECONDS: Final = 240
_CONNECT_SECONDS: Final = 10.0


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
