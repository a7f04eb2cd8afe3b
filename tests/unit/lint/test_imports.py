from pathlib import Path

from tests.lint.imports import edges, entries, import_graph
from tests.unit.lint.tree import checkout, worker


def test_entries_are_modules_and_folders_with_modules(tmp_path: Path) -> None:
    files = {
        **worker(__main__="", loop="", store__rocksdb=""),
        "worker/dedupe_worker/py.typed": "",
        "worker/dedupe_worker/data/constants.json": "",
    }
    checkout(tmp_path, files)
    assert entries(tmp_path / "worker/dedupe_worker") == {"__main__", "loop", "store"}


def test_an_edge_joins_two_entries_however_often_one_imports_the_other(tmp_path: Path) -> None:
    files = worker(
        __main__="from dedupe_worker.cli import main",
        cli="def main():\n    from dedupe_worker.store import rocksdb",
        store__rocksdb="from dedupe_worker.store.metadata import Metadata\nimport dedupe_worker.errors",
        store__metadata="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..errors import Error",
        errors="import json\nfrom dedupe_kafka.errors import KafkaError",
    )
    graph = import_graph(checkout(tmp_path, files).product)
    assert edges(graph, "dedupe_worker") == {
        ("__main__", "cli"),
        ("cli", "store"),
        ("store", "errors"),
    }


def test_an_import_inside_a_function_is_kept_apart(tmp_path: Path) -> None:
    files = worker(
        loop="from dedupe_worker import errors\ndef run():\n    import dedupe_worker.session",
        session="",
        errors="",
    )
    imports = import_graph(checkout(tmp_path, files).product)["dedupe_worker.loop"]
    assert imports.at_load == {"dedupe_worker.errors"}
    assert imports.later == {"dedupe_worker.session"}


def test_relative_imports_count_from_the_package(tmp_path: Path) -> None:
    files = {
        **worker(
            store__rocksdb="from . import metadata\nfrom .. import errors", store__metadata=""
        ),
        **worker(errors=""),
        "worker/dedupe_worker/store/__init__.py": "from .rocksdb import Store",
    }
    graph = import_graph(checkout(tmp_path, files).product)
    assert graph["dedupe_worker.store"].at_load == {"dedupe_worker.store.rocksdb"}
    assert graph["dedupe_worker.store.rocksdb"].at_load == {
        "dedupe_worker.store.metadata",
        "dedupe_worker.errors",
    }
