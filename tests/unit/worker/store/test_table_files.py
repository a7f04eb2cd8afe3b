"""A database with more files than its process may open."""

import subprocess
import sys
from pathlib import Path

from tests.support.patience import HANG_SECONDS

REPOSITORY = Path(__file__).parents[4]
# In a process of its own, because a hard limit can't be raised again. Small files in one sorted run, as merges leave.
SCRIPT = """
import resource, sys
from pathlib import Path
from dedupe_worker.store import column_families
from tests.unit.worker.stores import MIB, count_known, open_store, random_ids, remember

real = column_families.table_options

def small_files(sizes):
    options = real(sizes)
    options.set_target_file_size_base(1 << 12)
    return options

column_families.table_options = small_files
path = Path(sys.argv[1])
store = open_store(path)
for number in range(20):
    remember(store, random_ids(number, 15_000), position=number + 1)
    store.flush()
store._generations[-1].family.compact_range(None, None)
store.close()
files = len(list(path.glob("*.sst")))
resource.setrlimit(resource.RLIMIT_NOFILE, (50, 200))
store = open_store(path)
known = sum(count_known(store, random_ids(number, 15_000)) for number in range(20))
print(files, known, *resource.getrlimit(resource.RLIMIT_NOFILE))
store.close()
"""


def test_rocksdb_closes_files_rather_than_fail(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "db")],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    files, known, soft, hard = map(int, done.stdout.split())
    assert files > hard == soft == 200, "the soft limit was raised"
    assert known == 300_000
