"""What HTTP asks is done by the loop's thread, or not at all."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import get_ident
from typing import cast

import pytest

from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.spec.topics import IdSource
from dedupe_crds.status.worker import CheckpointStatus, IdStatus, UploadStatus
from dedupe_ids.extract import extractor_for, pack_id
from dedupe_kafka.errors import BrokerUnavailable, StreamError
from dedupe_worker.admin.commands import AdminCommands, Command, CommandQueue, StoreUnusable
from dedupe_worker.config import WorkerConfig
from dedupe_worker.errors import DiskFull, OutputUnread, StoreCorrupt, StoreFailed
from dedupe_worker.status import WorkerState
from dedupe_worker.store.ageing import Generation
from dedupe_worker.store.api import IdStore
from dedupe_worker.store.metadata import StoreMetadata
from dedupe_worker.store.state_dir import Identity, StateDirectory
from tests.support.patience import HANG_SECONDS, patience
from tests.unit.crds.manifests import MINIMAL
from tests.unit.worker.strategies import message


class RecordingStore:
    """Notes who asked what."""

    def __init__(self) -> None:
        self.forgotten: list[list[bytes]] = []
        self.thread = 0

    def checkpoint(self) -> CheckpointStatus | None:
        raise DiskFull("no room")

    def snapshot(self, name: str) -> UploadStatus | None:
        raise DiskFull(name)

    def lookup(self, raw_ids: list[bytes]) -> list[IdStatus]:
        raise DiskFull(str(raw_ids))

    def forget(self, raw_ids: list[bytes]) -> int:
        self.thread = get_ident()
        self.forgotten.append(raw_ids)
        return len(raw_ids)


def forget(number: int) -> Command:
    return lambda store: store.forget([b"x"] * number)


def run_until_done(queue: CommandQueue, store: RecordingStore, asked: int) -> None:
    deadline = patience(60)
    while len(store.forgotten) < asked and deadline.pause(0.001):
        queue.run_waiting(store)


def test_commands_are_carried_out_in_the_loops_thread_and_answered_in_the_callers() -> None:
    queue, store = CommandQueue(), RecordingStore()
    with ThreadPoolExecutor(4) as callers:
        answers = [callers.submit(queue.call, forget(n), HANG_SECONDS) for n in range(1, 5)]
        run_until_done(queue, store, asked=4)
        assert [each.result(HANG_SECONDS) for each in answers] == [1, 2, 3, 4]
    assert store.thread == get_ident()


def test_a_failure_is_raised_to_the_caller_and_not_in_the_loop() -> None:
    queue, store = CommandQueue(), RecordingStore()

    def both(it: RecordingStore) -> None:
        it.forget([])
        it.checkpoint()

    with ThreadPoolExecutor(1) as caller:
        answer = caller.submit(queue.call, both, HANG_SECONDS)  # type: ignore[arg-type] # its own store
        run_until_done(queue, store, asked=1)
        with pytest.raises(DiskFull, match="no room"):
            answer.result(HANG_SECONDS)


def test_a_command_that_nobody_waits_for_any_more_is_not_carried_out() -> None:
    queue, store = CommandQueue(), RecordingStore()
    with pytest.raises(TimeoutError):
        queue.call(lambda it: it.forget([b"late"]), 0.01)
    queue.run_waiting(store)
    assert store.forgotten == []


class DamagedStore:
    """A store whose files are damaged, or whose volume is full."""

    def __init__(self, error: Exception) -> None:
        self._error = error
        self.metadata = StoreMetadata(
            output_position=1,
            input_offset=1,
            keys=1,
            first_seen_ms=0,
            last_seen_ms=0,
            truncated=False,
        )

    def locate(self, _ids: object) -> object:
        raise self._error

    def forget(self, _ids: object) -> int:
        return 1

    def flush_all(self) -> None:
        raise self._error

    def checkpoint(self, _path: Path) -> None:
        raise self._error


class Knowing:
    """A store of ids."""

    origins = None

    def __init__(self, *packed: bytes) -> None:
        self.packed = set(packed)

    def locate(self, asked: list[bytes]) -> dict[bytes, tuple[bytes, Generation]]:
        generation = Generation(
            name="g",
            keys=1,
            size_bytes=1,
            first_seen_ms=1,
            last_seen_ms=2,
            aged_from_ms=1,
            aged_to_ms=2,
        )
        return {each: (b"", generation) for each in asked if each in self.packed}

    def forget(self, asked: list[bytes]) -> int:
        before = len(self.packed)
        self.packed -= set(asked)
        return before - len(self.packed)

    def flush_all(self) -> None: ...


def commands_on(
    store: object,
    tmp_path: Path,
    read_foreign: Callable[[], bool] = lambda: True,
    id_source: dict[str, str] | None = None,
) -> AdminCommands:
    spec = {**MINIMAL["spec"], "id": id_source} if id_source else MINIMAL["spec"]
    stream = DedupeStream.model_validate({**MINIMAL, "spec": spec})
    config = WorkerConfig(stream=stream, partition=0, state=StateDirectory(tmp_path), properties={})
    identity = Identity(stream="a/b", partition=0, input_topic_id="i", output_topic_id="o")
    return AdminCommands(
        *(config, identity, cast("IdStore", store), WorkerState(stream, 0), None),
        read_foreign=read_foreign,
    )


def answered(error: StreamError, command: Command, tmp_path: Path) -> tuple[object, object]:
    """Return what a command raises to its caller and to the loop, on a damaged store."""
    target = commands_on(DamagedStore(error), tmp_path)
    queue = CommandQueue()
    with ThreadPoolExecutor(1) as caller:
        answer = caller.submit(queue.call, command, HANG_SECONDS)
        deadline, in_loop = patience(60), None
        while not answer.done() and not deadline.expired:
            try:
                queue.run_waiting(target)
            except StreamError as raised:
                in_loop = raised
        return answer.exception(HANG_SECONDS), in_loop


@pytest.mark.parametrize("error", [StoreCorrupt("bad"), DiskFull("full"), StoreFailed("odd")])
@pytest.mark.parametrize("name", ["lookup", "forget"])
def test_a_store_that_cannot_be_used_any_more_ends_the_session_and_answers_the_caller(
    name: str, error: StreamError, tmp_path: Path
) -> None:
    assert answered(error, lambda it: getattr(it, name)([b"x"]), tmp_path) == (error, error)


def test_a_number_of_json_is_found_and_forgotten_by_its_digits(tmp_path: Path) -> None:
    """A user's text may mean the number or the text, which are two ids."""
    json = {"from": "JsonPath", "path": "$.id"}
    record = message(0, value=b'{"id": 17}')
    number = extractor_for(IdSource.model_validate(json))([record]).packed
    store = Knowing(number)
    commands = commands_on(store, tmp_path, id_source=json)
    assert [(each.id, each.known) for each in commands.lookup([b"17", b"017", b"x"])] == [
        ("17", True),
        ("017", False),
        ("x", False),
    ]
    store.packed.add(pack_id(b"17"))
    assert commands.forget([b"17"]) == 2
    assert store.packed == set()


def test_digits_in_a_key_are_text_only(tmp_path: Path) -> None:
    store = Knowing(pack_id(b"\xff17"))
    [status] = commands_on(store, tmp_path).lookup([b"17"])
    assert not status.known


def test_output_that_would_remember_an_id_again_is_read_before_the_id_is_forgotten(
    tmp_path: Path,
) -> None:
    """It is read within seconds, and the next message with the id would be dropped."""
    done: list[str] = []

    class Store(RecordingStore):
        def forget(self, raw_ids: list[bytes]) -> int:
            done.append("forgotten")
            return super().forget(raw_ids)

        def flush_all(self) -> None:
            done.append("flushed")

    def read(*, complete: bool) -> bool:
        done.append("read")
        return complete

    with pytest.raises(OutputUnread, match="Try again"):
        commands_on(Store(), tmp_path, lambda: read(complete=False)).forget([b"x"])
    assert done == ["read"]
    assert commands_on(Store(), tmp_path, lambda: read(complete=True)).forget([b"x"]) == 1
    assert done == ["read", "read", "forgotten", "flushed"]


def test_an_error_of_reading_the_output_for_a_command_ends_the_session(tmp_path: Path) -> None:
    """As it does in the loop: ids that were read in part are not to be committed."""

    def fail() -> bool:
        raise BrokerUnavailable("away")

    with pytest.raises(StoreUnusable, match="away"):
        commands_on(RecordingStore(), tmp_path, fail).forget([b"x"])


@pytest.mark.parametrize(
    ("error", "ends"), [(StoreCorrupt("bad"), True), (DiskFull("full"), False)]
)
def test_a_checkpoint_without_room_does_not_end_the_session_but_damage_does(
    error: StreamError, tmp_path: Path, *, ends: bool
) -> None:
    assert answered(error, lambda it: it.checkpoint(), tmp_path) == (error, error if ends else None)
