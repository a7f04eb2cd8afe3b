"""`dedupe run --drain` on records without a usable id says how many there are, by why."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.component.local.test_run import dedupe, run_arguments
from tests.support.checker.record import Message
from tests.support.traffic.streams import TestStream

CreateStream = Callable[..., TestStream]

VALUES: dict[str, list[bytes | None]] = {
    "PathAbsent": [b"{}", b'{"id": {}}'],
    "NotJson": [b"text", b"{", b"\x00\x01"],
    "WrongType": [
        b'{"id": {"n": 1.5}}',
        b'{"id": {"n": null}}',
        b'{"id": {"n": true}}',
        b'{"id": {"n": []}}',
    ],
    "NumberTooLarge": [b'{"id": {"n": 18446744073709551616}}'],
    "ConfluentFormat": [b"\x00\x00\x00\x00\x07" + b"avro-%d" % n for n in range(5)],
    "NoValue": [None] * 6,
    "EmptyId": [b'{"id": {"n": ""}}'] * 7,
}
WITH_ID: list[bytes | None] = [b'{"id": {"n": %d}}' % n for n in (1, 2, 2, -(2**63), 2**63 - 1)]


def test_a_drain_counts_by_why_what_has_no_id_in_its_value(
    streams: CreateStream, tmp_path: Path
) -> None:
    stream = streams(id={"from": "JsonPath", "path": "$.id.n"})
    without = [value for values in VALUES.values() for value in values]
    stream.send([Message(0, b"k", value) for value in (*without, *WITH_ID)])

    run = dedupe(*run_arguments(stream, tmp_path / "state"), "--drain")

    assert run.returncode == 0, run.stderr
    last = run.stdout.splitlines()[-1]
    assert last.startswith(f"Read {len(without) + 5} records, duplicates: 1 "), run.stdout
    assert f"without an id: {len(without)} (" in last
    for why, values in VALUES.items():
        assert f"{why} {len(values)}" in last
    assert last.endswith("; these pass, and their repeats are not recognised.")
    assert "nothing is deduplicated" not in run.stdout
    assert len(stream.clean()) == len(without) + 4


@pytest.mark.parametrize(
    ("source", "why", "loud"),
    [
        (
            {"from": "Header", "name": "Order-ID"},
            "HeaderAbsent",
            "no header 'Order-ID', first at offset 0, which has the headers 'order-id', 'trace'",
        ),
        ({"from": "Key"}, "NoKey", "no key, first at offset 0"),
    ],
    ids=["header", "key"],
)
def test_a_drain_in_which_no_record_has_an_id_says_so_in_full(
    streams: CreateStream, tmp_path: Path, source: dict[str, str], why: str, loud: str
) -> None:
    stream = streams(id=source)
    headers = (("order-id", b"1"), ("trace", b"t"))
    stream.send([Message(0, None, b"v", headers=headers)] * 8)

    run = dedupe(*run_arguments(stream, tmp_path / "state"), "--drain")

    assert run.returncode == 0, run.stderr
    assert "no record so far has a usable id by spec.id, so nothing is deduplicated" in run.stdout
    assert loud in run.stdout
    assert f"Read 8 records, duplicates: 0 (0.0 %), without an id: 8 ({why} 8)" in run.stdout
    assert len(stream.clean()) == 8
