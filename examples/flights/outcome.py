"""What a run of the demo has measured, and whether that is as promised. Values only."""

import json
from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from dedupe_pipeline.jobs.audit import AuditResult


class Measured(BaseModel):
    """Figures; camelCase in JSON, as everything the project writes."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)


class Sent(Measured):
    """Records that Kafka has acknowledged, by why they were sent."""

    first: int
    retries: int
    replays: int
    seconds: float

    @property
    def repeats(self) -> int:
        """Those that the clean topic must not hold."""
        return self.retries + self.replays

    @property
    def records(self) -> int:
        """All of them."""
        return self.first + self.repeats


class Deduplicated(Measured):
    """Seconds from the first record sent to the last one committed, the time without a worker included."""

    records: int
    seconds: float


class Recovery(Measured):
    """A partition without its worker; seconds are from the kill.

    `ready_seconds` until the new process was ready, `output_seconds` until a reader of committed
    records saw the next one. `killed_at_seconds` is on the clock of the `Timeline`.
    `reconciled_records` is what the store had missed.
    """

    partition: int
    killed_pid: int
    killed_at_seconds: float
    read_before: int
    reconciled_records: int
    ready_seconds: float
    output_seconds: float


class Look(Measured):
    """What a worker said of itself at one moment; records since the demo began, of all its processes.

    `process` is their number, from 0; `window_seconds` the age of the oldest id in its store.
    """

    at_seconds: float
    process: int
    produced: int
    window_seconds: float


class Timeline(Measured):
    """What was seen while records flowed; seconds are since the first was sent.

    `sent` are moments and how many records the producer had sent by then; `looks` are by partition.
    """

    sent: list[tuple[float, int]]
    looks: list[list[Look]]


class Explained(Measured):
    """The topic of duplicates, held against the raw topic.

    `misattributed` do not name the first record with their key; `ages` is how many there are of each
    age, in whole milliseconds.
    """

    records: int
    misattributed: int
    ages_ms: dict[int, int]


class Answer(Measured):
    """The day with the most flights (the first of several) as 2013-12-31, and those of the year.

    Cancelled flights, without a delay at departure, do not count.
    """

    busiest_day: str
    flights_that_day: int
    median_delay_minutes: float
    flights_in_all: int


class Read(Measured):
    """One read of a carrier's flights.

    `right` says that they are those that were sent. `fetched_bytes` is what the broker has sent for it; `chunks` is
    how many filters spoke of the topic and how many ruled their chunk out, none where none were asked.
    """

    reader: str
    records: int
    right: bool
    fetched_bytes: int
    seconds: float
    chunks: int | None = None
    chunks_skipped: int | None = None


class Skipping(Measured):
    """A carrier's flights, read in several ways."""

    carrier: str
    flights: int
    reads: list[Read]


class CarrierDelays(Measured):
    """A carrier's year, as PostgreSQL sums it up."""

    carrier: str
    flights: int
    departures: int
    mean_delay_minutes: float
    worst_delay_minutes: int


class Counting(Measured):
    """Counts and sums in PostgreSQL: `killed_at` so many records the job was killed, and run again.

    `wrong_rows` are those that differ from what was computed from the flights themselves, or are missing.
    """

    table: str
    url: str
    rows: int
    wrong_rows: int
    records: int
    killed_at: int
    most_flights: list[CarrierDelays]


class Outcome(Measured):
    """Everything measured in one run."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    partitions: int
    seed: int
    sent: Sent
    deduplicated: Deduplicated
    recovery: Recovery
    timeline: Timeline
    landed_records: int
    clean_answer: Answer
    raw_answer: Answer
    explained: Explained
    skipping: Skipping | None = None
    counting: Counting | None = None
    audit: AuditResult
    step_seconds: dict[str, float]
    seconds: float

    def problems(self) -> list[str]:
        """Return a sentence for everything that is not as promised, none if all is."""
        return list(self._problems())

    def to_json(self) -> str:
        """Everything as indented JSON; `audit` as the job `audit` writes it."""
        document = self.model_dump(mode="json", by_alias=True, exclude={"audit"})
        document["problems"] = self.problems()
        document["audit"] = json.loads(self.audit.to_json())
        return json.dumps(document, indent=2) + "\n"

    def _problems(self) -> Iterator[str]:
        found = self.audit.total
        for count, what in (
            (found.lost, "lost"),
            (found.duplicated, "there more than once"),
            (found.altered, "altered"),
            (found.reordered, "out of order"),
            (found.foreign, "of no message that was sent"),
        ):
            if count:
                yield f"{count:,} records are {what}."
        # The audit knows only the topics; what was sent is known here.
        for seen, expected, where in (
            (found.raw_records, self.sent.records, "records are in the input topic"),
            (found.unique_ids, self.sent.first, "different messages are in the input topic"),
            (found.clean_records, self.sent.first, "records are in the clean topic"),
            (self.landed_records, self.sent.first, "records are in Parquet"),
            (
                self.explained.records,
                self.sent.repeats,
                "records are in the topic of duplicates",
            ),
        ):
            if seen != expected:
                yield f"{seen:,} {where}, where {expected:,} should be."
        if wrong := self.explained.misattributed:
            yield f"{wrong:,} duplicates do not name the record that they repeat."
        yield from self._variant_problems()

    def _variant_problems(self) -> Iterator[str]:
        if self.skipping is not None:
            for read in self.skipping.reads:
                if not read.right:
                    yield (
                        f"{read.reader} found {read.records:,} flights of {self.skipping.carrier} that are "
                        f"not the {self.skipping.flights:,} that were sent."
                    )
        if self.counting is not None:
            if wrong := self.counting.wrong_rows:
                yield f"{wrong:,} rows of {self.counting.table} in PostgreSQL are wrong or missing."
            if self.counting.records != self.sent.first:
                yield (
                    f"{self.counting.records:,} records are counted in PostgreSQL, where "
                    f"{self.sent.first:,} should be."
                )
