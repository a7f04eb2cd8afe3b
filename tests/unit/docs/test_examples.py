"""The manifests in examples and documentation are valid."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from dedupe_crds.manifest import load_manifest, parse_manifest
from dedupe_crds.spec.snapshots import SnapshotProvider
from dedupe_crds.spec.stream import API_VERSION
from dedupe_crds.spec.stream import KIND as STREAM_KIND
from dedupe_crds.status.snapshot import KIND, SnapshotSpec
from dedupe_pipeline.jobs.aggregate.job_file import AggregateJob, load_job

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "examples").rglob("*.yaml"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def documents(text: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(text) if isinstance(each, dict)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_object_of_an_example_is_one_the_api_server_takes(path: Path) -> None:
    found = documents(path.read_text())
    assert found
    if path.name == "aggregate.yaml":
        load_job(path)
        return
    for each in found:
        if each["kind"] == STREAM_KIND:
            parse_manifest(each, path.name)
        elif each["kind"] == KIND:
            assert each["apiVersion"] == API_VERSION
            SnapshotSpec.model_validate(each["spec"])
        else:
            assert each["metadata"]["name"]


@pytest.mark.parametrize("provider", SnapshotProvider)
def test_there_is_an_example_of_every_provider_of_snapshots(provider: SnapshotProvider) -> None:
    path = ROOT / f"examples/kubernetes/snapshots-{provider.lower()}.yaml"
    snapshots = load_manifest(path).spec.snapshots
    assert snapshots is not None
    assert snapshots.provider is provider


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_stream_in_the_documentation_is_a_good_one(page: Path) -> None:
    for text in re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        for each in documents(text):
            if each.get("kind") == STREAM_KIND:
                parse_manifest(each, page.name)
            elif "measures" in each:
                AggregateJob.model_validate(each, by_alias=True, by_name=False)
            elif "provider" in each.get("snapshots", {}):
                stream = load_manifest(ROOT / "examples/kubernetes/snapshots-csi.yaml")
                spec = stream.spec.model_dump(mode="json", by_alias=True, exclude_none=True)
                document = {
                    "apiVersion": API_VERSION,
                    "kind": STREAM_KIND,
                    "metadata": {"name": "orders"},
                    "spec": spec | each,
                }
                parse_manifest(document, page.name)
