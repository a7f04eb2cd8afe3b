from itertools import pairwise
from pathlib import Path

import pytest

from tests.lint import structure
from tests.unit.lint.tree import checkout, worker


def findings(root: Path, files: dict[str, str]) -> list[str]:
    return [str(finding) for finding in structure.check(checkout(root, files))]


def function(lines: int, *, decorators: int = 0) -> str:
    return "@property\n" * decorators + "def long():\n" + "    pass\n" * (lines - 1)


def entries(count: int) -> dict[str, str]:
    return worker(**{f"module_{i:03}": "" for i in range(count)})


def edges(count: int) -> dict[str, str]:
    """Return 14 modules of which each imports some that follow it."""
    pairs = [(i, j) for i in range(14) for j in range(i + 1, 14)][:count]
    imports = {
        i: [f"from dedupe_worker import module_{j}" for k, j in pairs if k == i] for i in range(14)
    }
    return worker(**{f"module_{i}": "\n".join(lines) for i, lines in imports.items()})


def test_what_is_at_a_limit_passes_and_what_is_longer_is_named_with_its_lines(
    tmp_path: Path,
) -> None:
    files = {
        **worker(
            fits="x = 1\n" * 300,
            long="x = 1\n" * 301,
            function_fits=function(60, decorators=5),
            long_function="\n\n" + function(61),
        ),
        # No product
        "tests/test_all.py": "x = 1\n" * 1000,
        "benchmarks/run.py": function(100),
    }
    assert findings(tmp_path, files) == [
        "worker/dedupe_worker/long.py:1: module has 301 lines, more than 300",
        "worker/dedupe_worker/long_function.py:3: long() has 61 lines, more than 60",
    ]


def test_a_docstring_counts_as_part_of_an_asynchronous_method(tmp_path: Path) -> None:
    docstring = '        """Read.\n' + "\n" * 59 + '        """\n'
    source = "class Reader:\n    async def read(self):\n" + docstring
    assert findings(tmp_path, worker(reader=source)) == [
        "worker/dedupe_worker/reader.py:2: read() has 62 lines, more than 60"
    ]


def test_a_worker_has_20_modules_and_folders_at_most_and_another_package_may_have_more(
    tmp_path: Path,
) -> None:
    others = {
        "worker/dedupe_worker/py.typed": "",
        "worker/dedupe_worker/__pycache__/loop.cpython-311.pyc": "",
        **worker(store__rocksdb="", store__metadata=""),
        **{f"kafka/dedupe_kafka/module_{i:03}.py": "" for i in range(30)},
    }
    assert findings(tmp_path, {**entries(19), **others}) == []
    assert findings(tmp_path, entries(20)) == [
        "worker/dedupe_worker:1: has 21 modules and folders, more than 20"
    ]


def test_80_edges_in_the_worker_pass_and_81_fail(tmp_path: Path) -> None:
    assert findings(tmp_path, edges(80)) == []
    assert findings(tmp_path, edges(81)) == [
        "worker/dedupe_worker:1: has 81 import edges between its entries, more than 80"
    ]


@pytest.mark.parametrize(
    "imported",
    [
        "import dedupe_worker.session",
        "from dedupe_worker import session",
        "from dedupe_worker.session import Session",
        "from . import session",
        "from .session import Session",
        "try:\n    from dedupe_worker.session import Session\nexcept ImportError:\n    pass",
        "class Loop:\n    from dedupe_worker.session import Session",
    ],
)
def test_a_cycle_is_found_however_it_is_imported(tmp_path: Path, imported: str) -> None:
    files = worker(loop=imported, session="from dedupe_worker import loop")
    (finding,) = findings(tmp_path, files)
    assert "import cycle: " in finding
    assert "dedupe_worker.loop -> dedupe_worker.session" in finding


@pytest.mark.parametrize(
    "imported",
    [
        "def run():\n    from dedupe_worker import session",
        "if TYPE_CHECKING:\n    from dedupe_worker import session",
        "if typing.TYPE_CHECKING:\n    from dedupe_worker import session",
    ],
)
def test_an_import_after_loading_makes_no_cycle(tmp_path: Path, imported: str) -> None:
    assert findings(tmp_path, worker(loop=imported, session="from dedupe_worker import loop")) == []


def test_a_cycle_through_three_modules_and_two_packages_is_named_in_its_order(
    tmp_path: Path,
) -> None:
    files = {
        **worker(loop="import dedupe_kafka.topic", session="from dedupe_worker import loop"),
        "kafka/dedupe_kafka/topic.py": "from dedupe_worker.session import Session",
    }
    (finding,) = findings(tmp_path, files)
    cycle = finding.partition("import cycle: ")[2].split(" -> ")
    following = {
        "dedupe_worker.loop": "dedupe_kafka.topic",
        "dedupe_kafka.topic": "dedupe_worker.session",
        "dedupe_worker.session": "dedupe_worker.loop",
    }
    assert len(cycle) == 4
    assert all(following[importer] == imported for importer, imported in pairwise(cycle))


def test_each_of_two_cycles_is_found(tmp_path: Path) -> None:
    files = worker(
        a="from dedupe_worker import b",
        b="from dedupe_worker import a",
        c="from dedupe_worker import d",
        d="from dedupe_worker import c",
    )
    assert len(findings(tmp_path, files)) == 2


def test_a_package_that_names_what_its_modules_define_makes_no_cycle(tmp_path: Path) -> None:
    files = {
        **worker(
            store__rocksdb="from dedupe_worker.store.metadata import Metadata", store__metadata=""
        ),
        "worker/dedupe_worker/store/__init__.py": "from dedupe_worker.store.rocksdb import Store",
    }
    assert findings(tmp_path, files) == []


@pytest.mark.parametrize(
    "source", ["import time\n\ntime.sleep(1)\n", "import time\n\nwait = time.sleep\n"]
)
def test_a_test_that_sleeps_is_named(tmp_path: Path, source: str) -> None:
    assert findings(tmp_path, {"tests/unit/test_a.py": source}) == [
        "tests/unit/test_a.py:3: sleeps: wait with wait_for() or pace() of tests/support/patience.py"
    ]


def test_an_imported_sleep_is_named(tmp_path: Path) -> None:
    [finding] = findings(tmp_path, {"tests/support/a.py": "from time import monotonic, sleep\n"})
    assert finding.startswith("tests/support/a.py:1: sleeps")


def test_a_fake_clock_and_code_for_another_process_may_sleep(tmp_path: Path) -> None:
    source = "clock.sleep(1)\ncode = 'import time; time.sleep(600)'\n"
    assert findings(tmp_path, {"tests/unit/test_a.py": source}) == []


def test_the_clock_of_tests_itself_sleeps(tmp_path: Path) -> None:
    source = "import time\n\ntime.sleep(1)\n"
    files = {"tests/support/patience.py": source, "worker/dedupe_worker/a.py": source}
    assert findings(tmp_path, files) == []
