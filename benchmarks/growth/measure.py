"""A stream with routers grows from 4 to 6 partitions under a steady load.

First it gets to know `ids` ids, from a backlog. Then messages come at a steady rate, new ones and some repeats of any
earlier one, to all input partitions in turn, so that routers must bring the copies of an id together. After a while
the stream is asked for more partitions, as `dedupe run` does it when the manifest changes. A message's time begins when
its first copy is due, and ends when a read_committed consumer has its record.

The new workers have no counter of bytes. So the bytes that they read are the records that their status counts, each of
the mean size that a record of the old outputs has on the broker's disk: that is what a fetch transfers.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.growth.result import GrowthUse, Learner
from benchmarks.growth.sender import Sent
from benchmarks.growth.timeline import Received, Steps, partitions_of
from benchmarks.harness.check import Verdict, check_all_partitions
from benchmarks.harness.processes import BenchmarkFailed, Process
from benchmarks.harness.router import UNKEYED_SPEC
from benchmarks.harness.stream import manifest_of
from benchmarks.harness.testbed import Testbed
from benchmarks.harness.traffic import VALUE_BYTES, Traffic, send_to, traffic
from dedupe_crds.manifest import load_manifest
from dedupe_crds.status.growth import GrowthStep
from dedupe_crds.status.worker import ReconcileStatus
from dedupe_growth.unlearnt import is_learning
from dedupe_local.run.fleet import Fleet
from dedupe_local.state_dir import StateDir

BEFORE: Final = 4
AFTER: Final = 6
INPUTS: Final = 4
"""Partitions of the input."""

_WARM_UP_SECONDS: Final = 5.0
_LATER_SECONDS: Final = 10.0
_READY_SECONDS: Final = 120.0
_GROWTH_SECONDS: Final = 900.0
_LOOK_SECONDS: Final = 0.02


@dataclass
class _Watched:
    """Looks at a growth: its steps, and what new workers had read.

    `learnt` is that at the end of step Learning.
    """

    steps: Steps
    learnt: Mapping[int, ReconcileStatus] = field(default_factory=dict)
    read: dict[int, ReconcileStatus] = field(default_factory=dict)


@dataclass(frozen=True)
class _Run:
    """A stream that runs, and its traffic: `known` positions are sent before the load."""

    testbed: Testbed
    fleet: Fleet
    source: str
    target: str
    sent: Traffic
    known: int
    report: Callable[[str], None]

    @property
    def servers(self) -> str:
        return self.testbed.bootstrap_servers


def measure_growth(
    testbed: Testbed, *, ids: int, rate: int, seconds: float, report: Callable[[str], None]
) -> GrowthUse:
    """Measure a growth with `ids` known ids, after `seconds` of load.

    Raises BenchmarkFailed, also if the output is wrong.
    """
    longest = seconds + _WARM_UP_SECONDS + _GROWTH_SECONDS + _LATER_SECONDS
    # More than `ids` of them are different.
    sent = traffic(int(1.1 * ids + rate * longest), keyed=False)
    known = int(sent.first_at[ids])
    source = testbed.create_topic("growing", partitions=INPUTS)
    target = f"{source}-clean"
    spec = {**UNKEYED_SPEC, "repartition": {"partitions": BEFORE}}
    manifest = testbed.scratch / "growing.yaml"
    manifest.write_text(manifest_of(testbed.bootstrap_servers, source, target, spec))
    report(f"sending {known:,} messages")
    backlog = sent._replace(numbers=sent.numbers[:known])
    send_to(testbed.bootstrap_servers, source, backlog, np.arange(known) % INPUTS)
    with (
        StateDir(testbed.scratch / "state") as state,
        Fleet(load_manifest(manifest), state) as fleet,
    ):
        report(f"processing {known:,} messages")
        fleet.wait_ready(_READY_SECONDS)
        fleet.wait_drained()
        run = _Run(testbed, fleet, source, target, sent, known, report)
        return _measure(run, ids=ids, rate=rate, seconds=seconds)


def _measure(run: _Run, *, ids: int, rate: int, seconds: float) -> GrowthUse:
    done, watched, received = _under_load(run, rate, seconds)
    steps = watched.steps
    old = received[0][1] < steps.done_ns
    output_records, output_bytes = ids + int(old.sum()), _stored_bytes(run.testbed, run.target)
    run.report("checking the output")
    verdict = _judge(run, run.known + done.count)
    numbers, times = np.concatenate(received, axis=1)
    seen = _seen(run, done, numbers, times)
    asked, ended, begun = steps.asked_ns, steps.done_ns, done.pace.start_ns
    return GrowthUse(
        ids=ids,
        rate=rate,
        before=BEFORE,
        after=AFTER,
        inputs=INPUTS,
        value_bytes=VALUE_BYTES,
        usual=seen.during("before", begun + int(_WARM_UP_SECONDS * 1e9), asked),
        whole=seen.during("growth", asked, ended),
        steps=[seen.during(*span) for span in steps.spans()],
        later=seen.during("after", ended, begun + int(done.pace.seconds * 1e9)),
        learners=_learners(watched, ids),
        output_records=output_records,
        output_bytes=output_bytes,
        pace=done.pace,
        verdict=verdict,
    )


def _under_load(
    run: _Run, rate: int, seconds: float
) -> tuple[Sent, _Watched, list[NDArray[np.int64]]]:
    """Let the stream grow under load; return what each receiver received."""
    scratch, files = run.testbed.scratch, []
    numbers_file, sent_file = scratch / "numbers.npy", scratch / "sent.json"
    np.save(numbers_file, run.sent.numbers[run.known :])
    ends = {each: run.testbed.end_offset(run.target, each) for each in range(BEFORE)}
    with ExitStack() as running:
        receivers = [running.enter_context(_receiver(run, "old", ends))]
        files.append(scratch / "old.npy")
        arguments = (run.servers, run.source, numbers_file, INPUTS, rate, sent_file)
        sender = running.enter_context(
            Process("benchmarks.growth.sender", *arguments, log=scratch / "sender.log")
        )
        sender.wait_until(sent_file.with_suffix(".begun").exists, "it sends")
        run.report(f"{rate:,} messages/s before the growth")
        run.fleet.wait(_WARM_UP_SECONDS + seconds)
        watched = _Watched(Steps(time.monotonic_ns()))
        run.fleet.grow(AFTER)
        while not watched.steps.done:
            _look(run, watched)
            if len(receivers) == 1 and len(watched.steps.begun) > 1:
                starts = dict.fromkeys(range(BEFORE, AFTER), 0)
                receivers.append(running.enter_context(_receiver(run, "new", starts)))
                files.append(scratch / "new.npy")
        run.report(f"{rate:,} messages/s after the growth")
        run.fleet.wait(_LATER_SECONDS)
        sender.stop()
        run.fleet.wait_drained()
        for each in receivers:
            each.stop()
    if not sent_file.exists() or not all(file.exists() for file in files):
        logs = [scratch / name for name in ("sender.log", "old.log", "new.log")]
        raise BenchmarkFailed("\n".join(log.read_text() for log in logs if log.exists()))
    done = Sent.model_validate_json(sent_file.read_text())
    return done, watched, [np.load(file) for file in files]


def _receiver(run: _Run, name: str, starts: Mapping[int, int]) -> Process:
    scratch = run.testbed.scratch
    places = [f"{partition}:{offset}" for partition, offset in starts.items()]
    return Process(
        "benchmarks.growth.receiver",
        *(run.servers, run.target, scratch / f"{name}.npy", *places),
        log=scratch / f"{name}.log",
    )


def _look(run: _Run, watched: _Watched) -> None:
    """Look once at the growth and at its new workers. Raises BenchmarkFailed if it takes too long."""
    run.fleet.wait(_LOOK_SECONDS)
    view, now = run.fleet.view(), time.monotonic_ns()
    watched.steps.see(view.growth.step if view.growth else None, now)
    for worker in view.workers[BEFORE:]:
        if worker.status and worker.status.reconcile and is_learning(worker.status):
            watched.read[worker.partition] = worker.status.reconcile
    if watched.steps.begun[-1].name == GrowthStep.LEARNING:
        watched.learnt = dict(watched.read)
    run.report(view.growth.line if view.growth else "waiting for the growth")
    if now - watched.steps.asked_ns > _GROWTH_SECONDS * 1e9:
        raise BenchmarkFailed(f"the growth is not done in {_GROWTH_SECONDS:.0f} s: {view}")


def _learners(watched: _Watched, ids: int) -> list[Learner]:
    missing = set(range(BEFORE, AFTER)) - watched.learnt.keys()
    if missing:
        raise BenchmarkFailed(f"new workers {missing} were not seen to learn: take more ids")
    (to,) = partitions_of(range(ids), [AFTER])
    shares = np.bincount(to, minlength=AFTER) / ids
    return [
        Learner(
            partition=each,
            records=learnt.records,
            ids=round(learnt.records * float(shares[each])),
            seconds=learnt.seconds,
            records_in_all=watched.read[each].records,
        )
        for each, learnt in sorted(watched.learnt.items())
    ]


def _seen(run: _Run, done: Sent, numbers: NDArray[np.int64], times: NDArray[np.int64]) -> Received:
    """Return what was received of the load."""
    positions = run.sent.first_at[numbers] - run.known
    of_load = positions >= 0
    due = done.pace.due_ns(positions[of_load])
    delay_ms = (times[of_load] - due) / 1e6
    before, after = partitions_of(numbers[of_load].tolist(), [BEFORE, AFTER])
    return Received(due, delay_ms, before != after)


def _judge(run: _Run, count: int) -> Verdict:
    """Read the output, and hold it against the `count` messages that were sent.

    The order of ids from several input partitions is not judged. Raises BenchmarkFailed.
    """
    first_at = run.sent.first_at
    sent = run.sent._replace(
        numbers=run.sent.numbers[:count], first_at=first_at[: np.searchsorted(first_at, count)]
    )
    verdict, _ = check_all_partitions(
        run.servers, run.target, sent, partitions=AFTER, deduplicated=True
    )
    verdict = verdict.model_copy(update={"reordered": 0})
    if not verdict.is_clean:
        raise BenchmarkFailed(f"the output is wrong: {verdict}")
    return verdict


def _stored_bytes(testbed: Testbed, topic: str) -> int:
    """Return the bytes of the old outputs on the broker's disk."""
    logs: list[Path] = []
    for partition in range(BEFORE):
        logs += (testbed.scratch / "broker").rglob(f"{topic}-{partition}/*.log")
    return sum(log.stat().st_size for log in logs)
