"""The topics that a session records before it reads."""

from pathlib import Path
from typing import Any, cast

import pytest

from dedupe_worker.recovery.input_offset import InputStart
from dedupe_worker.recovery.resume import record_topics
from dedupe_worker.store.state_dir import StateDirectory
from tests.unit.worker.recovery.partitions import IDENTITY, taken_over


@pytest.mark.parametrize("on_volume", ["before", "now"])
def test_the_volume_names_the_present_topics_even_if_a_checkpoint_named_its_own_meanwhile(
    on_volume: str, tmp_path: Path
) -> None:
    """A checkpoint that replaces the store, after the take-over, may be of an earlier input topic."""
    state = StateDirectory(tmp_path)
    state.record(IDENTITY.model_copy(update={"input_topic_id": on_volume}))
    start = InputStart(0, cast("Any", object()), 0)
    unused = cast("Any", None)
    record_topics(state, taken_over(IDENTITY), unused, unused, start)
    assert state.recorded("shop/orders", 0) == IDENTITY
