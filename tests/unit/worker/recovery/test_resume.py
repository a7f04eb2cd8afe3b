"""The topics that a session records before it reads."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from dedupe_crds.spec.topics import Delivery
from dedupe_kafka.offset_metadata import decode_metadata
from dedupe_worker.recovery.input_offset import InputStart
from dedupe_worker.recovery.resume import record_topics
from dedupe_worker.store.state_dir import StateDirectory
from tests.unit.worker.recovery.partitions import IDENTITY, taken_over


def factory(state: StateDirectory, delivery: Delivery = Delivery.EXACTLY_ONCE) -> Any:  # noqa: ANN401 (a part of one)
    return SimpleNamespace(
        config=SimpleNamespace(state=state), policy=SimpleNamespace(delivery=delivery)
    )


@pytest.mark.parametrize("on_volume", ["before", "now"])
def test_the_volume_names_the_present_topics_even_if_a_checkpoint_named_its_own_meanwhile(
    on_volume: str, tmp_path: Path
) -> None:
    """A checkpoint that replaces the store, after the take-over, may be of an earlier input topic."""
    state = StateDirectory(tmp_path)
    state.record(IDENTITY.model_copy(update={"input_topic_id": on_volume}))
    start = InputStart(0, cast("Any", object()), 0)
    unused = cast("Any", None)
    record_topics(factory(state), taken_over(IDENTITY), unused, unused, start)
    assert state.recorded("shop/orders", 0) == IDENTITY


@pytest.mark.parametrize(
    ("delivery", "position"), [(Delivery.AT_LEAST_ONCE, 7), (Delivery.EXACTLY_ONCE, None)]
)
def test_an_expired_offset_is_committed_again_with_the_output_position_of_the_store(
    delivery: Delivery, position: int | None, tmp_path: Path
) -> None:
    """Before the store catches up: output after that may be of input that is read again."""
    output = Mock()
    start = InputStart(60, None, 90, stored=7)
    of = factory(StateDirectory(tmp_path), delivery)
    record_topics(of, taken_over(None), output, Mock(), start)
    (offset, _, metadata), _ = output.record_start.call_args
    assert (offset, decode_metadata(metadata).position) == (60, position)
