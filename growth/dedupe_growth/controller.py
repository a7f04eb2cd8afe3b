"""Take a stream from one number of partitions to a larger one, while it runs.

The operator and `dedupe run` call `step` repeatedly: each call reads from Kafka, and does at most one act.
Invariant: the epoch log is the truth. A controller that is killed between any two calls, or within one, is continued by
the next one; two at once do no harm, because only one of them can append.
"""

from collections.abc import Collection, Mapping
from operator import itemgetter
from typing import Final, Protocol

from confluent_kafka import KafkaError, Message

from dedupe_crds.clock import SYSTEM_CLOCK, Clock
from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.growth import GrowthStatus
from dedupe_growth.before_routers import (
    Ran,
    check_partitions,
    find_direct,
    find_handed_over,
)
from dedupe_growth.committed import REQUEST_SECONDS, CommittedEpochs
from dedupe_growth.decide import Observed, WriteMarks, decide
from dedupe_growth.entries import Entry, EpochLogUnreadable, Prepare, Switch
from dedupe_growth.epochs import NO_EPOCH, Epochs
from dedupe_growth.log import EpochLogMissing, EpochReader, open_epochs
from dedupe_growth.mark import MARK_HEADER, encode_mark
from dedupe_growth.writer import TRANSACTION_SECONDS, EpochLogMoved, EpochWriter
from dedupe_kafka.client import calling, kafka_error, made
from dedupe_kafka.client_config import producer_config
from dedupe_kafka.clients import CLIENTS, Clients
from dedupe_kafka.epochs_topic import epochs_topic
from dedupe_kafka.errors import BrokerUnavailable, NotAuthorized, StreamError
from dedupe_kafka.input_topics import former_inputs, matching_topics
from dedupe_kafka.offsets import TopicOffsets

_MARK_SECONDS: Final = 10.0
# An end is reported after a fetch that waited in vain.
_FETCH_WAIT_MS: Final = 10
_QUEUE_BYTES: Final = 1 << 20
_LARGEST_BATCH_BYTES: Final = 1 << 20


class FormerInputUnreadable(StreamError):
    """A growth would wait for offsets of a former input that can't be committed."""

    retriable = True


class Topics(Protocol):
    """The part of `Cluster` that this needs."""

    def topic_names(self) -> list[str]: ...  # noqa: D102
    def partition_counts(self, names: Collection[str]) -> dict[str, int]: ...  # noqa: D102
    def offsets(self, name: str) -> TopicOffsets: ...  # noqa: D102
    def offsets_of(self, name: str, partitions: Collection[int]) -> TopicOffsets: ...  # noqa: D102


class GrowthController:
    """The controller of one stream with routers. Not to be shared between threads.

    `epochs` is what it knows of the log, `status` the step of the present growth, or of the last one.
    """

    def __init__(
        self,
        stream: DedupeStream,
        properties: Mapping[str, str],
        topics: Topics,
        *,
        clock: Clock = SYSTEM_CLOCK,
        clients: Clients = CLIENTS,
    ) -> None:
        self._stream = stream
        self._properties = properties
        self._topics = topics
        self._clock = clock
        self._clients = clients
        self._committed = CommittedEpochs(stream, properties, clients, clock)
        self._read = False
        self._marked: dict[tuple[int, int], float] = {}
        self.epochs = Epochs()
        self.status: GrowthStatus | None = None

    def step(self, wanted: int, unlearnt: Mapping[int, int], *, ran: Ran | None = None) -> bool:
        """Do the next act, if there is one; return whether something was done.

        `wanted` is the number of partitions that the manifest asks for, and that every topic of the stream has;
        `unlearnt` is as in `Observed`, `ran` is known of workers without routers. Raises StreamError; then nothing that
        is not in the log counts as done.
        """
        self.read()
        seen = self._look(wanted, unlearnt, ran)
        decision = decide(self.epochs, seen)
        self.status = decision.status
        if decision.act is not None:
            self._check_lost()
        match decision.act:
            case None:
                return False
            case WriteMarks() as marks:
                return self._write(marks)
            case entry:
                if isinstance(entry, Prepare | Switch):
                    self._check_former()
                self._append(entry)
                return True

    # -- looking ---------------------------------------------------------------------------------

    def read(self) -> Epochs:
        """Return what the log says; read it if that is not known. Raises StreamError."""
        if not self._read:
            self._read_log()
        return self.epochs

    def _read_log(self) -> None:
        reader = self._open_log()
        try:
            self.epochs = reader.read_to_end()
        finally:
            reader.close()
        self._read = True

    def _open_log(self) -> EpochReader:
        make, options = self._clients.consumer, {"fetch.wait.max.ms": _FETCH_WAIT_MS}
        stream, properties = self._stream, self._properties
        return open_epochs(make, stream, properties, self._clock, self.epochs, **options)

    def _look(self, wanted: int, unlearnt: Mapping[int, int], ran: Ran | None) -> Observed:
        inputs, epochs = self._inputs(), self.epochs
        if not epochs.entries:
            direct = find_direct(self._stream, inputs, self._topics, self._committed.of, ran)
            return Observed(inputs=inputs, wanted=wanted, direct=direct)
        if epochs.direct is not None and epochs.switched == NO_EPOCH:
            asked = epochs.partitions.get(epochs.first, wanted)
            check_partitions(epochs.direct.partitions, asked)
            handed_over = find_handed_over(epochs.direct, self._stream, self._committed.of)
            return Observed(inputs=inputs, wanted=wanted, handed_over=handed_over)
        if not epochs.grows:
            return Observed(inputs=inputs, wanted=wanted)
        return Observed(
            inputs=inputs,
            former=self._former(epochs),
            wanted=wanted,
            adopted=self._committed.routed(epochs.switch_inputs.get(epochs.switched, {})),
            passed=self._committed.cuts(epochs.workers),
            unlearnt=unlearnt,
        )

    def _inputs(self) -> dict[str, int]:
        """Return the partition counts of the input topics that exist."""
        spec = self._stream.spec
        names = spec.input.names or matching_topics(self._topics.topic_names(), spec)
        return self._topics.partition_counts(names)

    def _former(self, epochs: Epochs) -> dict[str, int]:
        """Return the partition counts of topics that were inputs, and still exist."""
        names = former_inputs(epochs.listed, self._stream.spec)
        return self._topics.partition_counts(names) if names else {}

    def _check_former(self) -> None:
        """Raise FormerInputUnreadable if an epoch could not end for a former input.

        Before it begins: later, messages would wait.
        """
        for topic in former_inputs(self.epochs.listed, self._stream.spec):
            counts = self.epochs.listed[topic]
            for why in self._topics.offsets_of(topic, range(counts)).failed.values():
                if isinstance(why, NotAuthorized):
                    raise FormerInputUnreadable(
                        f"{topic} was an input and is no longer in spec.input, and its group offsets get the new "
                        f"epoch before the stream has more partitions; but {why}. Grant READ and DESCRIBE on it until "
                        "the growth is done, put it back into spec.input, or delete the topic"
                    )

    # -- acting ----------------------------------------------------------------------------------

    def _append(self, entry: Entry) -> None:
        if not self.epochs.entries:
            self._check_new()
        topic = epochs_topic(self._stream.spec.output.topic)
        reader = self._open_log()
        # What is appended may be in the log though no answer comes.
        self._read = False
        try:
            producer = made(self._clients.producer, self._producing(transactional=True))
            writer = EpochWriter(producer, reader, topic, self._clock)
            self.epochs = writer.append(self.epochs, entry)
            self._read = True
        except EpochLogMoved:
            self.epochs = reader.epochs
            raise
        finally:
            reader.close()

    def _check_lost(self) -> None:
        """Raise EpochLogUnreadable if an offset has an epoch that the log does not have.

        Then the log has lost its tail, and what is appended would be another entry in the place of a lost one. Raises
        EpochLogMoved if it was only not known here.
        """
        if not self.epochs.entries:
            return
        topic = self._stream.spec.worker_input
        cuts = self._committed.cuts(self._topics.partition_counts([topic]).get(topic, 0))
        found = {
            **self._committed.routed({**self._former(self.epochs), **self._inputs()}),
            **{(topic, partition): cut.epoch for partition, cut in cuts.items()},
        }
        place, epoch = max(found.items(), key=itemgetter(1), default=(("", 0), 0))
        if epoch <= _last(self.epochs):
            return
        self._read_log()
        log = epochs_topic(self._stream.spec.output.topic)
        if epoch <= _last(self.epochs):
            raise EpochLogMoved(f"another controller has written epoch {epoch} to {log}")
        raise EpochLogUnreadable(
            f"the committed offset of {place[0]}/{place[1]} is of epoch {epoch}, which {log} does not have: it has "
            "lost its last entries; restore it from a copy"
        )

    def _check_new(self) -> None:
        """Raise EpochLogMissing if the log is empty, and routers have read one."""
        found = self._committed.routers(self._inputs())
        if any(":" in (at.metadata or "") for at in found.values()):
            topic = epochs_topic(self._stream.spec.output.topic)
            raise EpochLogMissing(
                f"{topic} is empty, and the routers have read one before: restore it from a copy, because it says how "
                "many partitions the stream has had"
            )

    def _write(self, marks: WriteMarks) -> bool:
        """Append marks that were not written, or not met for a while."""
        now, epoch = self._clock.monotonic(), marks.mark.epoch
        due = [
            partition
            for partition in marks.partitions
            if now >= self._marked.get((epoch, partition), 0.0)
        ]
        if not due:
            return False
        refused: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                refused.append(error)

        topic, headers = self._stream.spec.worker_input, [(MARK_HEADER, encode_mark(marks.mark))]
        with calling(f"writing marks to {topic}"):
            producer = made(self._clients.producer, self._producing(transactional=False))
            for partition in due:
                producer.produce(
                    topic, None, None, partition, on_delivery=delivered, headers=headers
                )
            unsent = producer.flush(REQUEST_SECONDS)
        if refused:
            raise kafka_error(refused[0], f"writing marks to {topic}")
        if unsent:
            raise BrokerUnavailable(f"{topic}: marks are not acknowledged")
        self._marked |= {(epoch, partition): now + _MARK_SECONDS for partition in due}
        return True

    def _producing(self, *, transactional: bool) -> dict[str, object]:
        # Not for marks, of which a second one does no harm: an idempotent producer waits 0.5 s for its id at first
        # (librdkafka 2.16). The log needs it, also if the user turns it off for a stream of AtLeastOnce.
        idempotence = "true" if transactional else "false"
        return producer_config(
            self._stream.spec.kafka.bootstrap_servers,
            {**self._properties, "enable.idempotence": idempotence},
            transactional_id=f"{self._stream.consumer_group}.epochs" if transactional else None,
            queue_bytes=_QUEUE_BYTES,
            largest_batch_bytes=_LARGEST_BATCH_BYTES,
            transaction_seconds=TRANSACTION_SECONDS,
        )


def _last(epochs: Epochs) -> int:
    """Return the last epoch that a committed offset may have.

    Epoch 0 is that of a release without a log.
    """
    # A worker that has handed its input over may be in the routers' first epoch before the log says so.
    return max(0, epochs.switched, min(epochs.first, epochs.prepared), *epochs.cuts)
