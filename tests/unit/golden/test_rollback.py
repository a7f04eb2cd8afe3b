"""The release before reads each file and record that this one writes, and takes nothing in it for something else."""

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from dedupe_ids.extract import ID_BYTES
from dedupe_kafka.offset_metadata import encode_metadata
from dedupe_kafka.offsets import OffsetRange
from dedupe_worker.kafka.take_over import TakeOver
from dedupe_worker.side_topics.owner_log import OwnerLogWriter
from dedupe_worker.snapshots.manifest import FileEntry, Manifest
from dedupe_worker.store.checkpoint import RECORD, CheckpointRecord, make_checkpoint
from dedupe_worker.store.rocksdb import Store
from dedupe_worker.store.state_dir import StateDirectory
from tests.golden.stores import CHECKPOINT_TIME, IDENTITY, open_store, open_table
from tests.support.earlier_release import WITHOUT_FURTHER_FIELDS, run_earlier, unpack_earlier
from tests.unit.worker.still_clock import StillClock
from tests.unit.worker.stores import random_ids, remember

_SLOTS: Final = 1 << 15
_EARLIER: Final = """
import json, sys
from pathlib import Path
from dedupe_kafka.offsets import OffsetRange
from dedupe_worker.dedup.uncommitted_output import recorded_position
from dedupe_worker.dedup.window import Window
from dedupe_worker.kafka.consumer import Committed
from dedupe_worker.side_topics.owner_log import decode_entry
from dedupe_worker.snapshots.manifest import Manifest
from dedupe_worker.store.checkpoint import restore_from_checkpoint
from dedupe_worker.store.state_dir import StateDirectory
from tests.golden.stores import IDENTITY, open_store, open_table

given = json.loads(Path(sys.argv[1]).read_text())
state = StateDirectory(Path(given["state"]))

def opened():
    table = given["kind"] == "InverseBloom"
    store = open_table(state.database, given["slots"], 8) if table else open_store(state.database)
    ids = bytes.fromhex(given["ids"])
    window = Window(store)
    known = len(window.admit(ids, [bytes(8)] * (len(ids) // 16)))
    window.abort()
    found = [known, store.metadata.output_position, store.metadata.input_offset, store.metadata.truncated]
    store.close()
    return found

answer = {"identity": state.recorded(IDENTITY.stream, IDENTITY.partition).model_dump()}
answer["store"] = opened()
answer["restored"] = restore_from_checkpoint(state, IDENTITY, OffsetRange(0, 1000))
answer["checkpoint"] = opened()
answer["manifest"] = Manifest.model_validate_json(given["manifest"]).record.input_offset
entry = decode_entry(bytes.fromhex(given["entry"]))
answer["owners"] = [int(each) for each in entry.inputs]
answer["position"] = recorded_position(Committed(5, given["metadata"]), 5, IDENTITY.output_topic_id)
print(json.dumps(answer))
"""


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = unpack_earlier(WITHOUT_FURTHER_FIELDS, tmp_path_factory.mktemp("earlier") / "tree")
    if tree is None:
        pytest.skip("the history of the repository is not here")
    return tree


def write_state(kind: str, root: Path) -> tuple[StateDirectory, bytes]:
    """Write all that a worker keeps: a store with amended generations, its checkpoint and marks."""
    state = StateDirectory(root)
    store = (
        open_store(state.database) if kind == "RocksDB" else open_table(state.database, _SLOTS, 8)
    )
    store.begin_input("the input before")
    remember(store, random_ids(1, 100), position=100)
    store.begin_input(IDENTITY.input_topic_id)
    remember(store, random_ids(2, 100), position=200)
    store.mark_truncated()
    store.age(1)
    if isinstance(store, Store):
        oldest, *_ = store.generations()
        [added, removed] = random_ids(3, 1), random_ids(1, 100)[:ID_BYTES]
        store.amend(oldest.name, added=[added], removed=[removed])
    state.record(IDENTITY)
    make_checkpoint(state, IDENTITY, store, CHECKPOINT_TIME)
    store.flush()
    remember(store, random_ids(4, 100), position=300)
    store.close()
    (root / "shortened").write_text(f"7 {IDENTITY.input_topic_id}")
    return state, random_ids(2, 100)


def manifest_of(state: StateDirectory) -> str:
    """Return the manifest of a snapshot of the checkpoint."""
    [checkpoint] = state.checkpoints.iterdir()
    files = sorted(each for each in checkpoint.rglob("*") if each.is_file())
    entries = [
        FileEntry(path=str(each.relative_to(checkpoint)), size=each.stat().st_size, sha256="0" * 64)
        for each in files
    ]
    record = CheckpointRecord.model_validate_json((checkpoint / RECORD).read_bytes())
    return Manifest(name="golden", record=record, files=entries).model_dump_json(by_alias=True)


def owner_entry() -> bytes:
    writer = OwnerLogWriter("owners", IDENTITY.output_topic_id, IDENTITY.input_topic_id)
    writer.add([], np.array([40, 41, 50], np.uint64))
    [record] = writer.records(OffsetRange(3, 6))
    return record.value


def offset_metadata(position: int | None) -> str:
    """Return the metadata of an offset commit, as a worker writes it."""
    take_over = TakeOver(StillClock())
    take_over.begin(None)
    ids = IDENTITY.output_topic_id, IDENTITY.input_topic_id
    return take_over.add_token(encode_metadata(*ids, position))


@pytest.mark.parametrize("kind", ["RocksDB", "InverseBloom"])
def test_the_release_before_reads_all_that_a_worker_leaves(
    kind: str, tmp_path: Path, earlier: Path
) -> None:
    state, ids = write_state(kind, tmp_path / "state")
    given: dict[str, Any] = {
        "kind": kind,
        "state": str(state.root),
        "slots": _SLOTS,
        "ids": ids.hex(),
        "manifest": manifest_of(state),
        "entry": owner_entry().hex(),
        "metadata": offset_metadata(7),
    }
    arguments = tmp_path / "given.json"
    arguments.write_text(json.dumps(given))
    *_, last = run_earlier(earlier, _EARLIER, arguments).splitlines()  # after its log
    answer = json.loads(last)
    assert answer["identity"] == IDENTITY.model_dump()
    known, *stamp = answer["store"]
    assert stamp == [300, 300, True]
    assert known >= 95, "an inverse Bloom store may have lost some"
    assert answer["restored"] is True
    known, *stamp = answer["checkpoint"]
    assert stamp == [200, 200, True]
    assert known >= 95
    assert answer["manifest"] == 200
    assert answer["owners"] == [40, 41, 50]
    # Unknown, not a wrong one: a rollback right after a crash without transactions may pass records twice.
    assert answer["position"] is None
