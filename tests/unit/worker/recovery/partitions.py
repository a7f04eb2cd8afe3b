"""A partition that a worker has taken over, for the tests of what its session does next."""

from types import SimpleNamespace
from typing import Any, Final, cast

from dedupe_kafka.offsets import OffsetRange
from dedupe_worker.kafka.admin import Topic, Topics
from dedupe_worker.recovery.taken_over import TakenOver
from dedupe_worker.store.state_dir import Identity

IDENTITY: Final = Identity(
    stream="shop/orders", partition=0, input_topic_id="now", output_topic_id="out"
)


def taken_over(recorded: Identity | None) -> TakenOver:
    """Return partition 0 with an input of [20, 90), and this identity on its volume."""
    topics: Any = SimpleNamespace(
        offsets=lambda *_: OffsetRange(20, 90), high_watermark=lambda *_: 90
    )
    return TakenOver(
        topics=cast("Topics", topics),
        input_topic=Topic("orders", "now", 1),
        output_topic=Topic("clean", "out", 1),
        identity=IDENTITY,
        recorded=recorded,
    )
