"""Recovery as tables, and what was reached of its goals."""

from statistics import mean, median
from typing import Final

from benchmarks.harness.s3_server import VERSION
from benchmarks.recovery import bucket as recovery_bucket
from benchmarks.recovery import failover as rungs
from benchmarks.recovery import local as recovery
from benchmarks.recovery.bucket import Upload
from benchmarks.recovery.failover import Failover, Rung
from benchmarks.recovery.local import Recovery
from benchmarks.tables import Goal, Table

_MB: Final = 1_000_000
_WAYS_BACK: Final = {
    Rung.REATTACH: "the pod deleted by force",
    Rung.CSI: "claim, volume and pod deleted",
    Rung.S3: "claim, volume and pod deleted",
    Rung.REBUILD: "claim, volume and pod deleted, no snapshots",
}


def recovery_tables(result: Recovery) -> list[Table]:
    """What was measured without Kubernetes."""
    return [_pauses(result), _starts(result), _uploads(result), _restores(result)]


def failover_tables(result: Failover) -> list[Table]:
    """What was measured on Kubernetes."""
    rows = [
        [
            f"{_millions(climb.keys)}, {climb.rung}",
            _WAYS_BACK[climb.rung],
            f"{climb.typical:.1f}",
            f"{max(climb.seconds):.1f}",
            f"{median(climb.start_seconds):.1f}",
            f"{len(climb.seconds)}",
        ]
        for climb in result.climbs
    ]
    return [
        Table(
            "From the loss of a pod until its partition is ready again, s",
            (
                "ids and rung",
                "what was lost",
                "median",
                "longest",
                "of it in the container",
                "times",
            ),
            rows,
            "From the first delete until the new pod is ready for Kubernetes, seen every 0.2 s; the images are on the "
            f"node. The cluster has {result.nodes} nodes, all on this machine, with the broker and, for S3, "
            f"versitygw {VERSION} beside.",
        )
    ]


def recovery_goals(result: Recovery) -> list[Goal]:
    """Those that need no Kubernetes, for the largest store."""
    largest = result.largest
    ids = f"with {_millions(largest.keys)} ids"
    pause, restore, rebuild = largest.pause, largest.restore, largest.rebuild
    silent, without = median(pause.with_ms), median(pause.without_ms)
    wanted_rate = min(recovery.GOAL_RESTORE_BYTES, restore.bytes / restore.write_seconds)
    share = recovery_bucket.GOAL_SHARE
    uploaded = [each.uploaded_share for each in _after(largest.uploads, share)]
    most_uploaded = share * recovery_bucket.GOAL_FACTOR
    return [
        Goal(
            f"output silent around a checkpoint, median, {ids}",
            f"< {recovery.GOAL_PAUSE_MS:.0f} ms",
            f"{silent:.0f} ms ({without:.0f} ms without one)",
            silent < recovery.GOAL_PAUSE_MS,
        ),
        Goal(
            f"worker's loop held up by a checkpoint, the longest of {len(pause.loop_ms)}, {ids}",
            f"< {recovery.GOAL_PAUSE_MS:.0f} ms",
            f"{max(pause.loop_ms):.0f} ms",
            max(pause.loop_ms) < recovery.GOAL_PAUSE_MS,
        ),
        Goal(
            f"restore from S3, {ids}",
            "≥ 100 MB/s, or as fast as the disk",
            f"{restore.per_second / _MB:.0f} MB/s",
            restore.per_second >= wanted_rate,
        ),
        Goal(
            f"rebuild from the output topic, records a CPU second, {ids}",
            f"≥ {recovery.GOAL_REBUILD_PER_CORE:,}",
            f"{rebuild.per_core:,.0f}",
            rebuild.per_core >= recovery.GOAL_REBUILD_PER_CORE,
        ),
        Goal(
            f"uploaded by the next S3 snapshot after {share:.0%} more ids, of all bytes, median, {ids}",
            f"≤ {most_uploaded:.0%}",
            f"{median(uploaded):.1%} (mean {mean(uploaded):.1%})",
            median(uploaded) <= most_uploaded,
        ),
    ]


def failover_goals(result: Failover) -> list[Goal]:
    """Those for each size of the store, on Kubernetes."""
    wanted = ((Rung.REATTACH, rungs.GOAL_REATTACH_SECONDS), (Rung.CSI, rungs.GOAL_CSI_SECONDS))
    return [
        Goal(
            f"{climb.rung} with {_millions(climb.keys)} ids, loss to ready",
            f"< {seconds:.0f} s",
            f"{climb.typical:.1f} s",
            climb.typical < seconds,
        )
        for rung, seconds in wanted
        for climb in result.of(rung)
    ]


def _pauses(result: Recovery) -> Table:
    rows = [
        [
            _millions(size.keys),
            f"{size.pause.bytes / _MB:,.0f}",
            f"{median(size.pause.with_ms):.0f}",
            f"{max(size.pause.with_ms):.0f}",
            f"{median(size.pause.without_ms):.0f}",
            f"{max(size.pause.without_ms):.0f}",
            f"{max(size.pause.loop_ms):.0f}",
            f"{median(size.pause.request_ms):.0f}",
            f"{len(size.pause.with_ms)}",
        ]
        for size in result.sizes
    ]
    return Table(
        f"Longest time without an output record around a checkpoint, ms, at {result.largest.pause.rate:,} messages/s",
        (
            *("ids", "copy, MB", "median", "longest", "without one, median", "longest"),
            *("in the loop, longest", "request, median", "checkpoints"),
        ),
        rows,
        "Records become visible by whole transactions, so that there is a pause without a checkpoint, too: it is taken "
        "halfway between two of them. “In the loop” is what the worker takes for one, passing on nothing meanwhile (in "
        "the metric dedupe_stage_seconds_total, stage checkpoint). “Request” is POST /checkpoint, until the copy is "
        "complete and on disk.",
    )


def _starts(result: Recovery) -> Table:
    rows = [
        [
            _millions(size.keys),
            f"{size.reattach:.1f}",
            f"{max(size.reattach_seconds):.1f}",
            f"{size.rebuild.ready_seconds:.1f}",
            f"{size.rebuild.per_second:,.0f}",
            f"{size.rebuild.per_core:,.0f}",
        ]
        for size in result.sizes
    ]
    return Table(
        "From the start of a worker's process until it is ready",
        (
            *("ids", "on its store, s", "longest, s", "rebuild, s"),
            *("records/s", "records/CPU s"),
        ),
        rows,
        "On its store: after a SIGKILL; its filter in memory is made anew from all ids. Rebuild: without a store, from "
        "messages of 512 bytes; the rate is that of the reconcile, CPU seconds are those of the whole start.",
    )


def _uploads(result: Recovery) -> Table:
    rows = []
    for size in result.sizes:
        first = size.uploads[0]
        rows.append(
            [
                f"{_millions(size.keys)}, the first",
                f"{first.bytes / _MB:,.2f}",
                *(f"{first.new_bytes / _MB:,.2f}", "", "", ""),
                f"{first.seconds:.1f}",
            ]
        )
        for share in recovery.SHARES:
            these = _after(size.uploads, share)
            new = [each.new_bytes for each in these]
            rows.append(
                [
                    f"{_millions(size.keys)}, {share:.1%} more",
                    f"{median(each.bytes for each in these) / _MB:,.2f}",
                    *(f"{figure(new) / _MB:,.2f}" for figure in (median, mean, max)),
                    f"{median(each.uploaded_share for each in these):.2%}",
                    f"{median(each.seconds for each in these):.1f}",
                ]
            )
    return Table(
        "Snapshots to a bucket",
        ("ids", "copy, MB", "uploaded, MB, median", "mean", "most", "share, median", "s"),
        rows,
        f"After the first, {recovery.SNAPSHOTS} of each kind, each after so many new ids. The window has room for all "
        "that come, in five generations as by default, of which only the newest changes. After few new ids a snapshot "
        "mostly uploads those alone; after a compaction, which many ids always bring, also those that RocksDB has "
        "merged them with: they are spread over all files of a level.",
    )


def _restores(result: Recovery) -> Table:
    rows = [
        [
            _millions(size.keys),
            f"{size.restore.bytes / _MB:,.0f}",
            f"{size.restore.seconds:.1f}",
            f"{size.restore.per_second / _MB:.0f}",
            f"{size.restore.ready_seconds:.1f}",
            f"{size.restore.bytes / size.restore.download_seconds / _MB:.0f}",
            f"{size.restore.bytes / size.restore.write_seconds / _MB:.0f}",
        ]
        for size in result.sizes
    ]
    return Table(
        "Restore from a bucket",
        (
            *("ids", "copy, MB", "restore, s", "MB/s", "start to ready, s"),
            *("fetched only, MB/s", "disk, MB/s"),
        ),
        rows,
        "A restore fetches, verifies each file's SHA-256 and syncs it. “Fetched only” is the same objects by boto3, as "
        "many at once, unverified and not synced; “disk” is as many bytes written to one file and synced. "
        f"The bucket is versitygw {VERSION} on the same disk.",
    )


def _after(uploads: list[Upload], share: float) -> list[Upload]:
    """The snapshots that were made after such a share of new ids."""
    added = int(uploads[0].added * share)
    return [upload for upload in uploads[1:] if upload.added == added]


def _millions(keys: int) -> str:
    return f"{keys / 1e6:g} M"
