"""The memory of an audit for the next one: a directory of Parquet files.

The command `audit` opens it, and `incremental` reads and writes it:

    state.json                    how far each topic is judged, and the generations
    generation=3/side=raw/        digests of the input records that were judged in the third audit
    generation=3/side=clean/      digests of the output records that were read in it

Invariant: `state.json` is replaced by one rename, after the generation that it names is complete. A directory that it
does not name is what a killed audit has left, and the next one removes it.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dedupe_crds.spec.stream import DedupeStream
from dedupe_kafka.offsets import TopicOffsets
from dedupe_pipeline.errors import AuditNotContinued
from dedupe_pipeline.jobs.written_files import local_output

_STATE, _LOCK, _GENERATION = "state.json", ".lock", "generation="
_AGAIN = "choose another directory, or delete this one, to judge the topics from their beginning"

Offsets = dict[int, int]
"""A number of each partition."""


class Generation(BaseModel):
    """The records that one audit has read, by its number.

    `records_before` is for each Spark task that has read the input how many records of its partition are before those
    of the task. `ends` are the offsets of the output after it, `stream_ms` the time of the stream there.
    """

    model_config = ConfigDict(frozen=True)

    number: int
    records_before: list[int]
    ends: Offsets
    stream_ms: Offsets


class State(BaseModel):
    """The progress in the topics.

    `raw` and `clean` are the offsets of the input and the output from which the next audit reads; `topics` the UUIDs.
    `begins` and `accounted_from` are as of `Facts`, from the first audit. `positions` are the numbers of input records
    before `raw`; `last_kept` is the input offset of the last record of the output whose order was compared. `dropped`
    is the last generation that was too old, if any.
    """

    model_config = ConfigDict(frozen=True)

    stream: str
    id: dict[str, Any]
    topics: dict[str, str]
    raw: Offsets = Field(default_factory=dict)
    clean: Offsets = Field(default_factory=dict)
    begins: Offsets = Field(default_factory=dict)
    accounted_from: Offsets = Field(default_factory=dict)
    positions: Offsets = Field(default_factory=dict)
    last_kept: Offsets = Field(default_factory=dict)
    last_ms: Offsets = Field(default_factory=dict)
    generations: list[Generation] = Field(default_factory=list)
    dropped: Generation | None = None
    count: int = 0


class Memory:
    """The directory, opened. `next` is the state to publish, once an audit is done."""

    def __init__(self, directory: Path, state: State | None) -> None:
        self.directory = directory
        self.state = state
        self.next: State | None = None

    @classmethod
    @contextmanager
    def opened(cls, directory: Path) -> Iterator[Self]:
        """Open the directory, or create it. No other audit may use it meanwhile.

        Raises:
            AuditNotContinued: another audit uses it, or it contains something else.
            NotShared: it is a URL of something else than files.
        """
        directory = local_output(directory)
        directory.mkdir(parents=True, exist_ok=True)
        with (directory / _LOCK).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise AuditNotContinued(
                    f"{directory} is in use by another audit: wait until it has ended"
                ) from error
            memory = cls(directory, _read(directory))
            memory._remove_unnamed()
            yield memory

    def state_for(self, stream: DedupeStream, raw: TopicOffsets, clean: TopicOffsets) -> State:
        """Return the state, checked against the stream and its topics as they are now.

        Raises:
            AuditNotContinued: it is of another stream, a topic was created again, or records were deleted unread.
        """
        identity = stream.spec.id.model_dump(mode="json", exclude_none=True)
        topics = {each.topic: each.id for each in (raw, clean)}
        if self.state is None:
            return State(stream=stream.shown, id=identity, topics=topics)
        found = self.state
        for what, known, now in (
            ("stream", found.stream, stream.shown),
            ("spec.id", found.id, identity),
            ("topics", sorted(found.topics), sorted(topics)),
        ):
            if known != now:
                raise AuditNotContinued(
                    f"{self.directory}: {what} was {known}, and is {now}; {_AGAIN}"
                )
        for name, uuid in topics.items():
            if found.topics[name] != uuid:
                raise AuditNotContinued(
                    f"topic {name!r} was deleted and created again since the last audit in {self.directory}: its UUID "
                    f"was {found.topics[name]} and is {uuid}, so what is remembered is of other records; {_AGAIN}"
                )
        for offsets, known_to in ((raw, found.raw), (clean, found.clean)):
            _check_unread(self.directory, offsets, known_to)
        return found

    def path(self, generation: int) -> Path:
        """Return the directory of a generation."""
        return self.directory / f"{_GENERATION}{generation}"

    def publish(self) -> None:
        """Let the next audit begin where this one ended, and delete what is too old."""
        if self.next is None:
            return
        new = self.directory / f"{_STATE}.new"
        with new.open("w") as file:
            file.write(self.next.model_dump_json(indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.directory / _STATE)
        _sync(self.directory)
        self.state, self.next = self.next, None
        self._remove_unnamed()

    def _remove_unnamed(self) -> None:
        named = {self.path(each.number) for each in self.state.generations} if self.state else set()
        for path in self.directory.glob(f"{_GENERATION}*"):
            if path not in named:
                shutil.rmtree(path)


def _read(directory: Path) -> State | None:
    file = directory / _STATE
    if not file.exists():
        others = [path for path in directory.iterdir() if not _is_ours(path.name)]
        if others:
            raise AuditNotContinued(
                f"{directory} contains {others[0].name}; choose an empty directory"
            )
        return None
    try:
        return State.model_validate_json(file.read_text(encoding="utf-8"))
    except (ValidationError, UnicodeDecodeError) as error:
        raise AuditNotContinued(f"{file} is not the state of an audit; {_AGAIN}") from error


def _is_ours(name: str) -> bool:
    return name.startswith((_GENERATION, _STATE, _LOCK))


def _check_unread(directory: Path, offsets: TopicOffsets, known_to: Offsets) -> None:
    for number, low in sorted(offsets.lows.items()):
        at = known_to.get(number, 0)
        if known_to and low > at:
            raise AuditNotContinued(
                f"topic {offsets.topic!r}, partition {number}: offsets {at} to before {low} were deleted before an "
                f"audit with {directory} has read them. Audit more often, or keep records for longer; {_AGAIN}"
            )


def _sync(directory: Path) -> None:
    number = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
