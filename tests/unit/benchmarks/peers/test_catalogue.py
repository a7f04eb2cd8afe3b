"""Who is measured, and that nobody is set up worse than another."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.peers import flink, kafka_streams, ours, quix
from benchmarks.peers.__main__ import main
from benchmarks.peers.catalogue import PEERS, UNKEYED
from benchmarks.peers.peer import PARTITIONS, PRODUCER, Job, Peer
from dedupe_crds.spec.stream import DedupeStream

PROGRAMS = Path(quix.__file__).parent / "programs"
OTHERS = [name for name in PEERS if name not in {"ours", "bare"}]


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is fetched for these tests."""
    for module in (flink, kafka_streams):
        monkeypatch.setattr(module, "_class_path", lambda: "classes")
    monkeypatch.setattr(quix, "virtual_environment", Path)


def commands_of(peer: Peer, state: Path) -> list[list[str]]:
    job = Job("localhost:9092", "raw", "clean", state, [1, 2])
    return [[str(part) for part in command] for command in peer.commands(job)]


@pytest.mark.parametrize("name", ["kafka-streams", "flink"])
def test_without_keys_the_others_are_set_up_as_with_keys_but_for_the_header(
    name: str, tmp_path: Path
) -> None:
    [keyed], [unkeyed] = (commands_of(each[name], tmp_path) for each in (PEERS, UNKEYED))

    assert [(a, b) for a, b in zip(keyed, unkeyed, strict=True) if a != b] == [("", "id")]


def test_without_keys_ours_has_a_router_ahead_of_its_workers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ensured: list[DedupeStream] = []
    monkeypatch.setattr(ours, "ensure_topics", lambda stream, _servers: ensured.append(stream))

    router, *workers = commands_of(UNKEYED["ours"], tmp_path)

    assert [command[2] for command in (router, *workers)] == [
        "dedupe_router",
        *["dedupe_worker"] * PARTITIONS,
    ]
    assert UNKEYED["ours"].router_processes == 1
    assert [stream.spec.worker_input for stream in ensured] == ["clean-repartition"]


@pytest.mark.parametrize("name", OTHERS)
def test_every_peer_has_the_same_producer_and_a_task_for_each_partition(
    name: str, tmp_path: Path
) -> None:
    commands = commands_of(PEERS[name], tmp_path)

    for command in commands:
        assert {f"{key}={value}" for key, value in PRODUCER.items()} <= set(command)
    assert len(commands) == PARTITIONS or str(PARTITIONS) in commands[0]


def test_each_bare_loop_copies_all_of_its_partition(tmp_path: Path) -> None:
    job = Job("localhost:9092", "raw", "clean", tmp_path, [11, 22])

    assert [[*command][-2:] for command in PEERS["bare"].commands(job)] == [
        ["11", "0"],
        ["22", "1"],
    ]


def test_the_versions_that_are_shown_are_those_that_are_locked() -> None:
    locks = PROGRAMS.parent / "locks"

    assert f"quixstreams=={quix.VERSION} " in (locks / "quix.txt").read_text()
    assert f"apache-flink-libraries=={flink.VERSION} " in (locks / "flink.txt").read_text()
    assert f"kafka-streams-{kafka_streams.VERSION}.jar" in (locks / "jars.json").read_text()


def test_an_unknown_peer_is_refused_with_the_known_ones() -> None:
    refused = CliRunner().invoke(main, ["--peers", "flink,storm"])

    assert refused.exit_code == 2
    assert "storm: there are quix, quix-bloom" in refused.output
