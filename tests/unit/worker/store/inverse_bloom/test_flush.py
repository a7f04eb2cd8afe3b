"""What a store takes of its volume while it writes."""

from pathlib import Path
from unittest.mock import patch

import pytest

from dedupe_worker.store.inverse_bloom import segments as files
from dedupe_worker.store.inverse_bloom import table_state as open_table
from dedupe_worker.store.inverse_bloom.segments import SegmentRecord
from tests.unit.worker.store.inverse_bloom.scene import open_store, small_segments
from tests.unit.worker.stores import random_ids, remember

SLOTS = 500
TABLE_BESIDE = 1.1
"""As room.py has it."""


@pytest.mark.parametrize("segments", [3, 4, 16, 31, 66, 400])
def test_no_more_lies_beside_a_table_than_its_volume_is_checked_for(
    tmp_path: Path, segments: int
) -> None:
    seen = []
    save = files.save_segment

    def watched(*args: object, **kwargs: object) -> SegmentRecord:
        saved = save(*args, **kwargs)  # type: ignore[arg-type]
        seen.append(len(list(tmp_path.glob("*.seg"))))
        return saved

    with small_segments(slots=SLOTS), patch.object(open_table, "save_segment", watched):
        store = open_store(tmp_path, slots=SLOTS * segments)
        for part in range(3):
            remember(store, random_ids(part, 20_000), position=20_000 * (part + 1))
            store.flush()
        store.close()
    assert max(seen) <= segments + max(1, (TABLE_BESIDE - 1) * segments)
