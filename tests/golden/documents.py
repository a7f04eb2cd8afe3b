"""The golden documents: what goes over the wire or into objects, as JSON with bytes in hexadecimal.

Each function builds one document with the code of the tree it stands in. The generator wrote them to files; the tests
build them again and compare.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, Final

import numpy as np

import dedupe_kafka
import dedupe_worker
from dedupe_crds.annotations import OUTPUT_TOPIC, PAUSE, RECONCILE, RESTART, RESTORE
from dedupe_crds.annotations import PARTITION as PARTITION_LABEL
from dedupe_crds.annotations import STREAM as STREAM_LABEL
from dedupe_crds.manifest import load_manifest
from dedupe_crds.quantity import GIB
from dedupe_crds.spec.snapshots import S3Snapshots
from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.exit_code import ExitCode
from dedupe_crds.status.snapshot import PartitionSnapshot, SnapshotPhase
from dedupe_crds.status.worker import (
    CheckpointStatus,
    ComparisonStatus,
    DownloadPhase,
    DownloadStatus,
    InputStatus,
    OutputStatus,
    Phase,
    ReconcileStatus,
    UploadPhase,
    UploadStatus,
    WindowStatus,
)
from dedupe_kafka.client_config import consumer_config, producer_config
from dedupe_kafka.errors import StreamError
from dedupe_kafka.offsets import OffsetRange
from dedupe_kafka.side_topics import filters_topic, metadata_topics, owners_topic, routed_topics
from dedupe_local.state_dir import StateDir
from dedupe_operator.decide.drift import with_wanted_hash
from dedupe_operator.kubernetes.names import (
    CONFIG_HASH,
    COPIES,
    FIELD_MANAGER,
    MANAGED_BY,
    SCHEDULED,
    WANTED_HASH,
    Object,
)
from dedupe_operator.resources import (
    admin_secret,
    config_map,
    service,
    service_account,
    stateful_set,
)
from dedupe_operator.resources import persistent_volume_claim as claim
from dedupe_operator.resources import pod_disruption_budget as disruption_budget
from dedupe_operator.resources.config_map import Config
from dedupe_operator.resources.pod_parts import PodDefaults
from dedupe_operator.resources.pod_template import WorkerRelease
from dedupe_operator.snapshots.csi import CsiProvider
from dedupe_operator.snapshots.ebs.tags import of_snapshot, of_volume
from dedupe_operator.snapshots.provider import Job
from dedupe_operator.snapshots.resource import SnapshotWriter
from dedupe_pipeline.jobs.aggregate.columns import Shape
from dedupe_pipeline.jobs.aggregate.sql import TableSql
from dedupe_worker.config import WorkerConfig
from dedupe_worker.dedup.side_headers import (
    AGE_HEADER,
    LATE_HEADER,
    ORIGINAL_HEADER,
    POSITION_HEADER,
)
from dedupe_worker.errors import DiskFull
from dedupe_worker.kafka.side_records import SideRecord
from dedupe_worker.side_topics.writers import side_topic_writers
from dedupe_worker.snapshots.folder import Folder
from dedupe_worker.status import WorkerState
from dedupe_worker.store.column_families import CURRENT, UNTRUSTED
from dedupe_worker.store.metadata import StoreMetadata, encode_metadata
from dedupe_worker.store.rocksdb import Store
from dedupe_worker.store.state_dir import StateDirectory
from tests.golden import STREAMS
from tests.golden.stores import (
    FIRST_OFFSET,
    IDENTITY,
    PARTITION,
    ROUTING,
    START_MS,
    make_classifier,
    record,
    seen_ms,
    time_ms,
)
from tests.support.postgres.aggregate_truth import job as aggregate_job
from tests.unit.operator.fake_cluster import FakeCluster

OUTPUT_FIRST: Final = 5_000
NOTED_OFFSETS: Final = (*range(100, 130), *range(140, 150), 160, *range(170, 175))
"""Input offsets of the records that a transaction adds to the output from OUTPUT_FIRST on."""

TIME: Final = datetime(2025, 10, 9, 1, 2, 3, 456789, tzinfo=UTC)
STAMP: Final = StoreMetadata(
    output_position=300,
    input_offset=-1,
    keys=299,
    first_seen_ms=START_MS,
    last_seen_ms=START_MS + 1,
    truncated=True,
    newest_ms=START_MS - 2,
    forgotten_ms=START_MS - 3,
)
_UNVERSIONED: Final = ("logger", "error_cb")


def stream(name: str) -> DedupeStream:
    """Return the stream `minimal` or `full`."""
    return load_manifest(STREAMS / f"{name}.yaml")


# -- Kafka -----------------------------------------------------------------------------------------


def side_records() -> list[Any]:
    """Build what a transaction writes to the topics of owners and filters."""
    writers = side_topic_writers(stream("full").spec, IDENTITY.output_topic_id)
    passed = [record(number) for number in range(len(NOTED_OFFSETS))]
    offsets = np.array(NOTED_OFFSETS, np.uint64)
    for writer in writers:
        writer.add(passed[:20], offsets[:20])
        writer.add(passed[20:], offsets[20:])
    span = OffsetRange(OUTPUT_FIRST, OUTPUT_FIRST + len(passed))
    return [_side_record(note) for writer in writers for note in writer.records(span)]


def _side_record(note: SideRecord) -> dict[str, Any]:
    return {
        "topic": note.topic,
        "key": None if note.key is None else note.key.decode(),
        "value": note.value.hex(),
        "timestampMs": note.timestamp_ms,
    }


def routed_records(store: Store) -> list[Any]:
    """Build what is routed of a batch, with the store of values: a duplicate, a conflict, what is late and a copy."""
    policy = replace(ROUTING, late_after=timedelta(days=10))
    window, classifier = make_classifier(store, policy)
    now_ms = seen_ms(2)
    records = [
        record(10, offset=FIRST_OFFSET + 1_000, timestamp_ms=now_ms),
        record(20, offset=FIRST_OFFSET + 1_001, value=b"another", timestamp_ms=now_ms),
        record(599, offset=FIRST_OFFSET + 1_002, timestamp_ms=time_ms(599) + 1),
        record(700, offset=FIRST_OFFSET + 1_003, timestamp_ms=seen_ms(0)),
        record(701, offset=FIRST_OFFSET + 1_004, timestamp_ms=now_ms),
        record(701, offset=FIRST_OFFSET + 1_005, timestamp_ms=now_ms + 5),
        record(30, timestamp_ms=now_ms),
    ]
    verdict = classifier.classify(records, classifier.identify(records), now_ms)
    window.abort()
    routed = [
        {
            "topic": each.topic,
            "offset": each.record.offset(),
            "headers": [[name, value.decode()] for name, value in each.headers],
        }
        for each in verdict.routed
    ]
    return [*routed, {"passed": verdict.passed.tolist()}]


def offset_metadata() -> str:
    """Build what stands with an input offset that is committed without a transaction."""
    return f"{IDENTITY.output_topic_id}:650"


def clients() -> dict[str, Any]:
    """Build the configuration of the worker's clients."""
    config = _worker_config("full")
    properties = {"sasl.username": "orders", "linger.ms": "7"}
    servers = config.stream.spec.kafka.bootstrap_servers
    made = {
        "consumer": consumer_config(servers, properties, group=config.group, queue_bytes=64 << 20),
        "transactional": producer_config(
            servers,
            properties,
            transactional_id=config.transactional_id,
            queue_bytes=64 << 20,
            largest_batch_bytes=1 << 20,
        ),
        "atLeastOnce": producer_config(
            servers,
            {"enable.idempotence": "false"},
            transactional_id=None,
            queue_bytes=64 << 20,
            largest_batch_bytes=1 << 20,
        ),
    }
    return {
        name: {key: value for key, value in each.items() if key not in _UNVERSIONED}
        for name, each in made.items()
    }


# -- the worker ------------------------------------------------------------------------------------


def stamps() -> dict[str, str]:
    """Build a stamp in its present format, and in the first, which is only read."""
    encoded = encode_metadata(STAMP)
    return {"2": encoded.hex(), "1": (b"\x01" + encoded[1:42]).hex()}


def comparison() -> ComparisonStatus:
    """Build the answer to a reconcile that was asked for."""
    return ComparisonStatus(
        request="2025-10-09T01:02:03Z",
        full=True,
        done=True,
        records=600,
        added=5,
        removed=4,
        aged_out=3,
        unverifiable=2,
        error="NotComparable: why",
    )


def checkpoint() -> CheckpointStatus:
    """Build the status of a checkpoint."""
    return CheckpointStatus(
        path="/var/lib/dedupestream/state/checkpoints/20251009T010203.456789Z",
        created=TIME,
        input_offset=70_500,
        output_position=500,
        keys=500,
        input_topic_id=IDENTITY.input_topic_id,
        output_topic_id=IDENTITY.output_topic_id,
        window_seconds=694923.5,
        bytes=12_345,
    )


def fill_worker_state(worker_state: WorkerState) -> None:
    """Set everything that a worker shows of itself."""
    tally = worker_state.tally
    tally.consumed, tally.produced, tally.transactions = 101, 102, 108
    tally.duplicates, tally.redelivered, tally.without_id = 103, 104, 105
    tally.conflicts, tally.late, tally.aborted_transactions = 106, 107, 109
    worker_state.input = InputStatus(topic="orders", next_offset=7, end_offset=19, lag_messages=12)
    worker_state.output = OutputStatus(topic="orders-clean", position=9)
    worker_state.window = WindowStatus(
        seconds=86400.25, bytes=1000, keys=600, generations=3, truncated=True, healthy=False
    )
    worker_state.reconcile = ReconcileStatus(
        reason="OutputAhead", records=3, remaining=4, seconds=5.5
    )
    worker_state.checkpoint = checkpoint()
    worker_state.upload = UploadStatus(
        name="nightly",
        phase=UploadPhase.FAILED,
        checkpoint=checkpoint(),
        handle="default/orders/3/snapshots/nightly.json",
        total_bytes=30,
        new_bytes=20,
        uploaded_bytes=10,
        error="SnapshotFailed: why",
    )
    worker_state.download = DownloadStatus(
        name="nightly",
        phase=DownloadPhase.COMPLETED,
        total_bytes=30,
        bytes=30,
        seconds=1.5,
        error="RestoreFailed: why",
    )
    worker_state.comparison = comparison()


def status() -> str:
    """Build the body of GET /status for a worker that has failed; its start and up-time vary."""
    worker_state = WorkerState(stream("full"), PARTITION)
    fill_worker_state(worker_state)
    worker_state.report_failure(DiskFull("writing the store: no space"))
    return worker_state.status().model_dump_json(by_alias=True)


def reasons() -> dict[str, Any]:
    """Build the table of errors: by reason, whether it is retried, and the exit code."""
    for package in (dedupe_kafka, dedupe_worker):  # an error exists once its module is imported
        for found in walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith(".__main__"):
                import_module(found.name)
    errors = sorted((kind("why").reason, kind) for kind in _subclasses(StreamError))
    return {
        reason: {"retriable": kind.retriable, "exitCode": int(kind.exit_code)}
        for reason, kind in errors
    }


def _subclasses(kind: type[StreamError]) -> Iterator[type[StreamError]]:
    for each in kind.__subclasses__():
        if each.__module__.startswith(("dedupe_kafka", "dedupe_worker")):
            yield each
        yield from _subclasses(each)


# -- names -----------------------------------------------------------------------------------------


def names() -> dict[str, Any]:
    """Build the table of names that others rely on."""
    spec = stream("full").spec
    config = _worker_config("full")
    state, local = StateDirectory(Path()), StateDir(Path("/local"))
    s3 = S3Snapshots(bucket="backups")
    with_prefix = S3Snapshots(bucket="backups", prefix="dedupe/v1")
    folder = Folder.of(with_prefix, "shop/orders", PARTITION)
    return {
        "stateDirectory": {
            "database": str(state.database),
            "restoring": str(state.restoring),
            "checkpoints": str(state.checkpoints),
            "copied": str(state.copied),
            "comparison": str(state.comparison),
            "reconcileAnswer": str(state.reconcile_answer),
            "untrusted": UNTRUSTED,
            "current": CURRENT,
        },
        "localRun": {
            "manifest": str(local.manifest),
            "adminToken": str(local.admin_token),
            "broker": str(local.broker),
            "partition": str(local.partition(7)),
        },
        "bucket": {
            "folder": Folder.of(s3, "shop/orders", PARTITION).prefix,
            "manifest": folder.manifest("nightly"),
            "content": folder.content("00ff"),
        },
        "topics": {
            "filters": filters_topic("orders-clean"),
            "owners": owners_topic("orders-clean"),
            "notes": metadata_topics(spec),
            "routed": routed_topics(spec),
        },
        "kafka": {"group": config.group, "transactionalId": config.transactional_id},
        "headers": [ORIGINAL_HEADER, AGE_HEADER, POSITION_HEADER, LATE_HEADER],
        "labels": [STREAM_LABEL, PARTITION_LABEL, SCHEDULED, MANAGED_BY, FIELD_MANAGER],
        "annotations": [PAUSE, RESTART, WANTED_HASH, CONFIG_HASH, RECONCILE, RESTORE],
        "finalizer": COPIES,
        "restoreFromOutput": OUTPUT_TOPIC,
        "phases": [str(phase) for phase in Phase],
        "uploadPhases": [str(phase) for phase in UploadPhase],
        "downloadPhases": [str(phase) for phase in DownloadPhase],
        "exitCodes": {code.name: int(code) for code in ExitCode},
        "finalExitCodes": [int(code) for code in ExitCode if code.is_final],
    }


def _worker_config(name: str) -> WorkerConfig:
    return WorkerConfig(
        stream=stream(name), partition=PARTITION, state=StateDirectory(Path()), properties={}
    )


# -- Kubernetes and EC2 ----------------------------------------------------------------------------


def children(name: str) -> list[Object]:
    """Build every child object of a stream, as the operator applies them."""
    made_for = stream(name)
    release = WorkerRelease(
        image="registry.example/worker:1",
        pull_policy="IfNotPresent",
        # Of that release, which pods keep.
        defaults=PodDefaults(memory_by_window=False),
    )
    restored = {"dataSource": {"kind": "VolumeSnapshot", "name": "nightly-7"}}
    shared = [
        service_account.build(made_for),
        config_map.build(made_for),
        admin_secret.build(made_for, "t" * 43),
        disruption_budget.build(made_for),
    ]
    partition = [
        claim.build(
            made_for, 7, served=8, name="orders-7-1", live=None, size=20 * GIB, made_from=restored
        ),
        service.build(made_for, 7),
        stateful_set.build(
            made_for,
            7,
            claim="orders-7-1",
            release=release,
            secrets_hash="abc",
            # The one that pods of that release mount, and keep mounting.
            config=Config(
                config_map.newest_name(made_for.metadata.name), config_map.config_hash(made_for)
            ),
            restore_from="nightly" if name == "full" else None,
        ),
    ]
    return [with_wanted_hash(each) for each in (*shared, *partition)]


_CLAIM: Final = {
    "metadata": {"namespace": "shop", "name": "orders-7-1", "uid": "uid-of-orders-7-1"}
}


def snapshots() -> dict[str, Any]:
    """Build what the operator writes for a snapshot: objects, annotations and tags."""
    cluster = FakeCluster()
    namespace = "shop"
    job = Job(
        stream=stream("full"),
        snapshot="nightly",
        snapshot_uid="uid-of-nightly",
        partition=7,
        entry=PartitionSnapshot(
            partition=7,
            phase=SnapshotPhase.RUNNING,
            started=TIME,
            input_topic_id=IDENTITY.input_topic_id,
            output_topic_id=IDENTITY.output_topic_id,
            input_offset=-1,
            output_position=500,
            keys=499,
            window=timedelta(days=8),
            bytes=12_345,
        ),
        claim=_CLAIM,
    )
    handle = CsiProvider(cluster).start(job)
    SnapshotWriter(cluster, namespace).create_scheduled(job.stream, "nightly")
    return {
        "volumeSnapshot": _as_created(cluster.one("VolumeSnapshot", handle)),
        "dedupeSnapshot": _as_created(cluster.one("DedupeSnapshot", "nightly")),
        "ebsSnapshotTags": of_snapshot(job),
        "ebsVolumeTags": of_volume(job, _CLAIM, "uid-of-kube-system"),
        "entry": job.entry.model_dump(mode="json", by_alias=True, exclude_none=True),
    }


def _as_created(made: Object) -> Object:
    """Return an object without what the cluster has added."""
    added = ("uid", "creationTimestamp")
    metadata = {name: value for name, value in made["metadata"].items() if name not in added}
    return {**made, "metadata": metadata}


# -- PostgreSQL ------------------------------------------------------------------------------------


def database() -> list[str]:
    """Build the statements that make and fill the tables of an aggregation."""
    measures = dict.fromkeys(("flights", "delayed", "total", "least", "worst"), "bigint")
    shape = Shape(schema=None, keys={"carrier": "text"}, measures=measures)
    table_sql = TableSql.of(aggregate_job("shop.flights"), shape)
    view = table_sql.create_view()
    assert view is not None
    statements = (
        *table_sql.create_metadata_tables(),
        table_sql.create_table(),
        view,
        table_sql.create_staging(),
        table_sql.lock_job(),
        table_sql.add(),
        table_sql.record_offsets(),
        table_sql.advance_offsets(),
    )
    return [statement.as_string(None) for statement in statements]
