"""`dedupe bootstrap`: fill the stores that `dedupe run` then begins with.

The work is the worker's `bootstrap`. Invariant: it holds the lock of the state directory while stores are written.
"""

from contextlib import ExitStack
from dataclasses import dataclass

from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.stop_signals import StopSignals
from dedupe_kafka.client import read_properties
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import TopicUnusable
from dedupe_local.errors import Refused
from dedupe_local.servers.connect import KafkaOptions, connected
from dedupe_local.state_dir import StateDir
from dedupe_pipeline.report.report import Report, Step
from dedupe_worker.bootstrap.progress import Reached, describe
from dedupe_worker.bootstrap.progress import Step as BootstrapStep
from dedupe_worker.bootstrap.request import Request, bootstrap
from dedupe_worker.store.state_dir import StateDirectory


@dataclass(frozen=True, kw_only=True)
class BootstrapOptions(KafkaOptions):
    """The options of `dedupe bootstrap`.

    `only` are the partitions to fill; empty means all.
    """

    only: tuple[int, ...] = ()


def bootstrap_stream(
    stream: DedupeStream, request: Request, options: BootstrapOptions, report: Report
) -> None:
    """Fill the stores in the state directory, and print a summary.

    Raises:
        StreamError: the message names the cause, the place and the remedy.
        Interrupted: a signal came before all stores were filled.
    """
    options.check(stream)
    properties = read_properties(options.kafka_properties)
    reached = Reached()
    with StopSignals() as signals, ExitStack() as running, signals.interrupting(reached.describe):
        path = options.state_dir or StateDir.default_path(stream)
        state = running.enter_context(StateDir(path, say=report.warn))
        stream = running.enter_context(connected(stream, options, state)).stream
        topics = Cluster(stream.spec.kafka.bootstrap_servers, properties).ensure_output(stream)
        if fatal := [problem.message for problem in topics.problems if problem.fatal]:
            raise TopicUnusable("\n".join(fatal))
        if beyond := [number for number in options.only if number >= topics.partitions]:
            raise Refused(
                f"--partition {beyond[0]}: input topic {stream.spec.worker_input} has "
                f"{topics.partitions} partitions, numbered from 0."
            )
        numbers = options.only or range(topics.partitions)
        summary = bootstrap(
            stream,
            properties,
            request,
            {number: StateDirectory(state.partition(number)) for number in numbers},
            work=state.root / "bootstrap",
            on_progress=reached.then(lambda step: _show(step, report)),
        )
    report.result("\n".join(describe(summary)))


def _show(step: BootstrapStep, report: Report) -> None:
    report.step(Step(action=step.action, done=step.done, total=step.total))
