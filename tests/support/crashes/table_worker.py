"""A worker with small table segments, which may kill itself while it writes them.

Each segment is written as soon as possible. It runs like the worker,
`python -m tests.support.crashes.table_worker --config …`, with the step or the act in the environment (see `steps` and
`table_crashes`).
"""

import os
import shutil
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

from dedupe_worker import cli
from dedupe_worker.store.inverse_bloom import flush as disk
from dedupe_worker.store.inverse_bloom import segments as files
from dedupe_worker.store.inverse_bloom import table_state as open_table
from tests.support.crashes import crashing_worker
from tests.support.crashes.steps import VARIABLE
from tests.support.crashes.table_crashes import Act, TableCrash, at

SEGMENT_SLOTS = 250_000


def main() -> None:
    """Run the worker until it is killed or ends normally."""
    crash = TableCrash.from_environment()
    reached = at(crash, lambda: os.kill(os.getpid(), signal.SIGKILL))
    save_segment, save_manifest, copy = files.save_segment, files.save_manifest, shutil.copy2

    def saved_segment(directory: Path, *arguments: Any, **which: Any) -> files.SegmentRecord:  # noqa: ANN401 # its
        before = set(directory.iterdir())
        record = save_segment(directory, *arguments, **which)
        [written] = set(directory.iterdir()) - before
        content = written.read_bytes()
        written.write_bytes(content[: len(content) // 2])
        reached(Act.SEGMENT_BEGUN)
        written.write_bytes(content)
        reached(Act.SEGMENT_WRITTEN)
        return record

    def saved_manifest(*arguments: Any) -> None:  # noqa: ANN401 # its
        save_manifest(*arguments)
        reached(Act.MANIFEST_WRITTEN)

    def copied(source: Path, target: Path) -> None:
        if source.name == files.MANIFEST:
            reached(Act.SEGMENTS_LINKED)
        copy(source, target)

    with ExitStack() as patches:
        patches.enter_context(patch.object(files, "SEGMENT_SLOTS", SEGMENT_SLOTS))
        if not (crash and crash.lazy):
            patches.enter_context(patch.object(disk, "_WRITTEN_AFTER_SHARE", 0.0))
        patches.enter_context(patch.object(disk, "_WRITING_SHARE", float("inf")))
        patches.enter_context(patch.object(open_table, "save_segment", saved_segment))
        patches.enter_context(patch.object(disk, "save_manifest", saved_manifest))
        patches.enter_context(patch.object(shutil, "copy2", copied))
        if VARIABLE in os.environ:
            crashing_worker.main()
        cli.main()


if __name__ == "__main__":
    main()
