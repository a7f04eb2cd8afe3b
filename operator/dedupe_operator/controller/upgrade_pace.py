"""Pace an operator upgrade: it changes the pods of a few streams at a time.

The reconciler calls it in the place of the applier. It decides from the objects of a stream alone who is upgraded, and
who waits, so a new operator continues where another one stopped.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Lock
from typing import Final

from dedupe_crds.annotations import RESTART
from dedupe_crds.spec.stream import DedupeStream
from dedupe_operator.controller.apply import Applier
from dedupe_operator.controller.context import ReconcileContext, ReconcileResult
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.decide import rollout
from dedupe_operator.decide.pod_readiness import is_ready
from dedupe_operator.decide.stream_status import StreamEvent
from dedupe_operator.kubernetes.names import CONFIG_HASH, RELEASE, Object
from dedupe_operator.resources.pod_template import WorkerRelease

TURN_SECONDS: Final = 900.0
# Longer than the first passes over all streams, which begin at once when the process starts to watch: each stream that
# was begun before takes its turn first. A resync at rest may take longer, but what is begun is not at rest.
FIRST_TURN_AFTER_SECONDS: Final = 60.0

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Turn:
    """A stream's turn: the workers that are done, and when their number changed."""

    done: int
    since: float
    is_logged: bool = False


class UpgradePace:
    """Gives out turns, and applies streams. Safe to use from any thread.

    `clock` returns seconds and never goes backward.
    """

    def __init__(
        self, applier: Applier, release: WorkerRelease, clock: Callable[[], float]
    ) -> None:
        self._applier = applier
        self._release = release
        self._clock = clock
        self._first_call: float | None = None
        self._turns: dict[Key, _Turn] = {}
        # Streams whose workers all were as this version wants them. Their images alone would not say so where a
        # StatefulSet has no hash: a webhook may have changed them.
        self._done: set[Key] = set()
        self._lock = Lock()

    def apply(self, context: ReconcileContext, result: ReconcileResult) -> None:
        """Apply a stream; leave its processes unchanged while its upgrade must wait."""
        with self._lock:
            waits = self._must_wait(context, result)
        if waits:
            # Without this hash no worker is started or changed.
            context = replace(context, secrets_hash=None)
        self._applier.apply(context, result)
        changing = result.waiting or result.starting or result.routers_change
        if not waits and context.secrets_hash is not None and not changing:
            with self._lock:
                self._turns.pop(context.key, None)
                self._done.add(context.key)

    def forget(self, key: Key) -> None:
        """Forget a deleted stream, so that another one gets its turn."""
        with self._lock:
            self._turns.pop(key, None)
            self._done.discard(key)
        self._applier.children.forget(key)

    def _must_wait(self, context: ReconcileContext, result: ReconcileResult) -> bool:
        now = self._clock()
        if self._first_call is None:
            self._first_call = now
        key = context.key
        if key in self._done:
            return False
        observed = context.observed
        sets = list(observed.stateful_sets.values())
        outdated = [each for each in sets if not self._has(context.stream, each)]
        processes = [(observed.stateful_sets.get(n), pod) for n, pod in observed.pods.items()]
        processes += [(observed.router_set, pod) for pod in observed.routers.values()]
        done = sum(self._is_done(context.stream, live, pod) for live, pod in processes)
        is_done = not outdated and done == len(processes) and len(processes) >= len(sets)
        if context.stream.spec.suspend or not sets or is_done:
            self._turns.pop(key, None)
            return False
        is_free = not self._others(now) and now - self._first_call >= FIRST_TURN_AFTER_SECONDS
        may_wait = key not in self._turns and _only_the_release_changed(context, result, outdated)
        if may_wait and not is_free:
            self._report_waiting(result, now)
            return True
        self._take_turn(context, done, result, now)
        return False

    def _others(self, now: float) -> list[Key]:
        """Return the streams for which others wait, if that many may be upgraded."""
        held = [key for key, turn in self._turns.items() if now - turn.since < TURN_SECONDS]
        return sorted(held) if len(held) >= self._release.streams_at_once else []

    def _has(self, stream: DedupeStream, live: Object) -> bool:
        """Return whether a StatefulSet is as this installation wants it.

        One that an earlier version applied has no hash: then its image decides.
        """
        annotations = live["metadata"].get("annotations") or {}
        if RELEASE in annotations:
            return bool(annotations[RELEASE] == self._release.hash_of(stream))
        containers = live["spec"]["template"]["spec"]["containers"]
        return bool(containers[0]["image"] == self._release.image_of(stream))

    def _is_done(self, stream: DedupeStream, live: Object | None, pod: Object) -> bool:
        if live is None or not self._has(stream, live):
            return False
        return is_ready(pod) and rollout.is_newest(live, [pod])

    def _take_turn(
        self, context: ReconcileContext, done: int, result: ReconcileResult, now: float
    ) -> None:
        key = context.key
        turn = self._turns.setdefault(key, _Turn(done, now))
        if turn.done < done:
            self._turns[key] = _Turn(done, now)
        elif now - turn.since >= TURN_SECONDS:
            message = (
                f"No further process of {key.namespace}/{key.name} became ready after the upgrade within "
                f"{TURN_SECONDS / 60:.0f} minutes. Its upgrade continues, and other streams are upgraded now. See "
                "`kubectl dedupe describe-problem`, or set spec.worker.image to the earlier image."
            )
            if not turn.is_logged:
                log.warning("%s", message)
            turn.is_logged = True
            event = StreamEvent(reason="UpgradeStuck", message=message, warning=True, ongoing=True)
            result.events.append(event)

    def _report_waiting(self, result: ReconcileResult, now: float) -> None:
        if others := self._others(now):
            names = ", ".join(f"{each.namespace}/{each.name}" for each in others)
            message = f"The operator was upgraded. It changes the workers when {names} is ready."
            event = StreamEvent(reason="UpgradeWaits", message=message, ongoing=True)
            result.events.append(event)


def _only_the_release_changed(
    context: ReconcileContext, result: ReconcileResult, outdated: list[Object]
) -> bool:
    """Return whether a stream is well, and all workers are as before the upgrade.

    A stream that its user changes, or that needs a repair, does not wait. Its first changed worker shows later that
    it was begun.
    """
    observed = context.observed
    if len(outdated) < len(observed.stateful_sets) or (
        context.growth and context.growth.hands_over
    ):
        return False
    if context.generation != context.recorded.observed_generation:
        return False
    if result.claims.keys() != observed.stateful_sets.keys() or result.undecided:
        return False
    return all(
        is_ready(observed.pods.get(partition))
        and _mounts(live, result.claims[partition].name)
        and _as_the_user_wants(live, context)
        for partition, live in observed.stateful_sets.items()
    )


def _as_the_user_wants(live: Object, context: ReconcileContext) -> bool:
    """Return whether what is not in the generation is unchanged: restarts and Secrets."""
    annotations = live["spec"]["template"]["metadata"].get("annotations") or {}
    restart = context.stream.metadata.annotations.get(RESTART)
    # Of the manifest, of the Secrets and, if there are any, of the ServiceAccount's annotations.
    _, _, rest = str(annotations.get(CONFIG_HASH, "")).partition("-")
    secrets = rest.partition("-")[0]
    return bool((annotations.get(RESTART) or None) == (restart or None)) and (
        context.secrets_hash in {None, secrets}
    )


def _mounts(live: Object, claim: str) -> bool:
    volumes = live["spec"]["template"]["spec"]["volumes"]
    names = [(each.get("persistentVolumeClaim") or {}).get("claimName") for each in volumes]
    return claim in names
