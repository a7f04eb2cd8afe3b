"""Records, status, names and objects are those of the release before, byte for byte where order counts."""

import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pytest

from dedupe_crds.status.worker import ComparisonStatus, WorkerStatus
from dedupe_filters.bloom import may_contain
from dedupe_filters.values import FilterSource
from dedupe_filters.wire_format import Origin, decode, encode
from dedupe_operator.decide.drift import with_wanted_hash
from dedupe_worker.dedup.uncommitted_output import recorded_position
from dedupe_worker.kafka.committed import Committed
from dedupe_worker.kafka.consumer import Batch
from dedupe_worker.side_topics.owner_log import OwnerLogReader, decode_entry
from tests.golden import FILES, documents
from tests.golden.documents import NOTED_OFFSETS, OUTPUT_FIRST
from tests.golden.stores import IDENTITY
from tests.unit.worker.strategies import message

_HEAD_BYTES: Final = 9
"""Of a record about owners, ahead of what is compressed."""


def golden(name: str) -> Any:  # noqa: ANN401 (JSON)
    return json.loads((FILES / f"{name}.json").read_bytes())


@pytest.mark.parametrize(
    ("name", "build"),
    [
        ("clients", documents.clients),
        ("database", documents.database),
        ("names", documents.names),
        ("offset_metadata", documents.offset_metadata),
        ("snapshots", documents.snapshots),
        ("stamps", documents.stamps),
        ("children_minimal", lambda: documents.children("minimal")),
        ("children_full", lambda: documents.children("full")),
    ],
)
def test_a_document_is_as_it_was(name: str, build: Callable[[], object]) -> None:
    built, before = build(), as_it_is_now(golden(name))
    assert built == before
    assert json.dumps(built) == json.dumps(before), "in this order"


RELEASES: Final = {
    "registry.example/worker:1": "7f976b3385f5c932",
    "registry.example/dedupe-worker:0.1.0": "c8f5813c1d32b450",
}
"""Hashes of what the pods have of the operator, by image."""


def unhashed(before: Any) -> Any:  # noqa: ANN401 (JSON)
    """Return an object's metadata without annotations: it had its own hash there, and no other."""
    return {name: each for name, each in before["metadata"].items() if name != "annotations"}


NEWER: Final = {
    "linger.ms": ("retry.backoff.ms", 10),
    "bootstrap.servers": ("check.crcs", True),
    "queued.min.messages": ("receive.message.max.bytes", 2_000_000_000),
}
"""Settings of clients that are newer than the file, by the one that they follow: of producers the first one."""


TAGS: Final = {
    "dedupestream.io/claim-uid": "uid-of-orders-7-1",
    "dedupestream.io/cluster": "uid-of-kube-system",
}
"""Tags that volumes of restores have since."""


def as_it_is_now(before: Any) -> Any:  # noqa: ANN401 (JSON)
    """Return golden objects with the metadata that is newer than the file, of those that outlive their stream."""
    if isinstance(before, list):
        return [as_it_is_now(each) for each in before]
    if not isinstance(before, dict):
        return before
    # A producer tries again sooner, and a consumer compares checksums and takes larger answers.
    if "batch.size" in before or "isolation.level" in before:
        own = {"linger.ms"} if "batch.size" in before else NEWER.keys() - {"linger.ms"}
        return {
            name: value
            for each, known in before.items()
            for name, value in ((each, known), *([NEWER[each]] if each in own else ()))
        }
    if before.get("kind") == "StatefulSet":
        image = before["spec"]["template"]["spec"]["containers"][0]["image"]
        release = {"annotations": {"dedupestream.io/release": RELEASES[image]}}
        return with_wanted_hash({**before, "metadata": {**unhashed(before), **release}})
    if before.get("kind") not in {"DedupeSnapshot", "PersistentVolumeClaim", "VolumeSnapshot"}:
        newer = TAGS if "dedupestream.io/claim" in before else {}
        return {**{name: as_it_is_now(each) for name, each in before.items()}, **newer}
    metadata = before["metadata"]
    served = {"dedupestream.io/served-partitions": "8"}
    annotations = {
        "argocd.argoproj.io/compare-options": "IgnoreExtraneous",
        "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
        "kustomize.toolkit.fluxcd.io/prune": "disabled",
        **(served if before["kind"] == "PersistentVolumeClaim" else {}),
        **metadata.get("annotations", {}),
    }
    gone = {f"app.kubernetes.io/{each}" for each in ("name", "instance", "component", "part-of")}
    labels = {name: each for name, each in metadata["labels"].items() if name not in gone}
    is_hashed = annotations.pop("dedupestream.io/wanted-hash", None)
    given = {"name": metadata["name"], "namespace": metadata["namespace"]}
    rest = {name: each for name, each in metadata.items() if name not in {*given, "annotations"}}
    now = {**before, "metadata": {**given, **rest, "labels": labels, "annotations": annotations}}
    if "ownerReferences" in rest:
        now["metadata"]["ownerReferences"] = now["metadata"].pop("ownerReferences")
    return with_wanted_hash(now) if is_hashed else now


def test_errors_have_the_reasons_and_exit_codes_that_they_had() -> None:
    assert golden("reasons").items() <= documents.reasons().items()


# -- the status of a worker ------------------------------------------------------------------------


def test_the_status_has_the_fields_that_it_had() -> None:
    built, before = json.loads(documents.status()), golden("status")
    for varying in ("startedAt", "uptimeSeconds"):
        assert type(built.pop(varying)) is type(before.pop(varying))
    degraded = built.pop("degraded")  # newer than the file
    assert [built["input"].pop(each) for each in ("partitions", "keys")] == [None, None]  # too
    assert [built["counts"].pop(each) for each in ("sentOn", "missingIds")] == [0, {}]  # too
    assert [each["reason"] for each in degraded] == ["WindowShortened"]
    assert json.dumps(built) == json.dumps(before)


def test_the_status_of_an_earlier_worker_is_read_whole() -> None:
    text = (FILES / "status.json").read_text()
    status = WorkerStatus.model_validate_json(text)
    assert (status.phase, status.reason, status.ready) == ("Failed", "DiskFull", False)
    assert status.comparison == documents.comparison()
    found = json.loads(status.model_dump_json(by_alias=True))
    assert found.pop("degraded") == []  # newer than the file
    assert [found["input"].pop(each) for each in ("partitions", "keys")] == [None, None]  # too
    assert [found["counts"].pop(each) for each in ("sentOn", "missingIds")] == [0, {}]  # too
    assert found == json.loads(text)


def test_the_answer_to_a_reconcile_is_read_whole() -> None:
    text = (FILES / "state" / "reconcile.json").read_text()
    assert ComparisonStatus.model_validate_json(text) == documents.comparison()


# -- records of the topics beside the output -------------------------------------------------------


def of_topic(suffix: str) -> dict[str, Any]:
    [found] = [each for each in golden("side_records") if each["topic"].endswith(suffix)]
    assert isinstance(found, dict)
    return found


def test_a_record_about_owners_is_read_and_written_as_it_was() -> None:
    before = of_topic("-owners")
    assert (before["topic"], before["key"]) == ("orders-clean-owners", IDENTITY.output_topic_id)
    value = bytes.fromhex(before["value"])
    first, offsets, input_topic, origins = decode_entry(value)
    assert (input_topic, origins) == ("", "")
    assert (first, tuple(offsets.tolist())) == (OUTPUT_FIRST, NOTED_OFFSETS)

    [built] = [each for each in documents.side_records() if each["topic"].endswith("-owners")]
    again = bytes.fromhex(built.pop("value"))
    del before["value"]
    assert built == before
    # What zlib makes of the runs is the library's own affair.
    assert again[:_HEAD_BYTES] == value[:_HEAD_BYTES]
    assert zlib.decompress(again[_HEAD_BYTES:]) == zlib.decompress(value[_HEAD_BYTES:])


@dataclass
class OneRecord:
    """A reader of the topic of owners, which has the golden record."""

    key: bytes
    value: bytes
    topic: str = "orders-clean-owners"

    def read(self, _max_records: int, _wait_seconds: float) -> Batch:
        return Batch([message(0, self.key, self.value)], 1, 0)

    def check(self, end: int) -> None:
        assert end == 1


@pytest.mark.parametrize(
    ("topic_id", "known"), [(IDENTITY.output_topic_id, True), ("another topic", False)]
)
def test_owners_are_recalled_from_a_record_of_before(topic_id: str, known: bool) -> None:
    record = of_topic("-owners")
    reader = OneRecord(record["key"].encode(), bytes.fromhex(record["value"]))
    notes = OwnerLogReader(reader, 1, topic_id, rewind=None)
    outputs = np.arange(OUTPUT_FIRST - 1, OUTPUT_FIRST + len(NOTED_OFFSETS) + 1)
    expected = NOTED_OFFSETS if known else (-1,) * len(NOTED_OFFSETS)
    assert notes.inputs(outputs).tolist() == [-1, *expected, -1]


def test_a_filter_is_read_and_written_as_it_was() -> None:
    record = of_topic("-filters")
    value = bytes.fromhex(record["value"])
    chunk = decode(value)
    assert chunk is not None
    assert encode(chunk) == value
    assert (record["topic"], record["key"]) == ("orders-clean-filters", None)
    assert chunk.topic_id == IDENTITY.output_topic_id
    assert chunk.source == FilterSource.json_path("$.country")
    assert (chunk.origin, chunk.records, chunk.unfiltered) == (Origin.TRANSACTION, 46, False)
    assert (chunk.first_offset, chunk.last_offset) == (OUTPUT_FIRST, OUTPUT_FIRST + 45)
    assert all(may_contain(chunk.bloom, country) for country in (b"DE", b"FR", b"AT"))
    assert not any(may_contain(chunk.bloom, country) for country in (b"ES", b"IT", b"PL"))

    [built] = [each for each in documents.side_records() if each["topic"].endswith("-filters")]
    assert built == record


def test_the_metadata_of_a_committed_offset_is_read() -> None:
    committed = Committed(700, golden("offset_metadata"))
    assert recorded_position(committed, 700, IDENTITY.output_topic_id) == 650
    assert recorded_position(committed, 701, IDENTITY.output_topic_id) is None
    assert recorded_position(committed, 700, "another topic") is None
