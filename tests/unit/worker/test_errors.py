"""The named errors of RocksDB's exceptions, whatever its paths are called."""

import pytest

from dedupe_worker.errors import DiskFull, StateLocked, StoreCorrupt, StoreFailed, store_error


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (
            "IO error: lock hold by current process, acquire time 17 acquiring thread 14: "
            "/s/db/LOCK: No locks available",
            StateLocked,
        ),
        ("IO error: While lock file: /s/db/LOCK: Resource temporarily unavailable", StateLocked),
        ("IO error: While lock file: /s/db/LOCK: Permission denied", StoreFailed),
        (
            "IO error: While open a file for appending: /s/BLOCKS/db/000012.log: Permission denied",
            StoreFailed,
        ),
        ("IO error: While fsync: /s/LOCK/db/000012.sst: Input/output error", StoreFailed),
        (
            "Corruption: block checksum mismatch: stored = 1, computed = 2, type = 4 in /s/LOCK/1.sst offset 0 size 9",
            StoreCorrupt,
        ),
        (
            "Corruption: While creating a new Db, wal_dir contains existing log file: : 000004.log",
            StoreCorrupt,
        ),
        (
            "Sst file size mismatch in file: /s/db/000012.sst. Size recorded in manifest 1, actual size 2",
            StoreCorrupt,
        ),
        (
            "IO error: No such file or directory: While open a file for random read: "
            "/s/db/000012.sst: No such file or directory",
            StoreCorrupt,
        ),
        (
            "IO error: While open a file for appending: /s/Corruption/db/000012.log: Permission denied",
            StoreFailed,
        ),
        (
            "IO error: While fsync: /s/No space left on device/1.log: Input/output error",
            StoreFailed,
        ),
        (
            "IO error: No space left on device: While appending to file: /s/LOCK/1.log: No space left on device",
            DiskFull,
        ),
        ("IO error: While appending to file: /s/db/1.log: Disk quota exceeded", DiskFull),
        ("[Errno 28] No space left on device: '/s/LOCK/x'", DiskFull),
        ("something else", StoreFailed),
    ],
)
def test_a_path_decides_nothing(text: str, named: type[Exception]) -> None:
    found = store_error(Exception(text), "opening the store")
    assert type(found) is named
    assert text in str(found)
