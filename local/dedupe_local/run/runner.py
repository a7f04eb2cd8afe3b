"""`dedupe run`: start, show and stop the fleet, and a broker if asked for.

The CLI calls it. Invariant: whatever it started has ended when it returns.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from dedupe_crds.formatting import share
from dedupe_crds.spec.input import Input
from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.stop_signals import Interrupted, StopSignals
from dedupe_kafka.partitioning import describe_added, describe_shared_ids
from dedupe_local.errors import NotDrained
from dedupe_local.run.fleet import Fleet
from dedupe_local.run.live_table import print_line, screen
from dedupe_local.run.manifest_changes import ManifestChanges
from dedupe_local.run.preflight import unused_fields
from dedupe_local.run.table_rows import without_id
from dedupe_local.servers.connect import KafkaOptions, connected
from dedupe_local.servers.kafka import EmbeddedBroker
from dedupe_local.state_dir import StateDir

_SHOW_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class RunOptions(KafkaOptions):
    """The options of `dedupe run`.

    With `drain_stall_seconds` the run ends once every message that is in the input now is processed, and fails if a
    partition makes no progress for this long. `manifest` is the stream's file, which may change meanwhile.
    """

    drain_stall_seconds: float | None = None
    manifest: Path | None = None


def run_stream(stream: DedupeStream, options: RunOptions, console: Console) -> None:
    """Run a stream until it is drained, or until SIGINT or SIGTERM.

    Raises:
        StreamError: the message names the cause, the place and the remedy.
        Interrupted: a signal came before a drain was done.
    """
    options.check(stream)
    if stream.spec.suspend:
        print_line(console, "spec.suspend is true: nothing is started.")
        return
    if unused := unused_fields(stream):
        print_line(console, f"Ignored, as only Kubernetes uses it: {', '.join(unused)}.")
    if shared := describe_shared_ids(stream.spec):
        print_line(console, f"Note: {shared}")
    with StopSignals() as signals:
        try:
            _run(stream, options, signals, console)
        except Interrupted:
            if options.drain_stall_seconds is not None:
                raise


def _run(stream: DedupeStream, options: RunOptions, signals: StopSignals, console: Console) -> None:
    starting = signals.interrupting(lambda: "before the input was drained: the run was starting")
    with ExitStack() as running, ExitStack() as start:
        start.enter_context(starting)
        path = options.state_dir or StateDir.default_path(stream)
        state = running.enter_context(StateDir(path, say=partial(print_line, console)))
        print_line(console, f"State directory: {state.root}")
        kafka = running.enter_context(connected(stream, options, state))
        if kafka.broker:
            servers = kafka.broker.bootstrap_servers
            print_line(console, f"Embedded broker: {servers}, {_described(stream.spec.input)}")
        next_stream: DedupeStream | None = kafka.stream
        while next_stream is not None:
            fleet = Fleet(next_stream, state, kafka_properties=options.kafka_properties)
            with fleet:
                start.close()  # from now on a signal only ends the loop
                changes = ManifestChanges(options.manifest, fleet.stream, servers=kafka.servers)
                _watch(
                    *(fleet, kafka.broker, options.drain_stall_seconds, signals, console),
                    changes=changes,
                )
            next_stream = None if signals.stop.is_set() else changes.routed


def _watch(
    fleet: Fleet,
    broker: EmbeddedBroker | None,
    stall_seconds: float | None,
    signals: StopSignals,
    console: Console,
    *,
    changes: ManifestChanges,
) -> None:
    """Show the fleet until it is drained, gets routers, or a signal requests the end."""
    drain = None if stall_seconds is None else fleet.drain(stall_seconds)
    drained = False
    with screen(console, fleet.stream) as shown:
        while not (drained or signals.stop.is_set() or changes.routed):
            if broker and not broker.running:
                print_line(
                    console,
                    f"The embedded broker has ended (see {broker.log_path}); restarting it.",
                )
                broker.start()
            fleet.wait(_SHOW_SECONDS)
            drained = drain is not None and fleet.advance(drain)
            for line in changes.apply(fleet):
                print_line(console, line)
            shown.show(fleet.view())
    stopped_well = fleet.stop()
    print_line(console, _totals(fleet))
    if changes.routed and not signals.stop.is_set():
        return
    if drain and not drained:
        signals.interrupt(f"before the input was drained: {'; '.join(drain.missing())}")
    if drain and fleet.added:
        raise NotDrained(f"What has workers is drained, but not all. {describe_added(fleet.added)}")
    if drain and not stopped_well:
        raise NotDrained(
            "A process failed while it stopped, so its last transaction may be open: run the command again."
        )


def _described(source: Input) -> str:
    if source.pattern is not None:
        return f"where you create topics that match {source.shown}"
    return f"with input topic{'s' if len(source.names) > 1 else ''} {source.shown}"


def _totals(fleet: Fleet) -> str:
    views = fleet.views()
    consumed = sum(view.consumed for view in views)
    duplicates = sum(view.duplicates for view in views)
    without = without_id([view.missing_ids for view in views])
    return (
        f"Read {consumed:,} records, duplicates: {share(duplicates, consumed)}"
        f"{f', {without}; these pass, and their repeats are not recognised' if without else ''}."
    )
