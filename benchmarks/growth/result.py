"""The result of the benchmark of a growth."""

from benchmarks.harness.check import Verdict
from benchmarks.harness.model import Model
from benchmarks.harness.pacer import Pace


class Delays(Model):
    """From the time at which messages were due until they were received, in milliseconds."""

    records: int
    p50_ms: float
    p99_ms: float
    longest_ms: float


class Period(Model):
    """The delays of the messages that were due in a period: of ids that stay, and that move.

    None if there were none.
    """

    name: str
    seconds: float
    stays: Delays | None
    moves: Delays | None


class Learner(Model):
    """Records that a new worker had read of the old outputs at the end of Learning.

    `ids` are those that it has kept, `seconds` is the time since its first read. `records_in_all` are those that it had
    read when it was last seen to read.
    """

    partition: int
    records: int
    ids: int
    seconds: float
    records_in_all: int

    @property
    def ids_per_second(self) -> float:
        """Ids learnt a second."""
        return self.ids / self.seconds

    @property
    def records_per_second(self) -> float:
        """Records read a second."""
        return self.records / self.seconds


class GrowthUse(Model):
    """A growth under load.

    `usual` is the time before it, `whole` that from the request until the step Done, `steps` its parts, `later` the
    time after it. `output_records` and `output_bytes` are those of the old outputs at its end, as the broker has them
    on disk.
    """

    ids: int
    rate: int
    before: int
    after: int
    inputs: int
    value_bytes: int
    usual: Period
    whole: Period
    steps: list[Period]
    later: Period
    learners: list[Learner]
    output_records: int
    output_bytes: int
    pace: Pace
    verdict: Verdict

    @property
    def ids_per_second(self) -> float:
        """Ids learnt a second, by all new workers together."""
        return sum(each.ids_per_second for each in self.learners)

    @property
    def records_per_second(self) -> float:
        """Records read a second, by all new workers together."""
        return sum(each.records_per_second for each in self.learners)

    @property
    def read_times(self) -> float:
        """Times that the old outputs were read, by all new workers together."""
        return sum(each.records_in_all for each in self.learners) / self.output_records

    @property
    def read_bytes(self) -> float:
        """The bytes of that: the records read, each of the mean size on disk."""
        return self.read_times * self.output_bytes

    @property
    def longest_moved_seconds(self) -> float:
        """The longest delay of an id that moves, 0 if none did."""
        return self.whole.moves.longest_ms / 1e3 if self.whole.moves else 0.0

    @property
    def usual_p99_ms(self) -> float:
        """Before the growth, of ids that stay."""
        return self.usual.stays.p99_ms if self.usual.stays else 0.0

    @property
    def stayed_p99_ms(self) -> float:
        """During the growth, of ids that stay."""
        return self.whole.stays.p99_ms if self.whole.stays else 0.0
