"""Which topics a session records before it reads."""

from pathlib import Path
from typing import Any, cast

import pytest

from dedupe_worker.kafka.admin import Topic
from dedupe_worker.recovery.input_offset import InputStart
from dedupe_worker.recovery.resume import record_topics
from dedupe_worker.recovery.taken_over import TakenOver
from dedupe_worker.store.state_dir import Identity, StateDirectory

IDENTITY = Identity(stream="shop/orders", partition=0, input_topic_id="now", output_topic_id="out")


@pytest.mark.parametrize("on_volume", ["before", "now"])
def test_the_volume_names_the_present_topics_even_if_a_checkpoint_named_its_own_meanwhile(
    on_volume: str, tmp_path: Path
) -> None:
    """A checkpoint that replaces the store, after the take-over, may be of an earlier input topic."""
    state = StateDirectory(tmp_path)
    state.record(IDENTITY.model_copy(update={"input_topic_id": on_volume}))
    partition = TakenOver(
        topics=cast("Any", None),
        input_topic=Topic("orders", "now", 1),
        output_topic=Topic("clean", "out", 1),
        identity=IDENTITY,
        recorded=IDENTITY,
    )
    start = InputStart(0, cast("Any", object()), 0)
    record_topics(state, partition, cast("Any", None), cast("Any", None), start)
    assert state.recorded("shop/orders", 0) == IDENTITY
