"""Hand the input of a partition over to routers that the stream has got.

`Supervisor` asks for it before each session behind routers, until the epoch log says that all have handed over
(docs/decisions/0035). It is a session of the worker that this one was: it takes over, so that an earlier process has
ended, and catches up with the output. Then it commits its input offset once more, with the output position at this
border: the cut. Routers begin at that offset, and other partitions learn this one's ids up to that position. Invariant:
it processes nothing, so there is nothing between the cut and what an earlier process has committed.
"""

from contextlib import closing
from copy import copy
from dataclasses import replace
from threading import Event

import structlog

from dedupe_crds.spec.input import Input
from dedupe_growth.entries import Direct
from dedupe_growth.log import NO_ENTRY, EpochLogMissing
from dedupe_kafka.offset_metadata import Cut, decode_metadata, encode_metadata
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.errors import HandOverLost
from dedupe_worker.kafka.committed import Committed
from dedupe_worker.kafka.consumer import PartitionReader
from dedupe_worker.kafka.producer import PartitionOutput
from dedupe_worker.recovery.input_offset import InputStart
from dedupe_worker.recovery.taken_over import TakenOver

log = structlog.get_logger()


def is_handed_over(committed: Committed | None) -> bool:
    """Return whether a committed offset of the input is the last one of its worker."""
    return committed is not None and decode_metadata(committed.metadata).cut is not None


def hand_over(
    partition: TakenOver,
    output: PartitionOutput,
    reader: PartitionReader,
    start: InputStart,
    *,
    position: int,
) -> None:
    """Commit the input offset `start` with the cut at `position`. Raises StreamError."""
    ids = partition.output_topic.id, partition.input_topic.id
    # The routers' first epoch follows the one without them, which is 0.
    output.record_start(start.offset, reader, encode_metadata(*ids, position, Cut(1, position)))
    log.info("input handed over to routers", offset=start.offset, cut=position)


def before_routers(factory: ComponentFactory, stop: Event) -> ComponentFactory | None:
    """Return the factory of the worker that this one was, if it has to hand over.

    Raises StreamError, EpochLogMissing before the log has an entry.
    """
    if factory.config.stream.spec.repartition is None:
        return None
    with closing(factory.make_epoch_reader()) as reader:
        epochs = reader.read_to_end(stop)
    if not epochs.entries:
        raise EpochLogMissing(NO_ENTRY)
    direct = epochs.direct
    if direct is None or epochs.first in epochs.cuts:
        return None
    if factory.config.partition >= direct.partitions:
        return None
    return _without_routers(factory, direct)


def check_handed_over(factory: ComponentFactory, direct: Direct) -> None:
    """Raise HandOverLost if this worker must hand over again. Raises StreamError."""
    if factory.config.partition >= direct.partitions:
        return
    with closing(factory.make_reader(direct.topic)) as reader:
        committed = reader.committed()
    if not is_handed_over(committed):
        raise HandOverLost(
            f"the input offset of {direct.topic}/{factory.config.partition} that was handed over is gone: was the "
            "topic deleted, or the group's offset set? Handing over again"
        )


def _without_routers(factory: ComponentFactory, direct: Direct) -> ComponentFactory:
    stream = factory.config.stream
    source = Input(topic=direct.topic, accept_truncated=stream.spec.input.accept_truncated)
    spec = stream.spec.model_copy(update={"repartition": None, "input": source})
    made = copy(factory)
    made.take_over = factory.take_over_before_routers
    made.config = replace(factory.config, stream=stream.model_copy(update={"spec": spec}))
    return made
