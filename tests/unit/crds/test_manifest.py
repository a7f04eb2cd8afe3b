from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from dedupe_crds.errors import SENTENCES, fields_of, model_in
from dedupe_crds.manifest import ManifestError, load_manifest, parse_manifest
from dedupe_crds.quantity import GIB, MIB
from dedupe_crds.spec.store import ReclaimPolicy, StoreType
from dedupe_crds.spec.stream import DedupeStream, Spec
from dedupe_crds.spec.topics import IdFrom, Mode
from tests.unit.crds.manifests import (
    BAD_MANIFESTS,
    GOOD_CHANGES,
    MINIMAL,
    ORDERS,
    BadManifest,
    changed,
)


def load(tmp_path: Path, text: str) -> DedupeStream:
    path = tmp_path / "orders.yaml"
    path.write_text(text)
    return load_manifest(path)


def refusal(document: object) -> tuple[str, ...]:
    with pytest.raises(ManifestError) as refused:
        parse_manifest(document, "orders.yaml")
    return refused.value.problems


def test_the_example_loads_with_every_value_it_states(tmp_path: Path) -> None:
    stream = load(tmp_path, ORDERS)
    spec = stream.spec
    assert (stream.metadata.namespace, stream.metadata.name) == ("shop", "orders")
    assert spec.kafka.bootstrap_servers == "kafka:9092"
    assert spec.kafka.config_secret_ref is not None
    assert spec.kafka.config_secret_ref.name == "orders-kafka"
    assert (spec.input.topic, spec.output.topic) == ("orders", "orders-clean")
    assert spec.id.from_ is IdFrom.KEY
    assert spec.store.type is StoreType.ROCKSDB
    assert spec.store.window.max_bytes == 8 * GIB
    assert spec.store.window.max_age == timedelta(days=28)
    assert spec.store.window.alert_below == timedelta(hours=24)
    assert spec.mode is Mode.ENFORCE
    assert spec.storage.size == 20 * GIB
    assert spec.storage.reclaim_policy is ReclaimPolicy.RETAIN
    assert spec.snapshots is not None
    assert spec.snapshots.keep == 4
    assert spec.failover.node_not_ready_after == timedelta(seconds=60)
    assert spec.worker.resources.limits == {"cpu": "2"}
    assert not spec.suspend


def test_what_is_left_out_has_its_default() -> None:
    stream = parse_manifest(MINIMAL, "minimal")
    assert stream.metadata.namespace == "default"
    assert stream.spec.store.window.generations == 5
    assert stream.spec.worker.tuning.commit_interval == timedelta(milliseconds=25)
    assert stream.spec.worker.tuning.queue_bytes == 32 * MIB
    assert stream.spec.snapshots is None


@pytest.mark.parametrize("changes", GOOD_CHANGES, ids=str)
def test_a_good_manifest_survives_writing_and_reading(changes: dict[str, Any]) -> None:
    stream = parse_manifest(changed(changes), "good")
    written = stream.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert parse_manifest(yaml.safe_load(yaml.safe_dump(written)), "written") == stream


@pytest.mark.parametrize("case", BAD_MANIFESTS, ids=str)
def test_a_bad_manifest_is_told_each_path_and_what_is_allowed(case: BadManifest) -> None:
    told = refusal(changed(case.changes))
    assert len(told) == len(case.problems)
    for path, hint in case.problems:
        assert any(line.startswith(f"{path}: ") and hint in line for line in told), told
    assert not any("\n" in line for line in told)


def test_a_manifest_cannot_be_changed_once_it_is_read() -> None:
    stream = parse_manifest(MINIMAL, "minimal")
    with pytest.raises(ValidationError, match="frozen"):
        stream.spec.mode = Mode.OBSERVE  # type: ignore[misc] # this is what must fail


def test_an_object_from_the_api_server_loads_without_what_the_server_added() -> None:
    document = deepcopy(MINIMAL)
    document["metadata"] |= {"uid": "u-1", "resourceVersion": "7", "managedFields": [{}]}
    document["status"] = {"observedGeneration": 3}
    assert parse_manifest(document, "live").metadata.uid == "u-1"


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {}},
         ("apiVersion: 'apps/v1' must be dedupestream.io/v1alpha1",
          "kind: 'Deployment' must be DedupeStream")),
        (MINIMAL | {"apiVersion": "dedupestream.io/v1"},
         ("apiVersion: 'dedupestream.io/v1' must be dedupestream.io/v1alpha1",)),
        ({"spec": {}},
         ("apiVersion: is missing and must be dedupestream.io/v1alpha1",
          "kind: is missing and must be DedupeStream")),
        ("just text", ("the document: 'just text' is not a mapping of fields",)),
    ],
)  # fmt: skip
def test_another_kind_of_object_is_refused_as_a_whole(
    document: object, told: tuple[str, ...]
) -> None:
    assert refusal(document) == told


@pytest.mark.parametrize("around", [lambda inner: {"a": inner}, lambda inner: {"a": [inner]}])
def test_what_is_too_deep_to_be_written_as_json_is_refused(
    around: Callable[[object], object],
) -> None:
    """The API server takes a depth of 10,000 in fields that take any JSON, such as this one."""
    affinity: object = {}
    for _ in range(40):
        affinity = around(affinity)
    stream = parse_manifest(changed({"spec.worker": {"affinity": affinity}}), "test")
    assert stream.spec.model_dump_json()
    for _ in range(4_000):
        affinity = around(affinity)
    with pytest.raises(ManifestError, match="test: is nested deeper than 100 levels"):
        parse_manifest(changed({"spec.worker": {"affinity": affinity}}), "test")


def test_the_stream_is_found_among_other_kinds_in_one_file(tmp_path: Path) -> None:
    text = f"---\n# first\n---\n{ORDERS}---\napiVersion: v1\nkind: Secret\n"
    assert load(tmp_path, text).metadata.name == "orders"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "needs exactly one DedupeStream (dedupestream.io/v1alpha1); found: nothing"),
        (f"{ORDERS}---\n{ORDERS}", "found: DedupeStream orders, DedupeStream orders"),
        ("kind: Secret\n---\n[1]\n", "found: Secret without a name, a document that is list"),
        ("a: [1\nb: 2", "line 2, column 2: is not valid YAML: "),
        (
            "kind: a\nkind: b\n",
            "line 2, column 1: is not valid YAML: field 'kind' is written twice",
        ),
        ("a: !!python/object:os.system {}", "line 1, column 4: is not valid YAML: could not"),
        ("a: \x01", "is not valid YAML: "),
        ("? [a, b]\n: 1\n", "line 1, column 3: is not valid YAML: "),
        ("a: 2026-02-31", "is not valid YAML: day is out of range for month"),
        ("[" * 5000, "is not valid YAML: "),
        ("a: *b", "line 1, column 4: is not valid YAML: found undefined alias"),
    ],
)
def test_a_file_that_holds_no_single_stream_is_refused(
    tmp_path: Path, text: str, told: str
) -> None:
    with pytest.raises(ManifestError) as refused:
        load(tmp_path, text)
    (line,) = refused.value.problems
    assert told in line
    assert str(refused.value) == f"{tmp_path / 'orders.yaml'}: {line}"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"absent\.yaml: cannot be read: No such file"):
        load_manifest(tmp_path / "absent.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"a: \xff")
    with pytest.raises(ManifestError, match=r"binary\.yaml: is not UTF-8 text: byte 3"):
        load_manifest(tmp_path / "binary.yaml")


def paths(model: type[BaseModel]) -> Iterator[str]:
    for name, field in fields_of(model).items():
        yield name
        if inner := model_in(field.annotation):
            yield from (f"{name}.{path}" for path in paths(inner))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=3,
)


@settings(deadline=None)  # how long it takes is the machine's affair
@given(st.sampled_from(sorted(paths(Spec))), JSON)
def test_any_value_anywhere_is_accepted_or_refused_in_our_own_words(
    path: str, value: object
) -> None:
    names = path.split(".")
    document = deepcopy(MINIMAL)
    node = document["spec"]
    for name in names[:-1]:
        node = node.setdefault(name, {})
    node[names[-1]] = value
    try:
        parse_manifest(document, "any")
    except ManifestError as refused:
        cause = refused.__cause__
        assert isinstance(cause, ValidationError)
        types = {error["type"] for error in cause.errors()}
        assert types <= SENTENCES.keys() | {"value_error", "extra_forbidden"}
