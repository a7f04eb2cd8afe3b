"""Which store a manifest gets, and what becomes of the one of another type."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from dedupe_crds.manifest import load_manifest
from dedupe_kafka.errors import InvalidConfig
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.config import load_config
from dedupe_worker.store.column_families import CURRENT
from dedupe_worker.store.inverse_bloom.segments import MANIFEST
from dedupe_worker.store.inverse_bloom.store import InverseBloomStore
from dedupe_worker.store.rocksdb import Store
from tests.unit.crds.manifests import CONFLICTS, DUPLICATES, changed
from tests.unit.worker.stores import count_known, random_ids, remember

TABLE: dict[str, Any] = {"spec.store": {"type": "InverseBloom", "inverseBloom": {"slots": 100_000}}}


def parts(directory: Path, changes: dict[str, Any]) -> ComponentFactory:
    manifest = directory / "stream.yaml"
    manifest.write_text(yaml.safe_dump(changed(changes)))
    config = load_config(
        manifest=manifest, partition=0, state_dir=directory / "state", kafka_properties=None
    )
    return ComponentFactory(replace(config, stream=load_manifest(manifest)))


@pytest.mark.parametrize(("before", "after"), [({}, TABLE), (TABLE, {})], ids=["to", "from"])
def test_a_store_of_another_type_is_discarded_to_be_rebuilt(
    tmp_path: Path, before: dict[str, Any], after: dict[str, Any]
) -> None:
    store = parts(tmp_path, before).make_store()
    remember(store, random_ids(1, 1_000), position=1_000)
    store.close()
    again = parts(tmp_path, before).make_store()
    assert count_known(again, random_ids(1, 1_000)) > 950
    again.close()

    other = parts(tmp_path, after).make_store()
    assert isinstance(other, InverseBloomStore if after else Store)
    assert other.metadata is None, "so that all of the output is read"
    assert not (tmp_path / "state" / "db" / (CURRENT if after else MANIFEST)).exists()
    other.close()


def test_a_slot_is_as_wide_as_what_the_stream_remembers(tmp_path: Path) -> None:
    conflicts = {"conflicts": {"policy": "Topic", "topic": "contradictions"}}
    wide = parts(tmp_path, TABLE | {"spec.conflicts": conflicts["conflicts"]}).make_store()
    assert wide.generations()[0].size_bytes == 100_000 * (16 + 18)
    wide.close()


@pytest.mark.parametrize(
    "routes",
    [{}, DUPLICATES, CONFLICTS, DUPLICATES | CONFLICTS],
    ids="+".join,
)
def test_the_manifest_reckons_with_the_slots_that_a_worker_makes(
    tmp_path: Path, routes: dict[str, Any]
) -> None:
    of_stream = parts(tmp_path, TABLE | routes)
    store = of_stream.make_store()
    assert store.generations()[0].size_bytes == of_stream.config.stream.spec.table_bytes
    store.close()


def test_a_table_that_is_refused_costs_no_store(tmp_path: Path) -> None:
    store = parts(tmp_path, {}).make_store()
    remember(store, random_ids(1, 1_000), position=1_000)
    store.close()
    too_large = {"type": "InverseBloom", "inverseBloom": {"slots": 2**32}}
    with pytest.raises(InvalidConfig, match=r"spec\.store\.inverseBloom"):
        parts(tmp_path, {"spec.store": too_large}).make_store()
    again = parts(tmp_path, {}).make_store()
    assert count_known(again, random_ids(1, 1_000)) == 1_000
    again.close()
