"""Tell an output that has lost records, and keep that until a person has seen it.

Brokers lose the tail of a partition in a power loss of all replicas or an unclean election. Three things know how far
the output was: the store's position, the last record that it has written (a fingerprint, see topic_proof.py), and the
group's committed offset (docs/decisions/0059). The output is the truth, so a worker continues with what is left of it.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import Final

import structlog
from pydantic import BaseModel, ConfigDict, TypeAdapter

from dedupe_crds.formatting import listed
from dedupe_kafka.offset_metadata import decode_metadata
from dedupe_kafka.offsets import OffsetRange
from dedupe_kafka.topic_id import has_id
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.kafka.committed import Committed
from dedupe_worker.recovery.taken_over import TakenOver
from dedupe_worker.recovery.topic_proof import Proof, prove
from dedupe_worker.status import Degraded
from dedupe_worker.store.api import IdStore
from dedupe_worker.store.state_dir import write_atomically

log = structlog.get_logger()


class OutputLoss(BaseModel):
    """One entry of losses.json: what an output had lost when a start `found` that.

    It had reached offset `known`, and the record at `offset` was the last that is known to be lost.
    """

    model_config = ConfigDict(frozen=True)

    topic: str
    partition: int
    offset: int
    known: int
    found: str


_LOSSES: Final = TypeAdapter(list[OutputLoss])


@dataclass(frozen=True, slots=True)
class Lost:
    """An output that reached `known` had lost a record at `offset` or before.

    `in_store`: the store has the ids of what was lost.
    """

    offset: int
    known: int
    in_store: bool


def reached(committed: Committed | None, output_topic_id: str) -> int:
    """Return how far the output was when the input offset was committed; 0 if unknown."""
    of = decode_metadata(committed.metadata if committed else "")
    same = of.output_topic == output_topic_id and has_id(output_topic_id)
    return max(of.position or 0, of.reached or 0) if same else 0


def find_loss(
    factory: ComponentFactory,
    partition: TakenOver,
    store: IdStore | None,
    output: OffsetRange,
    stop: Event,
) -> Lost | None:
    """Return what the output lacks; None if nothing is known.

    Raises StreamError, and Stopped if `stop` is set before the last record is read.
    """
    topic, before = partition.output_topic, partition.recorded
    if before is not None and before.output_topic_id != topic.id:
        return None
    metadata = store.metadata if store else None
    known = max(metadata.output_position, store.reach) if store and metadata else 0
    if known > output.end:
        return Lost(output.end, known, in_store=True)
    last = metadata.last_written if metadata and has_id(topic.id) else ""
    if has_lost(factory, topic.name, last, output, stop):
        return Lost(int(last.partition(" ")[0]), known, in_store=True)
    known = reached(partition.committed, topic.id)
    return Lost(output.end, known, in_store=False) if known > output.end else None


def has_lost(
    factory: ComponentFactory, topic: str, last: str, output: OffsetRange, stop: Event
) -> bool:
    """Return whether the output has no longer the record of this fingerprint.

    An empty one is of no record. One that retention may have deleted is no loss. Raises StreamError, and Stopped if
    `stop` is set before it is read.
    """
    proof = prove(last, output, partial(factory.make_reader, topic), stop)
    return proof in {Proof.ANEW, Proof.GONE}


def remember(factory: ComponentFactory, partition: TakenOver, lost: Lost) -> None:
    """Keep a loss on the volume, before anything is done that hides it.

    A start that was killed may have found it, and then it is known.
    """
    name, number = partition.output_topic.name, partition.identity.partition
    file = factory.config.state.losses
    known = _read(file)
    if (name, lost.offset) in {(each.topic, each.offset) for each in known}:
        return
    found = f"{factory.clock.now():%Y%m%dT%H%M%SZ}"
    loss = OutputLoss(
        topic=name, partition=number, offset=lost.offset, known=lost.known, found=found
    )
    _write(file, [*known, loss])
    log.error("the output has lost records", topic=name, offset=lost.offset, known=lost.known)


def report(factory: ComponentFactory) -> None:
    """Show the losses that no person has accepted; forget the others."""
    accepted = factory.config.stream.spec.output.accept_truncated or ()
    seen = {(each.topic, each.partition, each.offset, each.found) for each in accepted}
    file = factory.config.state.losses
    known = _read(file)
    left = [
        each for each in known if (each.topic, each.partition, each.offset, each.found) not in seen
    ]
    if len(left) < len(known):
        _write(file, left)
    degradations = factory.worker_state.degradations
    if not left:
        degradations.clear(Degraded.OUTPUT_TRUNCATED)
        return
    degradations.hold(
        Degraded.OUTPUT_TRUNCATED,
        listed([_told(each) for each in left])
        + ". What passed there is lost to readers; copies that are sent again pass. When that is dealt with, add to "
        "spec.output.acceptTruncated: " + listed([_entry(each) for each in left]),
    )


def _read(file: Path) -> list[OutputLoss]:
    try:
        return _LOSSES.validate_json(file.read_bytes())
    except FileNotFoundError:
        return []


def _write(file: Path, losses: list[OutputLoss]) -> None:
    write_atomically(file, _LOSSES.dump_json(losses).decode() + "\n")


def _told(loss: OutputLoss) -> str:
    return (
        f"the brokers have lost records of {loss.topic}/{loss.partition}, which had reached offset {loss.known}: that "
        f"of offset {loss.offset}, and maybe some before it"
    )


def _entry(loss: OutputLoss) -> str:
    return f"{{topic: {loss.topic}, partition: {loss.partition}, offset: {loss.offset}, found: {loss.found}}}"
