"""The golden document of growth: what streams with routers keep in Kafka and in stores about their epochs."""

from dataclasses import replace
from typing import Any, Final

from dedupe_growth.entries import Cuts, Done, Entry, Listed, Prepare, Switch, encode_entry
from dedupe_growth.mark import MARK_HEADER, Mark, encode_mark
from dedupe_growth.routed_offsets import encode_routed
from dedupe_kafka.offset_metadata import Cut, encode_metadata, with_token
from dedupe_worker.store.learnt import LearntOutputs
from dedupe_worker.store.metadata import encode_more
from tests.golden.documents import STAMP
from tests.golden.stores import IDENTITY

ENTRIES: Final[list[Entry]] = [
    Switch(epoch=0, partitions=4, inputs={"orders": 8}),
    Done(epoch=0),
    Listed(epoch=0, inputs={"orders": 9, "returns": 3}),
    Prepare(epoch=1, partitions=6),
    Switch(epoch=1, partitions=6, inputs={"orders": 9, "returns": 3}),
    Cuts(epoch=1, cuts={0: 1207, 1: 1180, 2: 0, 3: 2**40}),
    Done(epoch=1),
]
MARK: Final = Mark(epoch=1, partitions=6)
CUT: Final = Cut(epoch=1, position=1207)
LEARNT: Final = {0: 1207, 1: 1180}


def growth() -> dict[str, Any]:
    """Build the records of the epoch log, the mark, the metadata of offsets, and what a store says."""
    records = [encode_entry(number, entry) for number, entry in enumerate(ENTRIES)]
    passed = encode_metadata(IDENTITY.output_topic_id, IDENTITY.input_topic_id, None, CUT)
    learnt = LearntOutputs()
    learnt.advance(1, LEARNT)
    return {
        "log": [[each.key.decode(), each.value.decode()] for each in records],
        "mark": {MARK_HEADER: encode_mark(MARK).decode()},
        "router_offset": encode_routed(IDENTITY.input_topic_id, 1),
        "worker_offset": with_token(passed, "3-1760000000000"),
        "store": encode_more(replace(STAMP, learnt=learnt.text)).hex(),
    }
