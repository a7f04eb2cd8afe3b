"""Write the golden files: `python -m tests.golden.generate DIRECTORY`. See README.md for when."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any, Final

import boto3

from dedupe_crds.spec.snapshots import S3Snapshots
from dedupe_kafka.offsets import OffsetRange
from dedupe_pipeline.jobs.land.output_log import BatchRecord, admit_batch, write_marker
from dedupe_worker.bootstrap.progress import BootstrapRecord, write_record
from dedupe_worker.snapshots.bucket import Bucket
from dedupe_worker.snapshots.digest_cache import DigestCache
from dedupe_worker.snapshots.folder import Folder
from dedupe_worker.snapshots.upload import upload
from dedupe_worker.store.checkpoint import make_checkpoint
from dedupe_worker.store.state_dir import StateDirectory, write_atomically
from tests.golden import documents
from tests.golden.growth import growth
from tests.golden.stores import (
    CHECKPOINT_TIME,
    FORGOTTEN_MS,
    IDENTITY,
    PARTITION,
    PLAIN,
    ROUTING,
    Interrupted,
    make_bootstrap,
    open_store,
    write_generation,
    write_tables,
)
from tests.support.snapshots.buckets import KEY_ID, REGION, SECRET, bucket_server

_NAME: Final = "golden"
LANDED: Final = BatchRecord(
    topic_id="AAAAAAAAQACAAAAAAAAAAg", offsets={0: OffsetRange(1_200, 1_700), 11: OffsetRange(0, 3)}
)
"""The record of a landed batch."""


def main(root: Path) -> None:
    """Write all files below a new directory."""
    root.mkdir(parents=True)
    _write_state(root / "state", root / "bucket")
    _write_values(root / "values")
    write_tables(root / "table")
    _write_bootstrap(root / "bootstrap")
    _write_landing(root / "landing_recorded")
    _write_documents(root)
    for pattern in ("LOG*", "LOCK", "lock"):  # RocksDB's log, and locks of processes
        for path in root.rglob(pattern):
            path.unlink()


def _write_state(root: Path, bucket: Path) -> None:
    """Write a state directory: its checkpoint was uploaded, its store is ahead of that."""
    state = StateDirectory(root)
    root.mkdir()
    state.record(IDENTITY)
    store = open_store(state.database)
    write_generation(store, PLAIN, 0)
    write_generation(store, PLAIN, 1)
    made = make_checkpoint(state, IDENTITY, store, CHECKPOINT_TIME)
    assert made is not None
    _upload(Path(made.path), state, bucket)
    write_generation(store, PLAIN, 2)
    store.mark_truncated()
    store.mark_forgotten(FORGOTTEN_MS)
    store.close()
    answer = documents.comparison().model_dump_json(by_alias=True, indent=2) + "\n"
    write_atomically(state.reconcile_answer, answer)
    write_record(state, bootstrap_record())


def bootstrap_record() -> BootstrapRecord:
    """Build the record of a store that began with a bootstrap."""
    return BootstrapRecord(
        source={"files": [["/data/ids.csv", 4711, 1]], "before": None, "window": [1, 2.0, 3]},
        created=CHECKPOINT_TIME,
        ids=12,
        repeated=3,
        left_out=4,
        oldest=CHECKPOINT_TIME,
    )


def _upload(checkpoint: Path, state: StateDirectory, target: Path) -> None:
    """Upload a checkpoint to a server that speaks S3, and save its objects as files named by their keys."""
    with bucket_server() as address:
        client = boto3.client(
            "s3",
            endpoint_url=address,
            region_name=REGION,
            aws_access_key_id=KEY_ID,
            aws_secret_access_key=SECRET,
        )
        client.create_bucket(Bucket=_NAME, CreateBucketConfiguration={"LocationConstraint": REGION})
        s3 = S3Snapshots(bucket=_NAME, region=REGION, endpoint=address)
        upload(
            Bucket(s3, Folder.of(s3, IDENTITY.stream, PARTITION), client),
            _NAME,
            checkpoint,
            DigestCache(state.root / "digests.json"),
            stop_reason=lambda: None,
            bandwidth=1 << 30,
            on_progress=lambda *_: None,
        )
        for each in client.list_objects_v2(Bucket=_NAME)["Contents"]:
            path = target / each["Key"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(client.get_object(Bucket=_NAME, Key=each["Key"])["Body"].read())


def _write_values(root: Path) -> None:
    """Write a store of values with timestamps and content hashes."""
    store = open_store(root)
    for number in range(3):
        write_generation(store, ROUTING, number)
    store.close()


def _write_bootstrap(root: Path) -> None:
    """Write a bootstrap that was interrupted after its first range of tables."""
    try:
        make_bootstrap(root, interrupted=True).run()
    except Interrupted:
        return
    raise AssertionError("the bootstrap has ended")


def _write_landing(root: Path) -> None:
    """Write the log of landed Parquet files, and the metadata of Spark's checkpoint."""
    checkpoint, output = root / "checkpoint", root / "output"
    checkpoint.mkdir(parents=True)
    output.mkdir()
    (checkpoint / "metadata").write_text('{"id":"6f0f5c1e-0000-4000-8000-000000000002"}')
    write_marker(output, checkpoint, "orders-clean", LANDED.topic_id)
    admit_batch(output, checkpoint, root / "staging", 17, LANDED)


def _write_documents(root: Path) -> None:
    copied = root / "copied"
    shutil.copytree(root / "values", copied)
    store = open_store(copied)
    contents: dict[str, Any] = {
        "side_records": documents.side_records(),
        "routed_records": documents.routed_records(store),
        "offset_metadata": documents.offset_metadata(),
        "clients": documents.clients(),
        "stamps": documents.stamps(),
        "reasons": documents.reasons(),
        "names": documents.names(),
        "children_minimal": documents.children("minimal"),
        "children_full": documents.children("full"),
        "snapshots": documents.snapshots(),
        "database": documents.database(),
        "growth": growth(),
    }
    store.close()
    shutil.rmtree(copied)
    for name, content in contents.items():
        (root / f"{name}.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    (root / "status.json").write_text(documents.status())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
