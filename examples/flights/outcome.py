"""What a run of the demo has measured, and whether that is as promised. Values only."""

import json
from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from dedupe_pipeline.audit import AuditResult


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
    records saw the next one. `reconciled_records` is what the store had missed.
    """

    partition: int
    killed_pid: int
    read_before: int
    reconciled_records: int
    ready_seconds: float
    output_seconds: float


class Answer(Measured):
    """The day with the most flights (the first of several) as 2013-12-31, and those of the year.

    Cancelled flights, without a delay at departure, do not count.
    """

    busiest_day: str
    flights_that_day: int
    median_delay_minutes: float
    flights_in_all: int


class Outcome(Measured):
    """Everything measured in one run."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    partitions: int
    seed: int
    sent: Sent
    deduplicated: Deduplicated
    recovery: Recovery
    landed_records: int
    clean_answer: Answer
    raw_answer: Answer
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
        ):
            if seen != expected:
                yield f"{seen:,} {where}, where {expected:,} should be."
