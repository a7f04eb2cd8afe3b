"""Files of the store that a bad disk or a user has damaged."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.seed import SEED
from tests.support.crashes.aftermath import finish, judged, logged, reconciled
from tests.support.crashes.inner_crashes import FaultWorkers
from tests.support.layers import matrix
from tests.support.patience import wait_for
from tests.support.snapshots.damage import cut_off, files_of, flip_a_byte
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import retries

CreateStream = Callable[..., TestStream]

RECORDS = 12_000
SMALL_TRANSACTIONS = {"tuning": {"maxBatchRecords": 500, "maxTransactionRecords": 1_000}}
MANY_FILES = {"window": {"maxBytes": "16Mi", "generations": 16}}


Damage = Callable[[Path], object]


def sst(db: Path, number: int) -> Path:
    return files_of(db, "*.sst")[number]


def manifest(db: Path) -> Path:
    return files_of(db, "MANIFEST-*")[0]


REBUILT: dict[str, Damage] = {
    "SST cut to nothing": lambda db: cut_off(sst(db, 0), 0.0),
    "SST cut in half": lambda db: cut_off(sst(db, 0), 0.5),
    "SST without its last byte": lambda db: cut_off(sst(db, -1), 1.0),
    "SST missing": lambda db: sst(db, 0).unlink(),
    "SST with a byte flipped": lambda db: flip_a_byte(sst(db, 0), 0.3),
    "MANIFEST cut to nothing": lambda db: cut_off(manifest(db), 0.0),
    "CURRENT missing": lambda db: (db / "CURRENT").unlink(),
}
RECOVERED: dict[str, Damage] = {
    "MANIFEST cut in half": lambda db: cut_off(manifest(db), 0.5),
    "MANIFEST without its last byte": lambda db: cut_off(manifest(db), 1.0),
}


def wait_until_at_rest(database: Path) -> None:
    """Wait until no file of ids is written or merged: the MANIFEST names all."""

    def files() -> dict[str, int]:
        return {path.name: path.stat().st_size for path in database.glob("**/*.sst")}

    seen: list[dict[str, int]] = []

    def at_rest() -> bool:
        seen.append(files())
        return bool(seen[-1]) and seen[-1:] == seen[-2:-1]  # RocksDB may merge all into one

    wait_for(at_rest, "its files are at rest", poll_seconds=1.0)


@pytest.mark.timeout(600)  # the machine is busy with other tests
@pytest.mark.parametrize("damaged", ["SST", matrix("MANIFEST"), matrix("CURRENT")])
def test_a_damaged_store_is_rebuilt_or_recovered(
    streams: CreateStream, workers: FaultWorkers, damaged: str
) -> None:
    """The worker was killed before, so the newest ids are in no file."""
    messages = list(retries(SEED, RECORDS, value_bytes=100))
    stream = streams(store=MANY_FILES, worker=SMALL_TRANSACTIONS)
    stream.send(messages)
    [worker] = finish(stream, workers)
    wait_until_at_rest(worker.state_dir / "db")
    worker.sigkill()
    passed = len(stream.clean())
    killed = worker.state_dir.with_name("killed")
    shutil.copytree(worker.state_dir, killed)
    for name, damage in (REBUILT | RECOVERED).items():
        if not name.startswith(damaged):
            continue
        shutil.rmtree(worker.state_dir)
        shutil.copytree(killed, worker.state_dir)
        damage(worker.state_dir / "db")
        stream.send(messages)
        [worker] = finish(stream, workers)
        judged(stream)
        how = reconciled(worker)
        print(name, how)
        if name in REBUILT or how["reason"] == "StoreCorrupt":
            assert (how["reason"], how["records"]) == ("StoreCorrupt", passed)
            [line] = logged(worker, "store is corrupt")
            assert "opening the store" in line["error"]
        else:
            assert how["reason"] in {"Tail", "NewStore"}
            assert 0 < how["records"] <= passed
        assert not worker.status().window.truncated, "the output topic holds everything"
        worker.sigkill()
