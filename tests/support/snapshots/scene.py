"""One partition's store and its bucket, without Kafka."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from dedupe_crds.spec.snapshots import S3Snapshots
from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.copy_location import CopyLocation
from dedupe_worker.config import WorkerConfig
from dedupe_worker.snapshots.bucket import Bucket
from dedupe_worker.snapshots.digest_cache import DigestCache
from dedupe_worker.snapshots.download import Download
from dedupe_worker.snapshots.folder import Folder
from dedupe_worker.snapshots.manifest import Manifest
from dedupe_worker.snapshots.s3_client import transfer_client
from dedupe_worker.snapshots.upload import upload
from dedupe_worker.status import WorkerState
from dedupe_worker.store.checkpoint import CheckpointRecord, make_checkpoint
from dedupe_worker.store.rocksdb import Store
from dedupe_worker.store.state_dir import Identity, StateDirectory
from tests.support.snapshots.buckets import TestBucket
from tests.unit.crds.manifests import MINIMAL
from tests.unit.worker.stores import MIB, open_store, random_ids, remember

PARTITION = 3
IDENTITY = Identity(
    stream="default/orders", partition=PARTITION, input_topic_id="in", output_topic_id="out"
)
FOLDER = "default/orders/3"


@dataclass
class Scene:
    """`root` is where state directories are, `fields` go into spec.snapshots.s3."""

    bucket: TestBucket
    root: Path
    fields: dict[str, object] = field(default_factory=dict)
    sent: list[tuple[int, int, int]] = field(default_factory=list)
    """What the last upload told of its progress."""

    @property
    def stream(self) -> DedupeStream:
        snapshots = self.bucket.snapshots(**self.fields)
        return DedupeStream.model_validate(
            {**MINIMAL, "spec": {**MINIMAL["spec"], "snapshots": snapshots}}
        )

    @property
    def s3(self) -> S3Snapshots:
        snapshots = self.stream.spec.snapshots
        assert snapshots is not None
        assert snapshots.s3 is not None
        return snapshots.s3

    @property
    def state(self) -> StateDirectory:
        return StateDirectory(self.root / "state")

    @property
    def target(self) -> StateDirectory:
        """Return the directory that a store is restored to."""
        return StateDirectory(self.root / "restored")

    def place(self) -> Bucket:
        """Return the partition's place in the bucket, through the proxy."""
        return Bucket(
            self.s3, Folder.of(self.s3, IDENTITY.stream, PARTITION), transfer_client(self.s3)
        )

    @contextmanager
    def store(self) -> Iterator[Store]:
        store = open_store(self.state.database)
        try:
            yield store
        finally:
            store.close()

    def checkpoint(self, *seeds: int, count: int = 2_000) -> Path:
        """Have the store remember ids of these seeds, each in a file of its own, and make a checkpoint."""
        with self.store() as store:
            for seed in seeds:
                position = store.metadata.output_position if store.metadata else 0
                remember(store, random_ids(seed, count), position=position + count)
                store.flush()
            made = make_checkpoint(self.state, IDENTITY, store, datetime.now(UTC))
        assert made is not None
        return Path(made.path)

    def upload(self, name: str, checkpoint: Path, **options: int) -> Manifest:
        self.sent.clear()
        return upload(
            self.place(),
            name,
            checkpoint,
            DigestCache(self.state.root / "digests.json"),
            stop_reason=lambda: None,
            bandwidth=options.get("bandwidth", 1 << 30),
            on_progress=lambda *figures: self.sent.append(figures),
        )

    def restore(self, name: str, location: CopyLocation | None = None) -> Download:
        """Return a restore of a snapshot to `target`, yet to be run."""
        config = WorkerConfig(
            stream=self.stream,
            partition=PARTITION,
            state=self.target,
            properties={},
            restore_location=location,
        )
        self.target.root.mkdir(exist_ok=True)
        self.worker_state = WorkerState(self.stream, PARTITION)
        return Download(config, self.worker_state, name)

    def made_up(self, *sizes: int) -> Path:
        """Make a directory like a checkpoint's, with files of random bytes of these sizes."""
        checkpoint = self.root / "made-up"
        (checkpoint / "db").mkdir(parents=True)
        rng = Random(1)
        for number, size in enumerate(sizes):
            (checkpoint / f"db/{number:06}.sst").write_bytes(rng.randbytes(size))
        record = CheckpointRecord(
            **IDENTITY.model_dump(exclude={"format"}),
            input_offset=1,
            output_position=1,
            keys=1,
            window_seconds=0,
            bytes=sum(sizes),
            created=datetime.now(UTC),
        )
        (checkpoint / "checkpoint.json").write_text(record.model_dump_json(by_alias=True))
        self.state.root.mkdir(exist_ok=True)
        return checkpoint


LARGE = 2 * 16 * MIB + 1
"""Goes in three parts."""
