"""What a restore must have done, and what it must have let alone."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from dedupe_crds.annotations import RESTORE, RestoreRequest
from dedupe_crds.spec.stream import GROUP
from dedupe_crds.status.stream import PartitionStatus, Restore, RestoreSource
from tests.e2e.support.live_load import LiveLoad
from tests.e2e.support.snapshots import Snapshots, partition_status
from tests.e2e.support.stream import ClusterStream
from tests.e2e.support.volumes import CLAIMS, lose_volume


@contextmanager
def restored(stream: ClusterStream, partition: int) -> Iterator[None]:
    """A block in which a partition loses its volume: waits until it is ready on a new one.

    Asserts that it is the same partition of the same topics, that its new claim is the next one, and that no other
    partition's pod, claim or volume is another one since, or was started again. Prints the time it took.
    """
    others = [other for other in range(stream.partitions) if other != partition]
    before = {other: _belongings(stream, other) for other in others}
    old = partition_status(stream, partition).persistent_volume_claim or ""
    started = time.monotonic()
    yield
    wait_until_on_another_volume(stream, partition, old)
    seconds = time.monotonic() - started
    now = partition_status(stream, partition)
    source = now.restore.source if now.restore else None
    print(f"{stream.name}/{partition}: ready from {source} after {seconds:.1f} s")
    assert {other: _belongings(stream, other) for other in others} == before
    _assert_same_partition(stream, partition, old, now)


def assert_restored_under_load(
    stream: ClusterStream, seed: int, name: str, source: RestoreSource, event: str
) -> None:
    """Have partition 0 lose its volume after the snapshot `name`, which is made here, and come back from it alone.

    Asserts that each message has passed once, also those sent again since before the snapshot.
    """
    others = [restore_of(stream, partition) for partition in range(1, stream.partitions)]
    with LiveLoad(stream, seed) as load:
        load.wait_until_filled()
        Snapshots(stream).make(name)
        load.begin("after the snapshot")
        load.wait_until_filled()
        with restored(stream, 0):
            lost = lose_volume(stream, 0)
        load.begin("after the restore")
        load.wait_until_filled()
    load.judged()

    restore = restore_of(stream, 0)
    assert (restore.source, restore.name) == (source, name)
    assert (lost in restore.reason, restore.refused) == (True, [])
    assert stream.starts()[0] == "Tail"
    stream.wait_for_events(event)
    now = [restore_of(stream, partition) for partition in range(1, stream.partitions)]
    assert now == others


def wait_until_on_another_volume(stream: ClusterStream, partition: int, old: str) -> None:
    """Wait until a partition is ready on another claim than `old`."""

    def ready() -> bool:
        now = partition_status(stream, partition)
        return now.ready and now.persistent_volume_claim != old

    what = f"partition {partition} is ready on another volume than {old}"
    stream.wait_until(ready, what)


def restore_of(stream: ClusterStream, partition: int) -> Restore:
    """How a partition got its store. Fails if nobody has said."""
    restore = partition_status(stream, partition).restore
    assert restore is not None
    return restore


def ask_for_restore(stream: ClusterStream, request: str, partition: int, source: str) -> Restore:
    """Ask the operator itself, without the plugin's checks; returns its answer."""
    asked = RestoreRequest(request=request, partition=partition, source=source)
    stream.annotate(RESTORE.removeprefix(f"{GROUP}/"), asked.model_dump_json(by_alias=True))
    stream.wait_until(
        lambda: restore_of(stream, partition).request == request, f"{request} is answered"
    )
    return restore_of(stream, partition)


def _belongings(stream: ClusterStream, partition: int) -> list[str]:
    """What a partition runs on, and how often its worker was started."""
    [pod] = stream.children("pods", partition)
    [started] = pod["status"]["containerStatuses"]
    claims = sorted(
        f"{claim['metadata']['uid']} {claim['spec'].get('volumeName')}"
        for claim in stream.children(CLAIMS, partition)
    )
    return [f"{pod['metadata']['uid']} {started['restartCount']}", *claims]


def _assert_same_partition(
    stream: ClusterStream, partition: int, old: str, now: PartitionStatus
) -> None:
    base, _, serial = old.rpartition("-")
    assert now.persistent_volume_claim == f"{base}-{int(serial) + 1}"
    worker = stream.worker_status(partition)
    assert worker.partition == partition
    assert (worker.input.topic, worker.output.topic) == (stream.input_topic, stream.output_topic)
    [pod] = stream.children("pods", partition)
    [mounted] = [one for one in pod["spec"]["volumes"] if "persistentVolumeClaim" in one]
    assert mounted["persistentVolumeClaim"]["claimName"] == now.persistent_volume_claim
