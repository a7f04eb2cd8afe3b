"""Run Spark's batch work so that a signal ends it cleanly.

The commands `audit` and `bootstrap` call it. A signal's handler that raises in the middle of a call to the JVM leaves
its answer unread on the connection. The next call of this thread waits until the work is done, and takes that answer
for its own. So the work has a thread, and the main thread only waits.
"""

from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from threading import Thread
from typing import Final, TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped] # has no annotations
from pyspark.sql import SparkSession

from dedupe_crds.deadline import Deadline
from dedupe_crds.stop_signals import StopSignals

_POLL_SECONDS: Final = 0.2
_CANCEL_SECONDS: Final = 20.0

Result = TypeVar("Result")


def interruptible(
    work: Callable[[], Result], session: SparkSession, signals: StopSignals, progress: str
) -> Result:
    """Return the result of some work.

    Raises:
        Interrupted: a signal came before it was done. `progress` says how far it is: "before …".
    """
    done: Future[Result] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 (the main thread raises it)
            done.set_exception(error)

    signals.interrupt(progress)
    Thread(target=run, name="work", daemon=True).start()
    while not wait([done], _POLL_SECONDS).done:
        if signals.stop.is_set():
            _cancel(done, session)
            signals.interrupt(progress)
    return done.result()


def _cancel(done: Future[Result], session: SparkSession) -> None:
    """Cancel the jobs of the work until it has ended.

    Once is not enough: the signal may come between two jobs. The thread of work that still runs ends with the process.
    """
    deadline = Deadline(_CANCEL_SECONDS)
    while not deadline.expired:
        with suppress(Py4JError):
            session.sparkContext.cancelAllJobs()
        if wait([done], _POLL_SECONDS).done:
            return
