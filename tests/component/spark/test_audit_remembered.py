"""Audits that continue where an earlier one has ended find what an audit of everything does."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from pyspark.sql import SparkSession

from dedupe_crds.manifest import load_manifest
from dedupe_pipeline.jobs.audit import AuditResult, Outcome, audit
from dedupe_pipeline.jobs.audit.excuses import EXCUSES
from dedupe_pipeline.jobs.audit.memory import Memory
from dedupe_pipeline.jobs.audit.result import PartitionAudit
from dedupe_pipeline.jobs.audit.verdicts import DEFECTS
from tests.support.checker.record import Message
from tests.support.fixtures import CreateStream
from tests.support.layers import matrix
from tests.support.patience import HANG_SECONDS, patience
from tests.support.spark.session import spark
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import START_MS, order, produce_in_transaction

__all__ = ["spark"]

SEED = 13
DAY = 86_400_000


@dataclass(frozen=True, kw_only=True)
class Case:
    """Records of one partition before and after an audit, as texts: id, content, day; `-` is no id.

    `committed` are the input records that the group has committed before; after, it has committed all. `expected` are
    the counts of the second audit.
    """

    raw: tuple[str, str]
    clean: tuple[str, str]
    expected: dict[str, int]
    committed: int | None = None
    foreign_ids: str = ""
    """Ids that are those of the case before."""


CASES = {
    "nothing wrong": Case(
        raw=("a0@1 b0@1 a0@1", "b1@2 c0@2"), clean=("a0@1 b0@1", "c0@2"), expected={"removed": 1}
    ),
    "a copy passes again": Case(
        raw=("a0@1 b0@1", "a1@2"), clean=("a0@1 b0@1", "a1@2"), expected={"duplicated": 1}
    ),
    "the same record passes again": Case(
        raw=("a0@1 b0@1", "c0@2"), clean=("a0@1 b0@1", "c0@2 a0@1"), expected={"duplicated": 1}
    ),
    "a copy passes again after the window": Case(
        raw=("a0@1 b0@1", "c0@40 a1@40 d0@40"),
        clean=("a0@1 b0@1", "c0@40 a1@40 d0@40"),
        expected={"beyond_window": 1},
    ),
    "one is lost": Case(raw=("a0@1", "b0@2 c0@2"), clean=("a0@1", "c0@2"), expected={"lost": 1}),
    "one that was pending is lost": Case(
        raw=("a0@1 b0@1 c0@1", ""), clean=("a0@1", "c0@1"), committed=1, expected={"lost": 1}
    ),
    "one that was pending had come out": Case(
        raw=("a0@1 b0@1", "c0@1"), clean=("a0@1 b0@1", "c0@1"), committed=1, expected={}
    ),
    "one that was pending comes out late": Case(
        raw=("a0@1 b0@1 c0@1", ""),
        clean=("a0@1 c0@1", "b0@1"),
        committed=1,
        expected={"reordered": 1},
    ),
    "one is altered": Case(raw=("a0@1", "b0@2"), clean=("a0@1", "b7@2"), expected={"altered": 1}),
    "one was never sent": Case(raw=("a0@1", ""), clean=("a0@1", "b0@2"), expected={"foreign": 1}),
    "sent to another partition, later": Case(
        raw=("x0@9", "y0@9"), clean=("x0@9", "y0@9"), expected={}
    ),
    "with an earlier time": Case(
        raw=("z0@1", "x1@1"), clean=("z0@1", "x1@1"), foreign_ids="x", expected={"duplicated": 1}
    ),
    "without an id, equal ones": Case(
        raw=("-0@1", "-0@1 -0@1"), clean=("-0@1", "-0@1 -0@1"), expected={}
    ),
    "without an id, one of equal ones is lost": Case(
        raw=("-0@1", "-0@1 -0@1"), clean=("-0@1", "-0@1"), expected={"lost": 1}
    ),
    "without an id, one of equal ones passes again": Case(
        raw=("-0@1", "-0@1"), clean=("-0@1", "-0@1 -0@1"), expected={"duplicated": 1}
    ),
}


def messages(half: int, topic: str) -> list[Message]:
    """Return the records of all cases; each case is a partition with ids of its own."""
    return [
        message(text, number, case.foreign_ids)
        for number, case in enumerate(CASES.values())
        for text in getattr(case, topic)[half].split()
    ]


def message(text: str, partition: int, foreign_ids: str = "") -> Message:
    content, day = text.split("@")
    case = partition - 1 if content[0] in foreign_ids else partition
    like = order(SEED, 0)
    return replace(
        like,
        partition=partition,
        key=None if content[0] == "-" else f"{case}/{content[0]}".encode(),
        value=f"{case}/{content}".encode(),
        timestamp_ms=START_MS + int(day) * DAY,
    )


def send(stream: TestStream, raw: Sequence[Message], clean: Sequence[Message]) -> None:
    stream.send(raw)
    produce_in_transaction(stream.bootstrap_servers, stream.output_topic, clean, commit=True)


def commit(stream: TestStream, offsets: Sequence[int]) -> None:
    consumer = Consumer({"bootstrap.servers": stream.bootstrap_servers, "group.id": stream.group})
    places = [TopicPartition(stream.input_topic, *each) for each in enumerate(offsets)]

    def committed() -> bool:
        try:
            consumer.commit(offsets=places, asynchronous=False)
        except KafkaException as error:  # the group is new: its coordinator may be loading
            if not error.args[0].retriable():
                raise
            return False
        return True

    assert patience(60).wait_for(committed, poll_seconds=0.1)
    consumer.close()


def counts(found: PartitionAudit) -> dict[str, int]:
    names = (*DEFECTS, *EXCUSES, "removed")
    return {name: getattr(found, name) for name in names if getattr(found, name)}


def judged(
    spark: SparkSession,
    stream: TestStream,
    directory: Path | None = None,
    *,
    up_to_committed: bool = False,
    publish: bool = True,
) -> AuditResult:
    manifest = load_manifest(stream.manifest)
    if directory is None:
        return audit(spark, manifest, up_to_committed=up_to_committed)
    with Memory.opened(directory) as memory:
        result = audit(spark, manifest, up_to_committed=up_to_committed, memory=memory)
        if publish:
            memory.publish()
    return result


@pytest.mark.parametrize("compared", [False, matrix(True)], ids=["alone", "compared"])
def test_what_spans_two_audits_is_found_by_the_second(
    spark: SparkSession, streams: CreateStream, tmp_path: Path, *, compared: bool
) -> None:
    """Compared: with one of everything, and with one that was killed before it was done."""
    window = {"store": {"window": {"maxAge": "28d"}}}
    stream, directory = streams(partitions=len(CASES), **window), tmp_path / "remembered"
    raw = messages(0, "raw")
    send(stream, raw, messages(0, "clean"))
    sent = [sum(each.partition == number for each in raw) for number in range(len(CASES))]
    commit(
        stream,
        [
            sent[n] if case.committed is None else case.committed
            for n, case in enumerate(CASES.values())
        ],
    )
    first = judged(spark, stream, directory, up_to_committed=True)
    send(stream, messages(1, "raw"), messages(1, "clean"))
    # As an audit leaves it that is killed: the next one has the state of the first.
    unpublished = judged(spark, stream, directory, publish=False) if compared else None
    assert (directory / "generation=2").exists() == compared

    second = judged(spark, stream, directory)

    found = dict(zip(CASES, map(counts, second.partitions), strict=True))
    assert found == {name: case.expected for name, case in CASES.items()}
    assert first.outcome is Outcome.CLEAN
    if unpublished is None:
        return
    assert [counts(each) for each in unpublished.partitions] == list(found.values())
    everything = judged(spark, stream)
    for name in (*DEFECTS, "removed", "raw_records", "clean_records"):
        both = getattr(first.total, name) + getattr(second.total, name)
        again = first.total.pending if name == "raw_records" else 0
        assert both - again == getattr(everything.total, name), name
    assert judged(spark, stream, directory).outcome is Outcome.NOTHING_JUDGED


@pytest.mark.matrix  # what spans two audits
def test_what_is_remembered_ages_out_and_a_late_repeat_is_not_lost(
    spark: SparkSession, streams: CreateStream, tmp_path: Path
) -> None:
    """A worker may know an id for longer than the window: then its repeat does not pass."""
    window = {"store": {"window": {"maxAge": "28d"}}}
    stream, directory = streams(**window), tmp_path / "remembered"

    def audited(raw: str, clean: str) -> dict[str, int]:
        of = [[message(text, 0) for text in part.split()] for part in (raw, clean)]
        send(stream, *of)
        return counts(judged(spark, stream, directory).total)

    assert audited("a0@1 b0@1 c0@1", "a0@1 b0@1 c0@1") == {}
    assert audited("d0@20 e0@20 f0@20", "d0@20 e0@20 f0@20") == {}
    assert audited("g0@40 h0@40 i0@40", "g0@40 h0@40 i0@40") == {}
    assert sorted(path.name for path in directory.glob("generation=*")) == [
        "generation=2",
        "generation=3",
    ]
    # b is of what is no longer remembered, e of what is.
    found = audited("b1@41 e1@41 x0@41 j0@41", "e1@41 j0@41")
    assert found == {"removed": 1, "lost": 1, "duplicated": 1}


def test_the_command_refuses_bounds_before_it_starts_spark(
    streams: CreateStream, tmp_path: Path
) -> None:
    command = ["audit", str(streams().manifest), "--remember", str(tmp_path / "new"), "--last=1h"]

    ended = subprocess.run(
        [sys.executable, "-m", "dedupe_pipeline", *command],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )

    assert ended.returncode == 2, ended.stderr
    assert "--remember is not possible with --since, --last or --offsets" in ended.stderr
    assert not (tmp_path / "new").exists()
