"""A DedupeStream from watch to StatefulSet: kopf's handler, controller and reconciler, on a cluster in memory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any
from unittest.mock import patch

from dedupe_operator.controller.controller import Controller
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import STATEFUL_SETS, STREAMS
from dedupe_operator.kubernetes.watches import make_registry
from tests.support.patience import HANG_SECONDS
from tests.support.tracer import Tracer
from tests.unit.operator.objects import NAMESPACE, STREAM
from tests.unit.operator.scene import Scene


def handlers_of(due: Callable[[Key], None]) -> dict[str, Callable[..., object]]:
    """Return kopf's handlers of events, by the names of their functions."""
    registry = make_registry(due)
    functions: list[Any] = [each.fn for each in registry._watching.get_all_handlers()]  # noqa: SLF001 (kopf would call them)
    return {function.__name__: function for function in functions}


@contextmanager
def until_stateful_set(tracer: Tracer, scene: Scene) -> Iterator[None]:
    """End the recording when the operator applies a StatefulSet."""
    real = scene.cluster.apply

    def apply(wanted: Object, **options: Any) -> Object:  # noqa: ANN401 (as the API's)
        if wanted["kind"] == STATEFUL_SETS.kind:
            tracer.stop()
        return real(wanted, **options)

    with patch.object(scene.cluster, "apply", apply):
        yield


def run(tracer: Tracer, scene: Scene) -> None:
    """Take the walk: from the event about a new stream until its first StatefulSet is applied."""
    done = Event()

    def reconcile(key: Key) -> float | None:
        try:
            return scene.reconciler.reconcile(key)
        finally:
            done.set()

    with tracer.installed(), until_stateful_set(tracer, scene):
        controller = Controller(reconcile, threads=1, lost=lambda: None)
        handlers = handlers_of(controller.due)
        with tracer.record():
            handlers["stream_changed"](
                namespace=NAMESPACE,
                name=STREAM,
                body=scene.cluster.one(STREAMS.kind, STREAM),
                type="ADDED",
            )
            controller.start()
            assert done.wait(HANG_SECONDS)
        controller.stop()
