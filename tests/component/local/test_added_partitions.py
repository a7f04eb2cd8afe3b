"""Partitions that are added to the input of a fleet on a real broker: they wait, and are accepted."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined] # public names
    AdminClient,
    NewPartitions,
)
from rich.console import Console

from dedupe_crds.manifest import load_manifest
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.partitioners import Partitioner, partitions_of
from dedupe_local.errors import NotDrained
from dedupe_local.run.fleet import Fleet
from dedupe_local.run.runner import RunOptions, run_stream
from dedupe_local.state_dir import StateDir
from tests.support.checker.record import Message
from tests.support.patience import wait_for
from tests.support.traffic.streams import TestStream

CreateStream = Callable[..., TestStream]

IDS = 1_000
BEFORE, AFTER = 2, 4
NOTICED_SECONDS = 20.0
"""Twice the time in which it is to be noticed, for a busy machine."""


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateDir]:
    with StateDir(tmp_path / "state") as ours:
        yield ours


def by_key(partitions: int) -> list[Message]:
    """Return a message for each id, in the partition that a Java producer chooses for it."""
    keys = [f"order-{number}".encode() for number in range(IDS)]
    places = partitions_of(keys, partitions, Partitioner.MURMUR2).tolist()
    return [
        Message(partition=at, key=key, value=b"v") for key, at in zip(keys, places, strict=True)
    ]


def add_partitions(stream: TestStream) -> None:
    admin = AdminClient({"bootstrap.servers": stream.bootstrap_servers})
    wanted = NewPartitions(stream.input_topic, AFTER)
    admin.create_partitions([wanted])[stream.input_topic].result(30)


def unread_reasons(fleet: Fleet) -> list[str]:
    """Return what the workers say of the partitions that no worker reads."""
    return [
        each.message
        for status in fleet.statuses()
        for each in (status.degraded if status else ())
        if each.reason == "InputPartitionsAdded"
    ]


def test_what_is_added_waits_until_it_is_accepted_and_no_worker_is_restarted(
    streams: CreateStream, state: StateDir
) -> None:
    stream = streams(partitions=BEFORE)
    stream.send(by_key(BEFORE))
    moved = sum(message.partition >= BEFORE for message in by_key(AFTER))
    assert moved > IDS // 3, "about half of the keys go to new partitions"

    with Fleet(load_manifest(stream.manifest), state) as fleet:
        fleet.wait_drained()
        assert fleet.notes() == []
        pids = [fleet.pid(partition) for partition in range(BEFORE)]
        add_partitions(stream)
        stream.send(by_key(AFTER))
        wait_for(
            lambda: list(fleet.added) == [2, 3], "it is noticed", deadline_seconds=NOTICED_SECONDS
        )
        wait_for(
            lambda: sum(fleet.view().added.values()) == moved,
            "the lag is shown",
            deadline_seconds=NOTICED_SECONDS,
        )
        wait_for(
            lambda: len(unread_reasons(fleet)) == BEFORE,
            "workers say it",
            deadline_seconds=NOTICED_SECONDS,
        )
        assert all("partitions 2-3" in each for each in unread_reasons(fleet))
        assert any("addedPartitions" in note for note in fleet.notes())
        fleet.wait_ready(30)
        fleet.wait_drained()
        assert len(stream.clean()) == IDS, "nothing of the new partitions has passed"

        fleet.accept_added()
        wait_for(
            lambda: len(fleet.views()) == AFTER,
            "they get workers",
            deadline_seconds=NOTICED_SECONDS,
        )
        fleet.wait_drained()
        assert [fleet.pid(partition) for partition in range(BEFORE)] == pids
        assert Cluster(stream.bootstrap_servers).partition_count(stream.output_topic) == AFTER
        wait_for(
            lambda: not unread_reasons(fleet),
            "workers take it back",
            deadline_seconds=NOTICED_SECONDS,
        )
    assert len(stream.clean()) == IDS + moved, "a repeat passes in a new partition: as accepted"


@pytest.mark.matrix  # what is added to a run
def test_what_was_added_while_nothing_ran_waits_too_even_if_the_directory_is_lost(
    streams: CreateStream, state: StateDir, tmp_path: Path
) -> None:
    stream = streams(partitions=BEFORE)
    stream.send(by_key(BEFORE))
    with Fleet(load_manifest(stream.manifest), state) as fleet:
        fleet.wait_drained()
    add_partitions(stream)
    stream.send(by_key(AFTER))
    with StateDir(tmp_path / "another") as empty:
        for directory in (state, empty):
            with Fleet(load_manifest(stream.manifest), directory) as fleet:
                assert list(fleet.added) == [2, 3]
                fleet.wait_drained()
    assert len(stream.clean()) == IDS


@pytest.mark.matrix  # what is added to a run
def test_a_drain_that_leaves_added_partitions_fails_by_name(
    streams: CreateStream, tmp_path: Path
) -> None:
    """It would report success for records that nothing has read."""
    stream = streams(partitions=BEFORE)
    stream.send(by_key(BEFORE))
    options = RunOptions(
        bootstrap_servers=stream.bootstrap_servers,
        state_dir=tmp_path / "state",
        drain_stall_seconds=120.0,
    )
    console = Console(file=StringIO())
    run_stream(load_manifest(stream.manifest), options, console)
    add_partitions(stream)
    stream.send(by_key(AFTER))
    with pytest.raises(NotDrained, match=r"Partitions 2-3 were added .*addedPartitions to Accept"):
        run_stream(load_manifest(stream.manifest), options, console)
    assert len(stream.clean()) == IDS


@pytest.mark.matrix  # keys that no known partitioner puts there
def test_records_without_keys_are_named(streams: CreateStream, state: StateDir) -> None:
    """Their producers spread copies over all partitions, and each of them passes."""
    header = {"from": "Header", "name": "id"}
    stream = streams(partitions=BEFORE, id=header)
    plain = [
        replace(message, key=None, headers=(("id", message.key),)) for message in by_key(BEFORE)
    ]
    stream.send(plain)
    stream.send([replace(each, partition=1 - each.partition) for each in plain])
    with Fleet(load_manifest(stream.manifest), state) as fleet:
        fleet.wait_drained()
        wait_for(
            lambda: any("NoKeys" in note for note in fleet.notes()),
            "it is named",
            deadline_seconds=60,
        )
    assert len(stream.clean()) == 2 * IDS


@pytest.mark.parametrize(
    ("partitions", "named"), [(BEFORE, False), (BEFORE + 1, True)], ids=["right", "wrong"]
)
def test_keys_that_no_known_partitioner_puts_there_are_named(
    streams: CreateStream, state: StateDir, partitions: int, *, named: bool
) -> None:
    stream = streams(partitions=BEFORE)
    stream.send([replace(each, partition=each.partition % BEFORE) for each in by_key(partitions)])
    with Fleet(load_manifest(stream.manifest), state) as fleet:
        fleet.wait_drained()
        wait_for(
            lambda: all(
                status and status.input.keys and status.input.keys.records
                for status in fleet.statuses()
            ),
            "each worker has a sample",
            deadline_seconds=60,
        )
        assert [note.partition(":")[0] for note in fleet.notes()] == ["Unknown"] * named
