"""The measurements of a demo run, and their check against the guarantees."""

import json
from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from dedupe_pipeline.jobs.audit import AuditResult


class Measured(BaseModel):
    """Base of the measurements; camelCase in JSON, as in all JSON of the project."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)


class Sent(Measured):
    """Records that Kafka has acknowledged, by the reason for which they were sent.

    `repeats_in_another_partition` of the retries and replays were sent to a partition without an earlier copy.
    """

    first: int
    retries: int
    replays: int
    repeats_in_another_partition: int = 0
    seconds: float

    @property
    def repeats(self) -> int:
        """The number of duplicates, which the clean topic must not contain."""
        return self.retries + self.replays

    @property
    def records(self) -> int:
        """The number of all records."""
        return self.first + self.repeats


class Deduplicated(Measured):
    """Seconds from the first record sent to the last committed, outage included."""

    records: int
    seconds: float


class Recovery(Measured):
    """The recovery of a partition after its worker was killed; seconds since the kill.

    `ready_seconds` until the new process was ready, `output_seconds` until a read_committed consumer
    received the next record. `killed_at_seconds` is on the clock of the `Timeline`.
    `catch_up_records` were read back from the output topic, because the store lacked them.
    """

    partition: int
    killed_pid: int
    killed_at_seconds: float
    read_before: int
    catch_up_records: int
    ready_seconds: float
    output_seconds: float


class Sample(Measured):
    """The status of a partition's worker at one moment.

    `produced` counts records since the demo began, of all the partition's processes; `process` is the number
    of the process, from 0; `window_seconds` is the age of the oldest id in the store.
    """

    at_seconds: float
    process: int
    produced: int
    window_seconds: float


class Timeline(Measured):
    """Samples during the deduplication; seconds since the first record was sent.

    `sent` has moments and the number of records that the producer had sent by then. `samples` are by partition.
    """

    sent: list[tuple[float, int]]
    samples: list[list[Sample]]


class Explained(Measured):
    """The topic of duplicates, compared with the raw topic.

    `misattributed` duplicates do not name the first record with their id in their partition as their original; behind
    routers, no other record with their id.
    `ages_ms` is the number of duplicates by age, in whole milliseconds.
    """

    records: int
    misattributed: int
    ages_ms: dict[int, int]


class Answer(Measured):
    """The day with most flights, as 2013-12-31, and the flights of the year.

    The first day, if several have the same number. Cancelled flights, which have no departure delay, do not count.
    """

    busiest_day: str
    flights_that_day: int
    median_delay_minutes: float
    flights_in_all: int


class Read(Measured):
    """One read of a carrier's flights.

    `right` is true if the records are those that were sent. `fetched_bytes` is what the broker has sent for the read.
    `chunks` is the number of chunk filters that were checked, and `chunks_skipped` how many of these chunks were
    skipped; both are None for a read without filters.
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
    """A carrier's totals of the year, by a query on PostgreSQL."""

    carrier: str
    flights: int
    departures: int
    mean_delay_minutes: float
    worst_delay_minutes: int


class Counting(Measured):
    """Counts and sums in PostgreSQL, by a job that was killed and run again.

    It was killed after `killed_at` records. `wrong_rows` are missing, or differ from the values that were
    computed from the flights themselves.
    """

    table: str
    url: str
    rows: int
    wrong_rows: int
    records: int
    killed_at: int
    most_flights: list[CarrierDelays]


class Outcome(Measured):
    """Everything measured in one run.

    A `scattered` run is meant to show that duplicates pass if their producer sends no keys, and if it is `routed` as
    well, that routers prevent that.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    partitions: int
    scattered: bool = False
    routed: bool = False
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

    @property
    def passing(self) -> int:
        """The duplicates that no worker can recognise, so that they must pass."""
        return 0 if self.routed else self.sent.repeats_in_another_partition

    @property
    def shows_passing(self) -> bool:
        """The run is meant to show that duplicates pass."""
        return self.scattered and not self.routed

    def problems(self) -> list[str]:
        """Return a sentence for each guarantee that was broken; empty if there is none.

        Duplicates that must pass are no problem. In a `scattered` run there must be some.
        """
        return list(self._problems())

    def to_json(self) -> str:
        """Return all measurements as indented JSON, with `audit` as the job writes it."""
        document = self.model_dump(mode="json", by_alias=True, exclude={"audit"})
        document["problems"] = self.problems()
        document["audit"] = json.loads(self.audit.to_json())
        return json.dumps(document, indent=2) + "\n"

    def _problems(self) -> Iterator[str]:
        found = self.audit.total
        for count, what in (
            (found.lost, "lost"),
            (found.duplicated - found.duplicated_in_another_partition, "duplicated"),
            (found.altered, "altered"),
            (found.reordered, "out of order"),
            (found.foreign, "not from any message that was sent"),
        ):
            if count:
                yield f"{count:,} records are {what}."
        if self.scattered and not self.sent.repeats_in_another_partition:
            yield (
                "No duplicate was sent to another partition, so nothing could be shown. Set more --rows or "
                "--duplicates."
            )
        # The audit compares the topics. The demo also knows what was sent.
        passed = self.sent.first + self.passing
        for seen, expected, where in (
            (found.raw_records, self.sent.records, "records are in the input topic"),
            (found.unique_ids, self.sent.first, "different messages are in the input topic"),
            (
                found.duplicated_in_another_partition,
                self.passing,
                "duplicates in another partition are in the clean topic",
            ),
            (found.clean_records, passed, "records are in the clean topic"),
            (self.landed_records, passed, "records are in Parquet"),
            (
                self.explained.records,
                self.sent.records - passed,
                "records are in the topic of duplicates",
            ),
        ):
            if seen != expected:
                yield f"{seen:,} {where}; expected: {expected:,}."
        if wrong := self.explained.misattributed:
            yield f"{wrong:,} duplicates do not name their original record."
        yield from self._variant_problems()

    def _variant_problems(self) -> Iterator[str]:
        if self.skipping is not None:
            for read in self.skipping.reads:
                if not read.right:
                    yield (
                        f"{read.reader} found {read.records:,} flights of {self.skipping.carrier} that differ "
                        f"from the {self.skipping.flights:,} that were sent."
                    )
        if self.counting is not None:
            if wrong := self.counting.wrong_rows:
                yield f"{wrong:,} rows of {self.counting.table} in PostgreSQL are wrong or missing."
            if self.counting.records != self.sent.first:
                yield (
                    f"{self.counting.records:,} records are counted in PostgreSQL; expected: "
                    f"{self.sent.first:,}."
                )
