"""`dedupe index-filters` writes missing filters once, also after interruptions."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from threading import Event, Thread

import pytest
import yaml
from click.testing import CliRunner

from dedupe_filters.wire_format import Origin, decode
from dedupe_kafka.side_topics import filters_topic
from dedupe_local.cli import main
from dedupe_local.servers.kafka import EmbeddedBroker
from tests.support.checker import history
from tests.support.checker.record import Record
from tests.support.patience import wait_for
from tests.support.traffic.chunks import ChunkWriter, chosen, filtered, filters_of
from tests.support.traffic.filtered_reads import assert_true, index, manifest, read

__all__ = ["filtered"]

CreateFiltered = Callable[..., str]

DEADLINE_SECONDS = 120


def test_an_old_topic_is_indexed_once(
    broker: EmbeddedBroker, filtered: CreateFiltered, tmp_path: Path
) -> None:
    servers, topic = broker.bootstrap_servers, filtered(partitions=2, filters=False)
    for partition in range(2):
        writer = ChunkWriter(servers, topic, partition)
        for number in range(100):
            writer.transaction([b"%d" % number] * 100, claimed=False, commit=number % 7 != 3)
        writer.settle()
    everything = history.read_topic(servers, topic)

    first = index(tmp_path, servers, topic)
    again = index(tmp_path, servers, topic)

    assert f"filters of {len(everything):,} records to {filters_topic(topic)}." in first
    assert again == f"All records of {topic} already have filters.\n"
    found, statistics = read(servers, topic, [b"5"], header=None)
    assert found == chosen(everything, [b"5"])
    assert statistics.chunks_skipped >= 2
    for record in filters_of(servers, topic):
        assert_true_in_partition(record, everything)


def assert_true_in_partition(filter_record: Record, everything: list[Record]) -> None:
    assert_true(filter_record, [r for r in everything if r.partition == filter_record.partition])


def test_killed_in_the_middle_indexing_goes_on_where_it_was(
    broker: EmbeddedBroker, filtered: CreateFiltered, tmp_path: Path
) -> None:
    servers, topic = broker.bootstrap_servers, filtered()
    writer = ChunkWriter(servers, topic)
    for number in range(40):
        writer.transaction([b"%d" % number] * 5_000, claimed=False)
    writer.settle()
    everything = history.read_topic(servers, topic)
    command = [
        sys.executable,
        "-m",
        "tests.support.crashes.slow_index",
        str(manifest(tmp_path, servers, topic)),
    ]

    with subprocess.Popen([*command, servers], start_new_session=True) as running:
        try:
            wait_for(lambda: len(filters_of(servers, topic)) >= 3, "some filters are written")
        finally:
            os.killpg(running.pid, signal.SIGKILL)
    before = len(filters_of(servers, topic))
    said = index(tmp_path, servers, topic)

    filters = filters_of(servers, topic)
    assert 3 <= before < len(filters)
    assert f"Wrote {len(filters) - before:,} filters" in said
    for record in filters:
        assert_true(record, everything)
    ranges = sorted(
        (chunk.first_offset, chunk.last_offset) for r in filters if (chunk := decode(r.value))
    )
    assert all(b[0] == a[1] + 1 for a, b in pairwise(ranges)), (
        "nothing is indexed twice or left out"
    )
    assert read(servers, topic, [b"17"])[0] == chosen(everything, [b"17"])


@pytest.mark.matrix  # the kill in the middle
def test_stopped_in_the_middle_indexing_does_not_end_with_zero(
    broker: EmbeddedBroker, filtered: CreateFiltered, tmp_path: Path
) -> None:
    servers, topic = broker.bootstrap_servers, filtered()
    writer = ChunkWriter(servers, topic)
    for number in range(40):
        writer.transaction([b"%d" % number] * 5_000, claimed=False)
    writer.settle()
    path = str(manifest(tmp_path, servers, topic))
    command = [sys.executable, "-m", "tests.support.crashes.slow_index", path, servers]

    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        try:
            wait_for(lambda: len(filters_of(servers, topic)) >= 3, "some filters are written")
            running.terminate()
            _, said = running.communicate(timeout=DEADLINE_SECONDS)
        finally:
            running.kill()

    assert running.returncode == 143, said
    assert re.search(
        r"stopped by SIGTERM after [\d,]+ of [\d,]+ offsets of \S+ without filters", said
    )
    assert "Traceback" not in said


def test_indexing_beside_a_writer_does_no_harm(
    broker: EmbeddedBroker, filtered: CreateFiltered, tmp_path: Path
) -> None:
    servers, topic = broker.bootstrap_servers, filtered()
    writer, stop = ChunkWriter(servers, topic), Event()
    for number in range(20):
        writer.transaction([b"%d" % number] * 300, claimed=False)

    def write() -> None:
        for number in range(20, 200):
            writer.transaction([b"%d" % number] * 100)
            if stop.is_set():
                return

    writing = Thread(target=write)
    writing.start()
    try:
        for _ in range(3):
            index(tmp_path, servers, topic)
    finally:
        stop.set()
        writing.join(DEADLINE_SECONDS)
    writer.settle()
    everything = history.read_topic(servers, topic)

    for record in filters_of(servers, topic):
        assert_true(record, everything)
    for value in (b"5", b"19", b"25"):
        assert read(servers, topic, [value])[0] == chosen(everything, [value])
    assert {chunk.origin for r in filters_of(servers, topic) if (chunk := decode(r.value))} == {
        Origin.READ,
        Origin.TRANSACTION,
    }


def test_a_manifest_without_a_filter_has_nothing_to_index(tmp_path: Path) -> None:
    path = manifest(tmp_path, "localhost:1", "clean")
    document = yaml.safe_load(path.read_text())
    del document["spec"]["output"]["filter"]
    path.write_text(yaml.safe_dump(document))

    result = CliRunner().invoke(
        main, ["index-filters", str(path), "--bootstrap-servers", "localhost:1"]
    )

    assert result.exit_code == 2
    assert "no spec.output.filter" in result.output


def test_an_output_that_is_not_there_is_named(broker: EmbeddedBroker, tmp_path: Path) -> None:
    path = manifest(tmp_path, broker.bootstrap_servers, "never-made")

    result = CliRunner().invoke(
        main, ["index-filters", str(path), "--bootstrap-servers", broker.bootstrap_servers]
    )

    assert result.exit_code == 3
    assert "Output topic never-made does not exist" in result.output
