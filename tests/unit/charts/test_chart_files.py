"""Checks of the chart's files without helm."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from charts.values_page import PAGE, page
from dedupe_crds.openapi import CUSTOM_RESOURCES
from dedupe_crds.spec.pod import PodShape

CHART = Path(__file__).parents[3] / "charts/dedupestream"
PROJECT = Path(__file__).parents[3] / "pyproject.toml"


def values() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    return loaded


@pytest.fixture(name="schema")
def _schema() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
    return loaded


def properties(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for name, field in node.get("properties", {}).items():
        yield f"{path}.{name}", field
        yield from properties(field, f"{path}.{name}")


def leaves(node: object, path: str = "") -> Iterator[str]:
    if isinstance(node, dict) and node:
        for name, inner in node.items():
            yield from leaves(inner, f"{path}.{name}")
    else:
        yield path


def test_the_charts_definitions_are_the_generated_ones() -> None:
    files = {
        path.stem: yaml.safe_load(path.read_text()) for path in (CHART / "files/crds").iterdir()
    }
    definitions = [resource.definition() for resource in CUSTOM_RESOURCES]
    assert files == {each["metadata"]["name"]: {"spec": each["spec"]} for each in definitions}


def test_the_chart_has_the_version_of_the_project() -> None:
    (version,) = re.findall(r'^version = "(.+)"$', PROJECT.read_text(), re.MULTILINE)
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version, version)


def test_every_value_is_described(schema: dict[str, Any]) -> None:
    for path, field in [*properties(schema), *properties(schema["definitions"]["image"])]:
        assert field.get("description", "").endswith("."), path


def test_unknown_names_are_refused_at_every_level(schema: dict[str, Any]) -> None:
    for path, field in [("", schema), *properties(schema)]:
        if "properties" in field:
            assert field["additionalProperties"] is False, path


def test_every_default_is_in_the_schema_and_every_name_in_it_has_a_default(
    schema: dict[str, Any],
) -> None:
    known = {path for path, _ in properties(schema)}
    by_reference = {path for path, field in properties(schema) if "$ref" in field}
    given = set(leaves(values()))
    unknown = {path for path in given if path not in known}
    assert all(any(path.startswith(f"{owner}.") for owner in by_reference) for path in unknown)
    top_level = {path for path in known if path.count(".") == 1} - {".global"}
    assert top_level == {f".{name}" for name in values()}


def test_the_table_of_values_is_the_generated_one() -> None:
    assert PAGE.read_text() == page(), "run python -m charts.values_page"


def test_the_defaults_of_pods_have_the_names_of_the_streams_fields(schema: dict[str, Any]) -> None:
    names = {field.alias for field in PodShape.model_fields.values()}
    assert schema["properties"]["worker"]["properties"]["pod"]["properties"].keys() == names


def test_the_dashboards_panels_are_told_apart_and_do_not_overlap() -> None:
    dashboard = json.loads((CHART / "files/dashboard.json").read_text())
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {
            (at["x"] + right, at["y"] + down) for right in range(at["w"]) for down in range(at["h"])
        }
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        taken |= cells


def leaves_of(node: object, path: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(node, dict):
        for name, inner in node.items():
            yield from leaves_of(inner, f"{path}.{name}")
    elif isinstance(node, list):
        for number, inner in enumerate(node):
            yield from leaves_of(inner, f"{path}[{number}]")
    else:
        yield path, node


def as_grafana_reads(dashboard: dict[str, Any]) -> dict[str, object]:
    """The leaves of a dashboard after Grafana's own model has read and written it."""
    register_default_plugins()  # the options of each kind of panel
    written = JSONEncoder(sort_keys=True).encode(Dashboard.from_json(dashboard))
    return dict(leaves_of(json.loads(written)))


def test_grafanas_own_model_knows_each_field_of_the_dashboard() -> None:
    dashboard = json.loads((CHART / "files/dashboard.json").read_text())
    known = as_grafana_reads(dashboard)
    assert [path for path, value in leaves_of(dashboard) if known.get(path) != value] == []
    dashboard["panels"][1]["options"]["colourMode"] = "value"
    assert ".panels[1].options.colourMode" not in as_grafana_reads(dashboard)


def test_the_dashboard_can_be_imported_and_found_again() -> None:
    dashboard = json.loads((CHART / "files/dashboard.json").read_text())
    # Grafana refuses a dashboard without a title, with a uid of other form, or with the number of another database.
    assert dashboard["title"]
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,40}", dashboard["uid"])
    assert "id" not in dashboard
    assert "__inputs" not in dashboard  # only its web page asks for them, the sidecar does not
    for panel in dashboard["panels"]:
        references = [target["refId"] for target in panel.get("targets", [])]
        assert len(set(references)) == len(references), panel["title"]


def test_every_panel_asks_the_chosen_data_source() -> None:
    dashboard = json.loads((CHART / "files/dashboard.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
