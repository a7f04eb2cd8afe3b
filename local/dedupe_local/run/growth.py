"""Run the controller of a growth next to the processes of a stream.

The fleet calls it. The controller asks Kafka, which may take seconds, so it has its own thread.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.growth import GrowthStatus, GrowthStep
from dedupe_crds.status.worker import WorkerStatus
from dedupe_growth.controller import GrowthController
from dedupe_growth.unlearnt import unlearnt
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import StreamError, TopicUnusable
from dedupe_kafka.stream_topics import StreamTopics

_LOG: Final = logging.getLogger(__name__)
_DEFECT: Final = "(a defect of the program: please report it with the log)"
_GROWING_SECONDS: Final = 0.25
_RESTING_SECONDS: Final = 3.0
_AGAIN_SECONDS: Final = 1.0


class OutputTopics(Protocol):
    """The part of `Cluster` that this needs."""

    def ensure_output(self, stream: DedupeStream) -> StreamTopics: ...  # noqa: D102


Statuses = Callable[[], Sequence[WorkerStatus | None]]


class Growth:
    """Calls a controller until `stop`. The topics of `stream` exist."""

    def __init__(
        self,
        controller: GrowthController,
        stream: DedupeStream,
        topics: OutputTopics,
        statuses: Statuses,
    ) -> None:
        self._controller = controller
        self._topics = topics
        self._stream = self._asked = stream
        self._statuses = statuses
        self._stop = False
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name="growth", daemon=True)
        self.problem = ""
        """The reason why the last step failed, "" if it did not."""

    def begin(self, known: int) -> None:
        """Write what can be written before any process runs. Raises StreamError.

        `known` is the number of partitions that have had workers here: a stream of a release without epochs begins
        with these.
        """
        wanted = _wanted(self._stream)
        epochs = self._controller.read()
        while self._controller.step(wanted if epochs.entries else known or wanted, {}):
            epochs = self._controller.epochs
        self._thread.start()

    def ask(self, stream: DedupeStream) -> None:
        """Take the stream to the partitions of this manifest."""
        self._asked = stream
        self._woken.set()

    def stop(self) -> None:
        """End the thread; the next run continues."""
        self._stop = True
        self._woken.set()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def workers(self) -> int:
        """Return the number of partitions that need workers."""
        return self._controller.epochs.workers

    @property
    def under_way(self) -> bool:
        """Return whether partitions are being added."""
        # Until the last step is shown as done as well.
        shown = self.status is not None and self.status.step is not GrowthStep.DONE
        return shown or self._controller.epochs.grows or _wanted(self._asked) > self.workers

    @property
    def status(self) -> GrowthStatus | None:
        """Return the step of the present growth, or the last one, if there was one."""
        return self._controller.status

    def notes(self) -> list[str]:
        """Return what a user should know."""
        waiting = [f"The growth waits: {self.problem}"] if self.problem else []
        return [*([self._step] if self.under_way else []), *waiting]

    @property
    def _step(self) -> str:
        if self.status is not None and self.status.step is not GrowthStep.DONE:
            return self.status.line
        return f"The growth to {_wanted(self._asked)} partitions has not begun."

    def _run(self) -> None:
        while not self._stop:
            # Before it looks at what is asked, so that nothing asked meanwhile waits.
            self._woken.clear()
            try:
                self._ensure_topics()
                done = self._controller.step(_wanted(self._stream), unlearnt(self._statuses()))
                self.problem = ""
                pause = 0.0 if done else self._rest
            except StreamError as error:
                self.problem = f"{error.reason}: {error}"
                pause = _AGAIN_SECONDS
            except Exception as error:  # noqa: BLE001 (a thread that ends would end the growth without a word)
                problem = f"{type(error).__name__}: {error} {_DEFECT}"
                if problem != self.problem:
                    _LOG.exception("The growth failed; it is tried again.")
                self.problem = problem
                pause = _AGAIN_SECONDS
            if not self._stop:
                self._woken.wait(pause)

    def _ensure_topics(self) -> None:
        """Give the topics as many partitions as the manifest asks for now."""
        asked = self._asked
        if asked is self._stream:
            return
        topics = self._topics.ensure_output(asked)
        if fatal := [problem.message for problem in topics.problems if problem.fatal]:
            raise TopicUnusable("\n".join(fatal))
        self._stream = asked

    @property
    def _rest(self) -> float:
        return _GROWING_SECONDS if self.under_way else _RESTING_SECONDS


def growth_of(
    stream: DedupeStream,
    properties: Mapping[str, str],
    connect: Callable[[], Cluster],
    *,
    statuses: Statuses,
) -> Growth | None:
    """Return the growth of a stream with routers, with its own connection."""
    if stream.spec.repartition is None:
        return None
    cluster = connect()
    controller = GrowthController(stream, properties, cluster)
    return Growth(controller, stream, cluster, statuses)


def _wanted(stream: DedupeStream) -> int:
    return stream.spec.repartition.partitions if stream.spec.repartition else 0
