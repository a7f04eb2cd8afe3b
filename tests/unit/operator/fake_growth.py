"""The epoch log and the committed offsets of a stream with routers, without Kafka."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.growth import GrowthStatus
from dedupe_growth.before_routers import Ran
from dedupe_growth.controller import Topics
from dedupe_growth.decide import HandOver, Observed, WriteMarks, decide
from dedupe_growth.entries import Direct, Entry
from dedupe_growth.epochs import Epochs, epochs_of
from dedupe_kafka.errors import StreamError
from dedupe_kafka.offset_metadata import Cut
from dedupe_kafka.offsets import Place


@dataclass
class FakeEpochs:
    """The log of a stream, and what routers and workers have committed.

    `direct` is what the controller finds of a stream that ran without routers, if it finds the log empty.

    Called, it makes a controller, which decides as the real one does.
    """

    entries: list[Entry] = field(default_factory=list)
    adopted: dict[Place, int] = field(default_factory=dict)
    passed: dict[int, Cut] = field(default_factory=dict)
    direct: Direct | None = None
    handed_over: dict[int, HandOver] = field(default_factory=dict)
    marks: list[WriteMarks] = field(default_factory=list)
    fails: StreamError | None = None
    steps: int = 0
    secrets: list[dict[str, str]] = field(default_factory=list)

    def __call__(
        self, stream: DedupeStream, properties: Mapping[str, str], topics: Topics
    ) -> "FakeController":
        return FakeController(self, stream, properties, topics)


class FakeController:
    """Stands in for `dedupe_growth.controller.GrowthController`."""

    def __init__(
        self,
        kafka: FakeEpochs,
        stream: DedupeStream,
        properties: Mapping[str, str],
        topics: Topics,
    ) -> None:
        self._kafka = kafka
        self._stream = stream
        self._properties = properties
        self._topics = topics
        self.epochs = Epochs()
        self.status: GrowthStatus | None = None

    def read(self) -> Epochs:
        if self._kafka.fails:
            raise self._kafka.fails
        self.epochs = epochs_of(self._kafka.entries)
        return self.epochs

    def step(self, wanted: int, unlearnt: Mapping[int, int], *, ran: Ran | None = None) -> bool:
        kafka = self._kafka
        kafka.steps += 1
        kafka.secrets.append(dict(self._properties))
        inputs = self._topics.partition_counts(self._stream.spec.input.names)
        seen = Observed(
            inputs=inputs,
            wanted=wanted,
            adopted=kafka.adopted,
            passed=kafka.passed,
            unlearnt=unlearnt,
            direct=kafka.direct or (_direct(ran) if ran else None),
            handed_over=kafka.handed_over,
        )
        decision = decide(self.read(), seen)
        self.status = decision.status
        match decision.act:
            case None:
                return False
            case WriteMarks() as marks:
                known = marks in kafka.marks
                kafka.marks.append(marks)
                return not known
            case entry:
                kafka.entries.append(entry)
                self.read()
                return True


def _direct(ran: Ran) -> Direct:
    return Direct(epoch=0, partitions=ran.workers, topic=ran.topic, topic_id="T")
