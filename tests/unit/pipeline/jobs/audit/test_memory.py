"""The directory of an audit that remembers: refused unless it belongs to the topics, and never half written."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from dedupe_crds.manifest import parse_manifest
from dedupe_crds.spec.stream import DedupeStream
from dedupe_kafka.offsets import TopicOffsets
from dedupe_pipeline.errors import AuditNotContinued, RequestRefused
from dedupe_pipeline.jobs.audit.incremental import check_supported
from dedupe_pipeline.jobs.audit.memory import Generation, Memory, State

RAW = TopicOffsets(topic="orders", id="uuid-1", lows={0: 0, 1: 0}, ends={0: 100, 1: 100})
CLEAN = TopicOffsets(topic="orders-clean", id="uuid-2", lows={0: 0, 1: 0}, ends={0: 90, 1: 90})


def stream(name: str = "orders", spec: Mapping[str, object] | None = None) -> DedupeStream:
    return parse_manifest(
        {
            "apiVersion": "dedupestream.io/v1alpha1",
            "kind": "DedupeStream",
            "metadata": {"name": name},
            "spec": {
                "kafka": {"bootstrapServers": "kafka:9092"},
                "input": {"topic": "orders"},
                "output": {"topic": "orders-clean"},
                "id": {"from": "Key"},
                **(spec or {}),
            },
        },
        "a test",
    )


def generation(number: int) -> Generation:
    return Generation(number=number, records_before=[0, 50], ends={0: 90}, stream_ms={0: 5})


def publish(directory: Path, *numbers: int) -> State:
    """Remember generations that exist, as audits up to offsets 60 and 50."""
    with Memory.opened(directory) as memory:
        state = memory.state_for(stream(), RAW, CLEAN)
        for number in numbers:
            memory.path(number).mkdir(exist_ok=True)
        memory.next = state.model_copy(
            update={
                "raw": {0: 60, 1: 60},
                "clean": {0: 50, 1: 50},
                "generations": list(map(generation, numbers)),
            }
        )
        memory.publish()
        assert memory.state is not None
        return memory.state


def test_what_is_published_is_what_the_next_audit_has(tmp_path: Path) -> None:
    state = publish(tmp_path / "new", 1, 2)

    with Memory.opened(tmp_path / "new") as memory:
        assert memory.state_for(stream(), RAW, CLEAN) == state


def test_what_a_killed_audit_leaves_is_removed_and_the_former_state_stays(tmp_path: Path) -> None:
    state = publish(tmp_path, 1)
    (tmp_path / "generation=2" / "side=raw").mkdir(parents=True)
    (tmp_path / "state.json.new").write_text("{")

    with Memory.opened(tmp_path) as memory:
        assert memory.state_for(stream(), RAW, CLEAN) == state
        assert not memory.path(2).exists()
        assert memory.path(1).exists()
        memory.path(2).mkdir()
        # Ended before the publication.
    with Memory.opened(tmp_path) as memory:
        assert memory.state == state


def test_a_generation_is_deleted_once_the_state_no_longer_names_it(tmp_path: Path) -> None:
    publish(tmp_path, 1, 2)

    publish(tmp_path, 2)

    assert [path.name for path in tmp_path.glob("generation=*")] == ["generation=2"]


@pytest.mark.parametrize(
    ("raw", "clean", "message"),
    [
        (
            replace(RAW, id="uuid-9"),
            CLEAN,
            r"topic 'orders' was deleted and created again .*uuid-9",
        ),
        (RAW, replace(CLEAN, id="uuid-9"), r"topic 'orders-clean' was deleted and created again"),
        (
            replace(RAW, lows={0: 61, 1: 60}),
            CLEAN,
            r"'orders', partition 0: offsets 60 to before 61",
        ),
        (RAW, replace(CLEAN, lows={0: 50, 1: 70}), r"'orders-clean', partition 1: offsets 50 to"),
        (replace(RAW, topic="other"), CLEAN, r"topics was .*'orders'.* and is .*'other'"),
    ],
)
def test_other_topics_and_records_that_were_never_read_are_refused(
    tmp_path: Path, raw: TopicOffsets, clean: TopicOffsets, message: str
) -> None:
    publish(tmp_path)

    with (
        Memory.opened(tmp_path) as memory,
        pytest.raises(AuditNotContinued, match=message),
    ):
        memory.state_for(stream(), raw, clean)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (stream("returns"), r"stream was default/orders, and is default/returns"),
        (stream(spec={"id": {"from": "Content"}}), r"spec.id was .*Key.*, and is .*Content"),
    ],
)
def test_another_stream_is_refused(tmp_path: Path, other: DedupeStream, message: str) -> None:
    publish(tmp_path)

    with Memory.opened(tmp_path) as memory, pytest.raises(AuditNotContinued, match=message):
        memory.state_for(other, RAW, CLEAN)


def test_a_directory_in_use_or_of_something_else_is_refused(tmp_path: Path) -> None:
    with (
        Memory.opened(tmp_path / "a"),
        pytest.raises(AuditNotContinued, match="in use by another audit"),
        Memory.opened(tmp_path / "a"),
    ):
        pass
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "letter.txt").touch()
    with (
        pytest.raises(AuditNotContinued, match=r"contains letter\.txt"),
        Memory.opened(tmp_path / "b"),
    ):
        pass
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "state.json").write_text("{")
    with pytest.raises(AuditNotContinued, match="not the state"), Memory.opened(tmp_path / "c"):
        pass


@pytest.mark.parametrize(
    ("spec", "is_bounded", "is_landed", "message"),
    [
        (
            {"repartition": {"partitions": 2, "topic": {"name": "between"}}},
            False,
            False,
            "repartition",
        ),
        ({"late": {"policy": "Topic", "topic": "late"}}, False, False, "late messages"),
        ({}, True, False, "--since"),
        ({}, False, True, "--landed"),
    ],
)
def test_what_can_not_be_remembered_is_refused(
    spec: dict[str, object], *, is_bounded: bool, is_landed: bool, message: str
) -> None:
    with pytest.raises(RequestRefused, match=message):
        check_supported(stream(spec=spec), is_bounded=is_bounded, is_landed=is_landed)
