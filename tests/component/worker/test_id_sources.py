"""The four sources of ids, each judged by the checker's own definition."""

from collections.abc import Callable

import pytest

from tests.support.checker.checker import judge
from tests.support.checker.id_sources import IdOf, content_id, header_id, json_id, key_id
from tests.support.checker.record import Message
from tests.support.processes.processes import Workers
from tests.support.traffic.hostile import hostile
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import ID_HEADER, ID_PATH, ID_STEPS, retries

CreateStream = Callable[..., TestStream]

SEED = 20261121
SOURCES = [
    pytest.param({"from": "Key"}, key_id, id="Key"),
    pytest.param({"from": "Header", "name": ID_HEADER}, header_id(ID_HEADER), id="Header"),
    pytest.param({"from": "JsonPath", "path": ID_PATH}, json_id(*ID_STEPS), id="JsonPath"),
    pytest.param({"from": "Content"}, content_id, id="Content"),
]


@pytest.mark.parametrize(("source", "id_of"), SOURCES)
def test_repeats_are_told_by_the_source_named(
    streams: CreateStream, workers: Workers, source: dict[str, str], id_of: IdOf
) -> None:
    """Mix ordinary and hostile records; the worker's counters agree with the checker."""
    stream = streams(id=source)
    messages = [*retries(SEED, 5_000), *hostile(SEED, 3_000), *retries(SEED + 1, 1_000)]
    stream.send(messages)
    worker = workers.start(stream)
    worker.wait_until_caught_up()
    raw = stream.raw()
    verdict = judge(raw, stream.clean(), id_of)
    verdict.assert_exactly_once(len(messages))
    without_id = sum(id_of(record) is None for record in raw)
    worker.wait_until(
        lambda: (
            (counts := worker.status().counts).consumed == len(raw)
            and counts.without_id == without_id
            and counts.duplicates == len(raw) - verdict.expected
            and counts.produced == verdict.expected
        ),
        f"it counts {len(raw)} read, {without_id} without id, {verdict.expected} passed",
    )


@pytest.mark.parametrize(("source", "id_of"), SOURCES)
def test_ids_are_remembered_over_a_restart_and_without_a_store(
    streams: CreateStream, workers: Workers, source: dict[str, str], id_of: IdOf
) -> None:
    """The worker gets the same ids from its output as from its input."""
    stream = streams(id=source)
    messages = [*retries(SEED, 1_000), *hostile(SEED, 1_000)]
    for state in ("first", "first", "second"):
        stream.send(messages)
        directory = workers.state_dir(stream).with_name(f"{stream.name}-{state}")
        worker = workers.start(stream, state_dir=directory)
        worker.wait_until_caught_up()
        worker.sigkill()
    judge(stream.raw(), stream.clean(), id_of).assert_exactly_once(3 * len(messages))


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("$['order']['id']", ("order", "id")),
        ("$.items[1].id", ("items", 1, "id")),
        ("$.items[-1].id", ("items", -1, "id")),
        ("$['a.b']['ü']", ("a.b", "ü")),
        ("$[0]", (0,)),
    ],
)
def test_a_path_may_go_through_names_and_indices(
    streams: CreateStream, workers: Workers, path: str, steps: tuple[str | int, ...]
) -> None:
    values = [
        b'{"order": {"id": "a"}, "items": [{"id": 1}, {"id": 2}], "a.b": {"\\u00fc": "x"}}',
        b'{"order": {"id": "a"}, "items": [{"id": 1}, {"id": 2}], "a.b": {"\xc3\xbc": "x"}, "n": 1}',
        b'{"items": [{"id": 2}, {"id": 1}]}',
        b'{"items": {"1": {"id": 2}}}',
        b'["first", 2]',
        b'["first"]',
        b"[]",
    ]
    stream = streams(id={"from": "JsonPath", "path": path})
    messages = [
        Message(0, None, value, timestamp_ms=place + 1) for place, value in enumerate(values)
    ]
    stream.send(messages)
    workers.start(stream).wait_until_caught_up()
    verdict = judge(stream.raw(), stream.clean(), json_id(*steps))
    verdict.assert_exactly_once(len(messages))
    assert verdict.expected < len(values)
